package service

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/runtime"
)

// What a sandbox is asked about its files: see package filecall.
type (
	FileRequest = filecall.Request
	FileReply   = filecall.Reply
	FileInfo    = filecall.Info
	FileMode    = filecall.Mode
	FileMove    = filecall.Move
	FileReplace = filecall.Replace
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

// maxFileReply is the largest reply to a [FileRequest], in bytes.
const maxFileReply = 16 << 20

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
	reply, err := i.fleet.files.Do(ctx, ownPlace(i.box.ID), q, nil, maxFileReply)
	return reply, replyError(err)
}

// replyError gives an error in a reply its class.
func replyError(err error) error {
	if e, ok := errors.AsType[*filecall.Error](err); ok {
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
	}
	return runtime.ErrUnavailable
}

// A FilePart is a part of a file that is being read: Size is that of the file, Start the offset of the part, both in
// bytes. Bytes is how many follow, -1 if that is not known. The caller closes it.
type FilePart = fileclient.Part

// ReadPart reads a file, whose path must be absolute, from an offset in bytes on, which counts
// from the end if it is negative; at most most bytes, and all if most is negative. Errors are
// those of [SandboxDriver].ReadFile.
func (i *Inside) ReadPart(ctx context.Context, name string, from, most int64) (*FilePart, error) {
	return i.get(ctx, filecall.OpGet, name, from, most)
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
	content, err = readAll(name, part)
	return content, part.Start, part.Size, err
}

// ReadLines reads lines of a file as ReadPart reads bytes. The first line has number 1.
func (i *Inside) ReadLines(ctx context.Context, name string, first, most int64) (*FilePart, error) {
	return i.get(ctx, filecall.OpLines, name, first, most)
}

func (i *Inside) get(ctx context.Context, op, name string, from, most int64) (*FilePart, error) {
	part, err := i.fleet.files.Get(ctx, ownPlace(i.box.ID), &FileRequest{Op: op, Path: name, From: from, Most: most})
	return part, fileError(name, err)
}

// A FileTarget is a file to be written. Its path must be absolute.
type FileTarget struct {
	Path string
	Mode FileMode
}

// WriteFile makes what r has the content of a file, as [SandboxDriver].WriteFiles does, and then
// sets its mode. If reading r fails, nothing is changed, and the error wraps the reader's.
func (i *Inside) WriteFile(ctx context.Context, t *FileTarget, r io.Reader) error {
	q := &FileRequest{Op: filecall.OpPut, Path: t.Path, Mode: t.Mode}
	_, err := i.fleet.files.Do(ctx, ownPlace(i.box.ID), q, r, maxFileReply)
	return fileError(t.Path, err)
}
