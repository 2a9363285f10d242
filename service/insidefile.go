package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"wolffia/internal/filecall"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// What a sandbox is asked about its files: see package filecall.
type (
	FileRequest = filecall.Request
	FileReply   = filecall.Reply
	FileInfo    = filecall.Info
	FileMode    = filecall.Mode
	FileMove    = filecall.Move
	FileReplace = filecall.Replace
	FileTarget  = filecall.Target
)

// The operations of a [FileRequest].
const (
	FileOpInfo    = filecall.OpInfo
	FileOpList    = filecall.OpList
	FileOpSearch  = filecall.OpSearch
	FileOpRemove  = filecall.OpRemove
	FileOpRmdir   = filecall.OpRmdir
	FileOpMkdir   = filecall.OpMkdir
	FileOpMode    = filecall.OpMode
	FileOpMove    = filecall.OpMove
	FileOpReplace = filecall.OpReplace
	FileOpHost    = filecall.OpHost
)

// The largest [FileRequest] and the largest reply to one, in bytes.
const (
	maxFileRequest = 8 << 20
	maxFileReply   = 16 << 20
)

// Path returns the absolute path that a name has in the sandbox: a relative one is below the
// mount point. The error is of class [runtime.ErrInvalid]: also for bytes that are not UTF-8, which would be
// the name of another file in a [FileRequest].
func (i *Inside) Path(name string) (string, error) {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: not a path", name)
	case !utf8.ValidString(name):
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: it must be UTF-8; rename the file by a command", name)
	}
	if !path.IsAbs(name) {
		name = path.Join(i.box.MountPoint, name)
	}
	return path.Clean(name), nil
}

// Files does a request about files, whose paths must be absolute, as a process in the
// sandbox. What the reply says must not be trusted: the sandbox can forge it.
func (i *Inside) Files(ctx context.Context, q *FileRequest) (*FileReply, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileRequest {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the request has %d bytes, the limit is %d", len(text), maxFileRequest)
	}
	r, err := i.fleet.rt.Exec(ctx, i.box.ID, &runtime.Command{
		Command: []string{launch.GuestPath, filecall.Arg}, Cwd: ownDir, Stdin: bytes.NewReader(text), Timeout: insideLimit, MaxOutput: maxFileReply,
	})
	switch {
	case err != nil:
		return nil, cannotRun(i.box.ID, err)
	case r.TimedOut:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: no reply within %v", i.box.ID, insideLimit)
	}
	return replyOf(i.box.ID, q, r)
}

// replyOf returns what the program for files has answered to a request.
func replyOf(sandboxID string, q *FileRequest, r *runtime.Result) (*FileReply, error) {
	if r.ExitCode != 0 || r.Truncated() {
		return nil, fileError(q.Op, r)
	}
	var reply FileReply
	if err := json.Unmarshal(r.Stdout, &reply); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: the reply is damaged", sandboxID)
	}
	if e := reply.Err; e != nil {
		return nil, runtime.Errorf(classOf(e.Kind), "%.1000s", e.Message)
	}
	return &reply, nil
}

// classOf returns the class of an error in a sandbox.
func classOf(kind string) error {
	switch kind {
	case filecall.KindMissing, filecall.KindNotDir, filecall.KindLoop:
		return runtime.ErrNotFound
	case filecall.KindExists:
		return runtime.ErrExists
	case filecall.KindDenied:
		return runtime.ErrDenied
	case filecall.KindInvalid, filecall.KindNotRegular, filecall.KindTooLarge, filecall.KindName:
		return runtime.ErrInvalid
	}
	return runtime.ErrUnavailable
}

// cannotRun explains that the program for files does not run in a sandbox.
func cannotRun(id string, err error) error {
	if start, ok := errors.AsType[*runtime.StartError](err); ok {
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s cannot run its program for files: %s", id, start.Message)
	}
	return err
}

// A FilePart is a part of a file that is being read. The caller closes it.
type FilePart struct {
	io.Reader
	// Size is that of the file, Start the offset of the part, both in bytes. Bytes is how
	// many follow, -1 if that is not known.
	Size, Start, Bytes int64

	p    runtime.Process
	stop func() bool
}

// Close ends the reading.
func (f *FilePart) Close() error {
	f.stop()
	return f.p.Close()
}

// ReadPart reads a file, whose path must be absolute, from an offset in bytes on, which counts
// from the end if it is negative; at most most bytes, and all if most is negative. Errors are
// those of [SandboxDriver].ReadFile.
func (i *Inside) ReadPart(ctx context.Context, name string, from, most int64) (*FilePart, error) {
	return i.read(ctx, "read", name, from, most)
}

// ReadRange returns a part of a file as ReadPart does, of at most [MaxFile] bytes, and the
// offset of the part and the size of the file. For the name see [Path].
func (i *Inside) ReadRange(ctx context.Context, name string, from, most int64) (content []byte, at, size int64, err error) {
	if most < 0 || most > MaxFile {
		return nil, 0, 0, runtime.Errorf(runtime.ErrInvalid, "%d bytes: it must be from 0 to %d", most, MaxFile)
	}
	if name, err = Path(i.box.MountPoint, name); err != nil {
		return nil, 0, 0, err
	}
	part, err := i.ReadPart(ctx, name, from, most)
	if err != nil {
		return nil, 0, 0, err
	}
	defer part.Close()
	content, err = io.ReadAll(part)
	if err == nil && int64(len(content)) < part.Bytes {
		err = runtime.Errorf(runtime.ErrUnavailable, "%q: it was cut off while it was read", name)
	}
	return content, part.Start, part.Size, err
}

// ReadLines reads lines of a file as ReadPart reads bytes. The first line has number 1.
func (i *Inside) ReadLines(ctx context.Context, name string, first, most int64) (*FilePart, error) {
	return i.read(ctx, "lines", name, first, most)
}

// maxHead is the longest first line of what the program for files prints.
const maxHead = 4096

func (i *Inside) read(ctx context.Context, how, name string, from, most int64) (_ *FilePart, err error) {
	p, err := i.fleet.rt.StartProcess(ctx, i.box.ID, &runtime.Command{
		Command: []string{launch.GuestPath, how, strconv.FormatInt(from, 10), strconv.FormatInt(most, 10), name}, Cwd: ownDir,
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer func() {
		if err != nil {
			stop()
			err = errors.Join(err, p.Close())
		}
	}()
	out := bufio.NewReaderSize(p.Stdout(), maxHead)
	line, err := out.ReadSlice('\n')
	var h filecall.Head
	if err != nil || json.Unmarshal(line, &h) != nil || h.Start < 0 || h.Size < 0 || h.Bytes < -1 {
		return nil, i.failed(ctx, p, name)
	}
	var content io.Reader = out
	if h.Bytes >= 0 {
		content = io.LimitReader(out, h.Bytes)
	}
	return &FilePart{content, h.Size, h.Start, h.Bytes, p, stop}, nil
}

// failed returns the error of the program for files, which has said nothing useful.
func (i *Inside) failed(ctx context.Context, p runtime.Process, name string) error {
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	stderr := make(chan []byte, 1)
	go func() { // ends with the process
		text, _ := io.ReadAll(io.LimitReader(p.Stderr(), 1<<10))
		stderr <- text
	}()
	exit, err := p.Wait(ctx)
	if err != nil {
		return cannotRun(i.box.ID, err)
	}
	select {
	case exit.Stderr = <-stderr:
	case <-ctx.Done():
	}
	return fileError(name, &exit)
}

// giveUpLimit is how long a write that fails may take to undo what it has done.
const giveUpLimit = 10 * time.Second

// WriteFile makes what r has the content of a file, whose path must be absolute, as
// [SandboxDriver].WriteFiles does, and then sets its mode. If reading r fails, nothing is
// changed, and the error wraps the reader's.
func (i *Inside) WriteFile(ctx context.Context, t *FileTarget, r io.Reader) error {
	p, err := i.fleet.rt.StartProcess(ctx, i.box.ID, &runtime.Command{Command: []string{launch.GuestPath, "write"}, Cwd: ownDir, OpenStdin: true})
	if err != nil {
		return err
	}
	defer p.Close()
	sent := make(chan error, 1)
	go func() { sent <- send(p.Stdin(), t, r) }() // ends with r, or with the process
	stop := context.AfterFunc(ctx, func() {
		_ = p.Stdin().Close() // it undoes what it has done
		time.AfterFunc(giveUpLimit, func() { _ = p.Close() })
	})
	defer stop()
	ended := make(chan struct{})
	var exit runtime.Result
	go func() { // ends with the process
		exit, err = p.Wait(context.Background())
		close(ended)
	}()
	var reading error
	select {
	case reading = <-sent:
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), insideLimit)
		defer cancel()
		select {
		case <-ended:
		case <-limit.Done():
			return runtime.Errorf(runtime.ErrUnavailable, "%q: the sandbox has not finished writing", t.Path)
		}
	case <-ended: // it failed before it had all
		reading = <-sent // nothing reads r any more
	}
	var bad *badContent
	switch {
	case errors.As(reading, &bad):
		return bad.error
	case err != nil:
		return cannotRun(i.box.ID, err)
	case exit.ExitCode != 0:
		return i.failed(ctx, p, t.Path)
	}
	return ctx.Err()
}

// badContent is the error of the reader that WriteFile was given.
type badContent struct{ error }

// send sends a file to the program for files. It closes w.
func send(w io.WriteCloser, t *FileTarget, r io.Reader) error {
	s, err := filecall.NewSender(w, t)
	if err != nil {
		return err
	}
	for buf := make([]byte, 256<<10); ; {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := s.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return s.End()
		case err != nil:
			return &badContent{errors.Join(err, s.Close())}
		}
	}
}
