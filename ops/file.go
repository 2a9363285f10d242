package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/runtime"
)

// MaxFile is the largest file that is read or written as a whole, in bytes.
const MaxFile = 32 << 20

// maxFileReply is the largest reply to a request about files, in bytes.
const maxFileReply = 16 << 20

// Files are the files of a sandbox, as processes in it see them. What replies say must not be
// trusted: the sandbox can forge it. Concurrent use is safe.
type Files struct {
	Client     *fileclient.Client
	Sandbox    string
	MountPoint string // of the codebase
}

// place is where file operations begin, with absolute paths: the sandbox's working directory may
// be gone, or closed.
func (f *Files) place() fileclient.Place { return fileclient.Place{Sandbox: f.Sandbox, Dir: "/"} }

// Path returns the absolute path that a name has in the sandbox: a relative one is below the mount
// point. The error is of class [runtime.ErrInvalid]: also for bytes that are not UTF-8, which
// would be the name of another file in a [FileRequest].
func (f *Files) Path(name string) (string, error) {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: not a path", name)
	case !utf8.ValidString(name):
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: it must be UTF-8; rename the file by a command", name)
	}
	if !path.IsAbs(name) {
		name = path.Join(f.MountPoint, name)
	}
	return path.Clean(name), nil
}

// FilePath is Path for a name that must be that of a file. It is cleaned lexically; processes in
// the sandbox follow its symbolic links.
func (f *Files) FilePath(name string) (string, error) {
	if name == "" || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: not the path of a file", name)
	}
	if !path.IsAbs(name) {
		name = path.Join(f.MountPoint, name)
	}
	if name = path.Clean(name); name == "/" || name == f.MountPoint {
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: not the path of a file", name)
	}
	return name, nil
}

// Within returns the path of a name, which begins at cwd if it is relative, relative to dir; ok is
// false if the name is elsewhere. It looks at the paths only.
func Within(name, cwd, dir string) (rel string, ok bool) {
	if !path.IsAbs(name) {
		name = path.Join(cwd, name)
	}
	name = path.Clean(name)
	if name == dir {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// Do does a request about files, whose paths must be absolute.
func (f *Files) Do(ctx context.Context, q *filecall.Request) (*filecall.Reply, error) {
	reply, err := f.Client.Do(ctx, f.place(), q, nil, maxFileReply)
	return reply, replyError(err)
}

// ErrFull is wrapped by the error for a file system that has no room.
var ErrFull = errors.New("no space is left")

// replyError gives an error in a reply its class.
func replyError(err error) error {
	if e, ok := errors.AsType[*filecall.Error](err); ok {
		if e.Kind == filecall.KindFull {
			return runtime.Errorf(runtime.ErrUnavailable, "%.1000s: %w", e.Message, ErrFull)
		}
		return runtime.Errorf(classOf(e.Kind), "%.1000s", e.Message)
	}
	return err
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
	case filecall.KindNoAttrs:
		return runtime.ErrUnsupported
	}
	return runtime.ErrUnavailable
}

// Read reads a file, whose path must be absolute, from an offset in bytes on, which counts from
// the end if it is negative; at most most bytes, and all if most is negative. The caller closes
// the part. A missing file is [runtime.ErrNotFound], one without read permission
// [runtime.ErrDenied], one that is not a regular file [runtime.ErrInvalid].
func (f *Files) Read(ctx context.Context, name string, from, most int64) (*fileclient.Part, error) {
	part, err := f.get(ctx, filecall.OpGet, name, from, most)
	return part, fileError(name, err)
}

// Lines reads lines of a file as Read reads bytes. The first line has number 1.
func (f *Files) Lines(ctx context.Context, name string, first, most int64) (*fileclient.Part, error) {
	part, err := f.get(ctx, filecall.OpLines, name, first, most)
	return part, fileError(name, err)
}

func (f *Files) get(ctx context.Context, op, name string, from, most int64) (*fileclient.Part, error) {
	return f.Client.Get(ctx, f.place(), &filecall.Request{Op: op, Path: name, From: from, Most: most})
}

// Range returns a part of a file as Read does, of at most [MaxFile] bytes, and the offset of the
// part and the size of the file. For the name see FilePath.
func (f *Files) Range(ctx context.Context, name string, from, most int64) (content []byte, at, size int64, err error) {
	if most < 0 || most > MaxFile {
		return nil, 0, 0, runtime.Errorf(runtime.ErrInvalid, "%d bytes: it must be from 0 to %d", most, MaxFile)
	}
	if name, err = f.FilePath(name); err != nil {
		return nil, 0, 0, err
	}
	part, err := f.Read(ctx, name, from, most)
	if err != nil {
		return nil, 0, 0, err
	}
	defer part.Close()
	content, err = readAll(name, part)
	return content, part.Start, part.Size, err
}

// Whole returns the content of a file. One that is larger than [MaxFile] is [runtime.ErrInvalid].
// For the name see FilePath.
func (f *Files) Whole(ctx context.Context, name string) ([]byte, error) {
	at, err := f.FilePath(name)
	if err != nil {
		return nil, err
	}
	part, err := f.get(ctx, filecall.OpGet, at, 0, MaxFile)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer part.Close()
	if part.Size > MaxFile {
		return nil, tooLarge(name)
	}
	return readAll(name, part)
}

// readAll reads a part of a file to its end.
func readAll(name string, part *fileclient.Part) ([]byte, error) {
	content, err := io.ReadAll(part)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%q: it was cut off while it was read", name)
	}
	return content, nil
}

func tooLarge(name string) error {
	return runtime.Errorf(runtime.ErrInvalid, "%q: larger than %d bytes", name, MaxFile)
}

// Write makes what r has the content of a file, whose path must be absolute, with missing
// directories, and then sets its mode. If reading r fails, nothing is changed, and the error wraps
// the reader's.
func (f *Files) Write(ctx context.Context, name string, mode filecall.Mode, r io.Reader) error {
	_, err := f.Client.Do(ctx, f.place(), &filecall.Request{Op: filecall.OpPut, Path: name, Mode: mode}, r, maxFileReply)
	return fileError(name, err)
}

// Store does q, of [filecall.OpStore], whose content r has, and returns the description of the file. If reading r fails, a
// part of the content may be there.
func (f *Files) Store(ctx context.Context, q *filecall.Request, r io.Reader) (*filecall.Info, error) {
	reply, err := f.Client.Do(ctx, f.place(), q, r, maxFileReply)
	if err == nil && len(reply.Infos) != 1 {
		err = runtime.Errorf(runtime.ErrUnavailable, "%q: the reply of sandbox %s is damaged", q.Path, f.Sandbox)
	}
	if err != nil {
		return nil, fileError(q.Path, err)
	}
	return &reply.Infos[0], nil
}

// Watch reports the changes that q, of [filecall.OpWatch], asks for. The caller closes it.
func (f *Files) Watch(ctx context.Context, q *filecall.Request) (*fileclient.Watch, error) {
	w, err := f.Client.Watch(ctx, f.place(), q)
	return w, replyError(err)
}

// Put gives a file a content of at most [MaxFile] bytes, as Write does; for the name see FilePath.
// With an offset in bytes it replaces what follows it in a file that exists, which then is at
// least as long.
func (f *Files) Put(ctx context.Context, name string, content []byte, offset *int64) error {
	if len(content) > MaxFile {
		return tooLarge(name)
	}
	at, err := f.FilePath(name)
	if err != nil {
		return err
	}
	if offset != nil {
		_, err = f.Do(ctx, &filecall.Request{Op: filecall.OpPatch, Path: at, Offset: *offset, Data: content})
		return err
	}
	q := &filecall.Request{Op: filecall.OpPut, Path: at}
	_, err = f.Client.Do(ctx, f.place(), q, bytes.NewReader(content), maxFileReply)
	return fileError(name, err)
}

// causes are what the kinds of errors of a file mean that is read or written.
var causes = map[string]string{
	filecall.KindMissing:    "no such file",
	filecall.KindNotDir:     "no such file",
	filecall.KindLoop:       "no such file",
	filecall.KindNotRegular: "not a regular file",
	filecall.KindDenied:     "permission denied",
	filecall.KindTooLarge:   fmt.Sprintf("larger than %d bytes", filecall.MaxFile),
	filecall.KindNoAttrs:    "its file system keeps no attributes, and the content is written: leave them out, or use another directory",
	filecall.KindName:       "the name or the path is too long, or is not one",
}

// fileError returns the error for a file that could not be read or written. What a reply says is
// the sandbox's word.
func fileError(name string, err error) error {
	e, ok := errors.AsType[*filecall.Error](err)
	if !ok {
		return err
	}
	if e.Kind == filecall.KindFull {
		return runtime.Errorf(runtime.ErrUnavailable, "%q: %w", name, ErrFull)
	}
	cause, known := causes[e.Kind]
	if !known {
		cause = strconv.Quote(e.Message[max(0, len(e.Message)-200):]) // its end
	}
	return runtime.Errorf(classOf(e.Kind), "%q: %s", name, cause)
}
