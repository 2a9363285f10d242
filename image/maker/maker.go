// Package maker makes images by starting wolffia-oci. That works where the ids of an image's files
// are those of the image: in a user namespace in which the caller is root and the caller's
// subordinate ids are the others, or in which the caller is the only user.
package maker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"

	"wolffia/image/store"
	"wolffia/internal/host/boot"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/userns"
	"wolffia/runtime"
)

// Program is the name of the program.
const Program = "wolffia-oci"

// A Request is something to make. One of its parts is not nil.
type Request struct {
	StateDir string  `json:"stateDir"` // absolute
	Commit   *Commit `json:"commit,omitempty"`
	Export   *Export `json:"export,omitempty"`
	Fill     *Fill   `json:"fill,omitempty"`
	// Parse is the content of a Dockerfile.
	Parse []byte `json:"parse,omitempty"`
}

// A Commit is an image to make of a layer. The caller has its parent from Pin.
type Commit struct {
	Parent string `json:"parent,omitempty"` // id; "" for none
	// Upper is the layer, the upper directory of an overlay that is not mounted; "" for the
	// parent's files. With Move it is moved, else copied.
	Upper string `json:"upper,omitempty"`
	Move  bool   `json:"move,omitempty"`
	// Skip are names in it that are left out with all below them.
	Skip []string `json:"skip,omitempty"`
	// UpperIDs are the ids of its owners, if they are not those of the namespace: the caller is
	// root.
	UpperIDs *store.IDs `json:"upperIds,omitempty"`
	// Recipe makes a layer in place of Upper.
	Recipe *Recipe `json:"recipe,omitempty"`

	// Config replaces the configuration's object of that name; nil for the parent's.
	Config    *Config  `json:"config,omitempty"`
	CreatedBy string   `json:"createdBy,omitempty"` // for the history
	Before    []string `json:"before,omitempty"`    // for the history, of what has made no layer
	Author    string   `json:"author,omitempty"`
	Step      string   `json:"step,omitempty"`  // see store.Image
	Names     []string `json:"names,omitempty"` // canonical
}

// A Fill follows a recipe in a directory of the host, which belongs to the caller.
type Fill struct {
	Recipe *Recipe `json:"recipe"`
	Dir    string  `json:"dir"` // absolute
}

// An Export is an image to write. The caller has it from Pin.
type Export struct {
	ID     string   `json:"id"`
	Names  []string `json:"names,omitempty"` // for the file, canonical
	Path   string   `json:"path"`            // absolute; it does not exist
	Format string   `json:"format"`          // one of Formats
}

// Formats are how an image can be written: a directory that is an OCI image layout, a tar archive of
// one, and what docker save writes.
const (
	FormatDir    = "oci-dir"
	FormatOCI    = "oci"
	FormatDocker = "docker"
)

// FDResult is the descriptor that the program writes a Result to.
const FDResult = 3

// A Result is the output of the program, as JSON.
type Result struct {
	ID     string          `json:"id,omitempty"`     // of the image that was made
	Cached bool            `json:"cached,omitempty"` // it was there
	Digest string          `json:"digest,omitempty"` // of the manifest that was written, or of what fills
	Parsed json.RawMessage `json:"parsed,omitempty"`
	// Skipped says what of archives was left out; it has hostile names.
	Skipped string `json:"skipped,omitempty"`
	boot.Failure
}

// maxResult bounds the bytes of the program's output.
const maxResult = 64 << 20

// Run runs the program, an open file, and returns what it has made. ids are the user's subordinate
// ids, or nil for a namespace with the user only; without those no image with files of several
// owners can be made. If ctx or this process ends, the program cleans up and ends. Errors are of
// the classes of runtime.
func Run(ctx context.Context, program *os.File, ids *userns.IDs, req *Request) (*Result, error) {
	input, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	output, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	defer output.Close()
	complaints, complain, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, input.Close(), out.Close())
	}
	defer complaints.Close()
	text, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	files := []*os.File{0: input, 2: complain, FDResult: out, FDResult + 1: program} // 1 is the stage's
	c := &child.Command{
		Path: "/proc/self/fd/" + strconv.Itoa(FDResult+1), Args: []string{Program, "make", strconv.Itoa(len(text))},
		Env: append(boot.Environ(), "PATH=/usr/bin:/bin"), Files: files,
	}
	started, err := start(ids, c)
	_, _, _ = input.Close(), out.Close(), complain.Close()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "start %s: %w; wolffia doctor says why and what helps", Program, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = hold.Close() })
	defer stop()
	go func() { _, _ = hold.Write(text) }() // ends with the pipe
	said := make(chan []byte, 1)
	go func() { said <- readUpTo(complaints, 4096) }() // ends with the program
	answer := readUpTo(output, maxResult)
	complaint := <-said
	_ = started.Wait()
	r := new(Result)
	switch err := json.Unmarshal(answer, r); {
	case err == nil && r.Error == "":
		return r, nil
	case err == nil:
		return nil, errors.Join(ctx.Err(), r.Err())
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "%s ended without a result (%w) %s", Program, started.Failure(), complaint)
}

// readUpTo reads to the end, and returns the first bytes, most or less.
func readUpTo(r io.Reader, most int64) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, most))
	_, _ = io.Copy(io.Discard, r)
	return b
}

// start starts the program in its namespaces.
func start(ids *userns.IDs, c *child.Command) (*child.Child, error) {
	switch {
	case os.Geteuid() == 0:
		c.Attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		return child.Start(c)
	case ids != nil:
		return ids.Start(c)
	}
	c.Attr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	return child.Start(c)
}
