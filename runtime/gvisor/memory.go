package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/runsc"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A kept is the record of a kept memory, the first of launch.MemoryFiles: what gVisor restores it
// with must be the same.
type kept struct {
	Runsc string `json:"runsc"` // its version, with our patches
	Guest string `json:"guest"` // the SHA-256 of PID 1's program, which is mapped in the memory
	// File is which file that is, and in which state: while it is equal, so is Guest.
	File guestFile  `json:"file,omitzero"`
	Spec specs.Spec `json:"spec"`
	// Boot is the boot_id (random(4)) of the machine, if the memory may not be on the disk.
	Boot string `json:"boot,omitempty"`
}

// A guestFile tells files, and their states, apart. Only the kernel sets Changed.
type guestFile struct {
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`    // in bytes
	Changed int64  `json:"changed"` // its ctime, in ns since 1970
}

// keptNow returns the record of a memory that is kept now. was is an earlier record, or nil.
func keptNow(spec *launch.Spec, config *specs.Spec, was *kept) (*kept, error) {
	version, err := runsc.VersionOf(context.Background(), spec.Program)
	if err != nil {
		return nil, fmt.Errorf("version of runsc: %w", err)
	}
	guest, err := os.Open(spec.Guest)
	if err != nil {
		return nil, err
	}
	defer guest.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(guest.Fd()), &st); err != nil {
		return nil, err
	}
	k := &kept{Runsc: version, File: guestFile{st.Dev, st.Ino, st.Size, st.Ctim.Nano()}, Spec: *config}
	if was != nil && was.File == k.File {
		k.Guest = was.Guest
	} else {
		sum := sha256.New()
		if _, err := io.Copy(sum, guest); err != nil {
			return nil, err
		}
		k.Guest = hex.EncodeToString(sum.Sum(nil))
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	k.Boot = strings.TrimSpace(string(id))
	return k, err
}

// maxRecord bounds a record, in bytes.
const maxRecord = 4 << 20

// readKept reads the record of a kept memory.
func readKept(from *os.File) (*kept, error) {
	k := new(kept)
	err := json.NewDecoder(io.NewSectionReader(from, 0, maxRecord)).Decode(k)
	if err == nil && (k.Spec.Process == nil || len(k.Spec.Process.Args) == 0) {
		err = errors.New("it has no process")
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable,
			"the kept memory is damaged: %s: %w", launch.MemoryFiles[0], err)
	}
	return k, nil
}

// fit returns the configuration of now, with what runsc wants to be as it was, or why the memory
// cannot be restored: gVisor would not, or its programs would run on with other code. The
// sources of mounts and the hostname may differ.
func (k *kept) fit(now *kept) (*specs.Spec, error) {
	was, is := &k.Spec, now.Spec
	switch {
	case k.Runsc != now.Runsc:
		return nil, misfit("by runsc %.80s, and this is %s: use that runsc", k.Runsc, now.Runsc)
	case k.Boot != "" && k.Boot != now.Boot:
		return nil, misfit("before the machine was restarted, and may not have been on the disk: only snapshots are")
	case k.Guest != now.Guest:
		return nil, misfit("by another wolffia, whose wolffia-guest runs in it: use that wolffia")
	case is.Process == nil || !slices.Equal(allButLast(was.Process.Args), allButLast(is.Process.Args)):
		return nil, misfit(
			"of a PID 1 with other arguments (%.500q, now %.500q): give the sandbox the limits and settings "+
				"that it had", was.Process.Args, is.Process.Args)
	}
	before, after := byTarget(was.Mounts), byTarget(is.Mounts)
	for _, target := range slices.Sorted(maps.Keys(before)) {
		switch options, has := after[target]; {
		case !has:
			return nil, misfit("with a mount at %.200q, which the sandbox does not have now", target)
		case !slices.Equal(options, before[target]):
			return nil, misfit(
				"with a mount at %.200q of other options (%.200q, now %.200q)", target, before[target], options)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(after)) {
		if _, had := before[target]; !had {
			return nil, misfit("without a mount at %.200q, which the sandbox has now", target)
		}
	}
	process := *is.Process
	process.Args, process.Env = was.Process.Args, was.Process.Env // its last argument, and its processors
	is.Process = &process
	return &is, nil
}

// restorable returns the configuration with which runsc restores spec.Memory, in place of now, and
// makes what it reads that from.
func restorable(spec *launch.Spec, now *specs.Spec) (*specs.Spec, error) {
	was, err := readKept(spec.Memory[0])
	if err != nil {
		return nil, err
	}
	is, err := keptNow(spec, now, was)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "restore the memory: %w", err)
	}
	if now, err = was.fit(is); err != nil {
		return nil, err
	}
	return now, linkMemory(spec.Dir)
}

func misfit(format string, a ...any) error {
	return runtime.Errorf(runtime.ErrConflict, "the memory was kept "+format, a...)
}

func allButLast(args []string) []string { return args[:max(len(args)-1, 0)] }

// byTarget returns the type and the options of each mount.
func byTarget(mounts []specs.Mount) map[string][]string {
	all := map[string][]string{}
	for _, m := range mounts {
		all[m.Destination] = append([]string{m.Type}, slices.Sorted(slices.Values(m.Options))...)
	}
	return all
}

// saveLimit is how long gVisor may take to write its memory: a slow disk writes 60 GB meanwhile.
const saveLimit = 10 * time.Minute

// save writes launch.MemoryFiles to a directory. complete writes the record, which now returns.
func save(
	state, tag string, dir *os.File, now func() (*kept, error),
) (complete func(durable bool) error, err error) {
	var files []*os.File
	closed := func() (err error) {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(runtime.Errorf(runtime.ErrUnavailable, "keep the memory: %w", err), closed())
		}
	}()
	for _, name := range launch.MemoryFiles {
		const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		fd, err := unix.Openat(int(dir.Fd()), name, flags, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	arg := struct {
		Metadata map[string]string `json:"metadata"`
		Pages    bool              `json:"have_pages_file"`
		Resume   bool
	}{map[string]string{"compression": "none"}, true, true}
	var k *kept
	made := make(chan error, 1)
	go func() { // ends soon; it reads PID 1's program meanwhile
		var err error
		k, err = now()
		made <- err
	}()
	err = call(state, tag, methodSave, arg, saveLimit, files[1:]...)
	if err != nil && strings.Contains(err.Error(), unix.ENOSPC.Error()) { // gVisor's kernel has no other word for it
		err = fmt.Errorf("the disk of the state directory has no room for what the programs use: free some: %w", err)
	}
	if err = errors.Join(err, <-made); err != nil {
		return nil, err
	}
	return func(durable bool) (err error) {
		if durable {
			k.Boot = ""
			err = syncAll(files[1:]...)
		}
		if err == nil {
			err = json.NewEncoder(files[0]).Encode(k)
		}
		if err == nil && durable {
			err = syncAll(files[0], dir)
		}
		if err = errors.Join(err, closed()); err != nil {
			err = runtime.Errorf(runtime.ErrUnavailable, "keep the memory: %w", err)
		}
		return err
	}, nil
}

// syncAll waits until files are on the disk: all at once, which a file system with a journal does in
// one transaction.
func syncAll(files ...*os.File) error {
	errs := make([]error, len(files))
	var all sync.WaitGroup
	for i, f := range files {
		all.Go(func() { errs[i] = f.Sync() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// memoryDir is the name of the directory, in launch.Spec.Dir, that runsc reads a kept memory from.
const memoryDir = "memory"

// linkMemory makes that directory: links to the descriptors of stage from fdMemory on. So runsc
// needs no right to the directory that the memory is kept in.
func linkMemory(in string) error {
	dir := filepath.Join(in, memoryDir)
	err := os.Mkdir(dir, 0o700)
	for i, name := range launch.MemoryFiles[1:] {
		err = errors.Join(err, os.Symlink("/proc/self/fd/"+strconv.Itoa(fdMemory+i), filepath.Join(dir, name)))
	}
	return err
}

// gone is how gVisor says that a file was removed on the host.
var gone = regexp.MustCompile(`failed to walk "([^"]*)" of type [0-9a-zA-Z]+ in mount "[^":]*:([^"]*)"`)

// explain returns why a memory was not restored, from runsc's error output; nil: it does not say.
func explain(text string) error {
	if m := gone.FindStringSubmatch(text); m != nil {
		return runtime.Errorf(runtime.ErrConflict,
			"the host has removed or replaced %.1000q since the memory was kept, which a process inside has "+
				"open, or is in: put it back", filepath.Join(m[2], m[1]))
	}
	return nil
}
