package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/pidfd"
)

// Limits are what a group may use of the machine. 0 is no limit.
type Limits struct {
	Memory int64   // bytes, swap included
	CPUs   float64 // processors' time
	PIDs   int64   // processes and threads
}

// Wants are the controllers that l needs.
func (l *Limits) Wants() []string {
	var all []string
	for _, c := range []struct {
		name string
		on   bool
	}{{CPU, l.CPUs > 0}, {Memory, l.Memory > 0}, {PIDs, l.PIDs > 0}} {
		if c.on {
			all = append(all, c.name)
		}
	}
	return all
}

// A Group is a sandbox's own, by its directories: of version 1 one for each
// controller; of version 2 one, for "". As JSON it is found again.
type Group struct {
	Dirs map[string]string `json:"dirs"`

	enable []string // of version 2: what is to be switched on in its parent
}

// Of returns the group that a process is in if that, or a scope that it is in,
// has a name that begins so; else nil. To be asked of one that was filled.
func Of(pid int, prefix string) *Group {
	g := &Group{Dirs: map[string]string{}}
	text := read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	for _, c := range []string{"", CPU, Memory, PIDs} {
		path := pathOf(text, c)
		if base := filepath.Base(path); base == innerGroup || base == serverGroup {
			path = filepath.Dir(path)
		}
		name := filepath.Base(path)
		if name == inScope {
			name = filepath.Base(filepath.Dir(path))
		}
		if strings.HasPrefix(name, prefix) {
			g.Dirs[c] = filepath.Join(mount, c, path)
		}
	}
	if len(g.Dirs) == 0 {
		return nil
	}
	return g
}

// inScope is the name of a group that is in a scope of its own.
const inScope = "sandbox"

// Of version 2 a group has no processes itself, but groups for them: those of the
// sandbox, of which processes are counted, and the one that serves it.
const (
	innerGroup  = "inside"
	serverGroup = "beside"
)

// Open decides where the group is, which is all that has been done when it
// returns, and so the time to write it down; unless systemd has been asked: then
// the processes are in a scope, which systemd ends with them. The process pid is held,
// and a child's child of the caller's at most; server is that of Fill.
func (p *Plan) Open(ctx context.Context, name string, pid, server int) (*Group, error) {
	g := &Group{Dirs: map[string]string{}, enable: p.enable}
	if p.socket == "" {
		for c, dir := range p.parents {
			g.Dirs[c] = filepath.Join(dir, name)
		}
		return g, nil
	}
	// Systemd takes a moment to forget a scope, so the next one has another name.
	path, err := startScope(ctx, p.socket, fmt.Sprintf("%s-%d.scope", name, pid), pid, server)
	if err != nil {
		return nil, fmt.Errorf("ask systemd for a control group: %w", err)
	}
	g.Dirs[""], g.enable = filepath.Join(mount, path, inScope), p.wants
	return g, nil
}

// Fill makes the group, moves the process there, and sets the limits: whatever
// the process does from then on, and what it starts, is bound by them. The process
// server, if not 0, uses memory and processors on its behalf, and is bound by the limits
// of these together with it. If Fill fails the processes may be in there; the caller
// ends them, and calls Remove.
func (g *Group) Fill(l *Limits, pid, server int) error {
	all := g.all()
	for _, dir := range all {
		// Whoever root drops to may look, whatever the umask.
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			return fmt.Errorf("make a control group: %w", err)
		}
	}
	// Switching controllers on is refused as long as a process is in the parent,
	// which may be the one to move.
	if err := g.move(pid, server); err != nil {
		return err
	}
	if dir := g.Dirs[""]; dir != "" {
		err := enable(filepath.Dir(dir), g.enable)
		if err == nil {
			// The two parts share memory as they come, and processors evenly: whoever
			// serves is not kept from it by those whom it serves.
			err = enable(dir, without(l.Wants(), []string{Memory}))
		}
		if err != nil {
			return err
		}
	}
	return g.limit(l)
}

// all are the directories of g, those first that others are in.
func (g *Group) all() []string {
	var all []string
	for _, c := range slices.Sorted(maps.Keys(g.Dirs)) {
		if all = append(all, g.Dirs[c]); c == "" {
			all = append(all, filepath.Join(g.Dirs[c], innerGroup), filepath.Join(g.Dirs[c], serverGroup))
		}
	}
	return all
}

// enable switches controllers on for the groups in dir.
func enable(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return write(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
}

func (g *Group) move(pid, server int) error {
	enter := func(dir string, pid int) error {
		return write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	}
	for c, dir := range g.Dirs {
		serverDir := dir
		if c == "" {
			dir, serverDir = filepath.Join(dir, innerGroup), filepath.Join(dir, serverGroup)
		}
		err := enter(dir, pid)
		if err == nil && server != 0 && c != PIDs {
			err = enter(serverDir, server)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// period is the time in which a limited share of the processors is counted, in
// microseconds; it is the kernel's default.
const period = 100_000

func (g *Group) limit(l *Limits) error {
	memory, cpu, pids := g.dir(Memory), g.dir(CPU), g.dir(PIDs)
	quota := strconv.FormatInt(int64(l.CPUs*period), 10)
	type setting struct{ file, value string }
	var all []setting
	add := func(dir, file, value string) { all = append(all, setting{filepath.Join(dir, file), value}) }
	v1 := g.Dirs[""] == ""
	if l.Memory > 0 && v1 {
		add(memory, "memory.limit_in_bytes", strconv.FormatInt(l.Memory, 10))
	} else if l.Memory > 0 {
		add(memory, "memory.max", strconv.FormatInt(l.Memory, 10))
	}
	if l.CPUs > 0 && v1 {
		add(cpu, "cpu.cfs_period_us", strconv.Itoa(period))
		add(cpu, "cpu.cfs_quota_us", quota)
	} else if l.CPUs > 0 {
		add(cpu, "cpu.max", quota+" "+strconv.Itoa(period))
	}
	if l.PIDs > 0 {
		add(pids, "pids.max", strconv.FormatInt(l.PIDs, 10))
	}
	for _, s := range all {
		if err := write(s.file, s.value); err != nil {
			return err
		}
	}
	if l.Memory > 0 {
		return noSwap(memory, l.Memory, v1)
	}
	return nil
}

// noSwap makes the limit of memory one of memory and swap together.
func noSwap(dir string, memory int64, v1 bool) error {
	err := error(nil)
	if v1 {
		err = write(filepath.Join(dir, "memory.memsw.limit_in_bytes"), strconv.FormatInt(memory, 10))
	} else {
		err = write(filepath.Join(dir, "memory.swap.max"), "0")
	}
	if errors.Is(err, fs.ErrNotExist) {
		if strings.Count(read("/proc/swaps"), "\n") <= 1 { // a heading
			return nil
		}
		err = errors.New("this host does not count swap for a control group: boot with swapaccount=1, or switch swap off")
	}
	return err
}

// dir is where a controller's files are.
func (g *Group) dir(controller string) string {
	if dir := g.Dirs[""]; dir != "" {
		if controller == PIDs {
			return filepath.Join(dir, innerGroup)
		}
		return dir
	}
	return g.Dirs[controller]
}

// OOMKills counts the processes of the group that the kernel has killed because
// of the limit of memory. There is none without such a limit, or when the group
// is gone.
func (g *Group) OOMKills() int64 {
	file := "memory.events"
	if g.Dirs[""] == "" {
		file = "memory.oom_control"
	}
	dir := g.dir(Memory)
	if dir == "" {
		return 0
	}
	for line := range strings.Lines(read(filepath.Join(dir, file))) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			kills, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return kills
		}
	}
	return 0
}

// Remove ends what is in the group, waits for it up to limit, and removes it. A
// group that is gone is no error. A scope is systemd's to remove, which it does
// when nothing is in there.
func (g *Group) Remove(limit time.Duration) error {
	end := time.Now().Add(limit)
	var errs []error
	threads := "tasks"
	if g.Dirs[""] != "" {
		threads = "cgroup.threads"
	}
	for _, dir := range slices.Backward(g.all()) {
		err := clearOut(filepath.Join(dir, threads), end)
		if err == nil {
			err = os.Remove(dir) // rmdir(2): nothing else removes one
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("remove a control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// clearOut ends the processes of a group and waits for that. The file lists its
// threads: of a process that ends, the last thread is in the group when the list
// of processes does not have it any more.
func clearOut(file string, end time.Time) error {
	for {
		threads, err := os.ReadFile(file)
		switch {
		case err != nil || len(threads) == 0:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s still has threads", file)
		}
		for _, thread := range strings.Fields(string(threads)) {
			if thread == "0" {
				return fmt.Errorf("%s has processes that cannot be seen from here", file)
			}
			if err := kill(thread, file, end); err != nil {
				return err
			}
		}
	}
}

// kill ends the process that a thread in the group is of, and waits for that.
func kill(thread, file string, end time.Time) error {
	pid := processOf(thread)
	if pid == 0 {
		return nil
	}
	return pidfd.Kill(pid, end, func() (bool, error) {
		threads, err := os.ReadFile(file)
		return err == nil && slices.Contains(strings.Fields(string(threads)), thread) && processOf(thread) == pid, err
	})
}

// processOf returns the process of a thread; 0 if that is gone.
func processOf(thread string) int {
	for line := range strings.Lines(read("/proc/" + thread + "/status")) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "Tgid:" {
			pid, _ := strconv.Atoi(f[1])
			return pid
		}
	}
	return 0
}

// write sets a file of the kernel's.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w (to write %q)", err, value)
	}
	return nil
}
