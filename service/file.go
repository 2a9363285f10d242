package service

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/runtime"
)

// MaxFile is the largest file that ReadFile and WriteFiles accept, in bytes.
const MaxFile = 32 << 20

// A File is the content of a file.
type File struct {
	Encoding string `json:"encoding,omitempty"` // "utf-8", which is also what empty means, or "base64"
	Content  string `json:"content"`
	// Offset, if not nil, makes WriteFiles replace bytes of a file that exists, from that
	// offset in bytes on, which is at most the file's size: there it appends. ReadFile does
	// not set it.
	Offset *int64 `json:"offset,omitempty"`
}

// Bytes returns the decoded content. The error is of class [runtime.ErrInvalid].
func (f File) Bytes() ([]byte, error) {
	switch f.Encoding {
	case "", "utf-8":
		if !utf8.ValidString(f.Content) {
			return nil, runtime.Errorf(runtime.ErrInvalid, "the content is not UTF-8: send it as base64")
		}
		return []byte(f.Content), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(f.Content)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "the content is not base64: %w", err)
		}
		return b, nil
	}
	return nil, runtime.Errorf(runtime.ErrInvalid, "encoding %q: want utf-8 or base64", f.Encoding)
}

// Path returns the absolute path of a file in a sandbox: a relative name is below the
// mount point. It is cleaned lexically; processes in the sandbox follow its symbolic
// links.
func Path(mountPoint, name string) (string, error) {
	if name == "" || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: not the path of a file", name)
	}
	if !path.IsAbs(name) {
		name = path.Join(mountPoint, name)
	}
	if name = path.Clean(name); name == "/" || name == mountPoint {
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: not the path of a file", name)
	}
	return name, nil
}

// ReadFile implements [SandboxDriver].
func (d *Driver) ReadFile(ctx context.Context, sandboxID, name string) ([]byte, error) {
	p, err := d.path(ctx, sandboxID, name)
	if err != nil {
		return nil, err
	}
	part, err := d.files.Get(ctx, ownPlace(sandboxID), &FileRequest{Op: filecall.OpGet, Path: p, Most: MaxFile})
	if err != nil {
		return nil, fileError(name, err)
	}
	defer part.Close()
	if part.Size > MaxFile {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%q: %s", name, tooLarge)
	}
	return readAll(name, part)
}

// readAll reads a part of a file to its end.
func readAll(name string, part *FilePart) ([]byte, error) {
	content, err := io.ReadAll(part)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%q: it was cut off while it was read", name)
	}
	return content, nil
}

// WriteFiles implements [SandboxDriver].
func (d *Driver) WriteFiles(ctx context.Context, sandboxID string, files map[string]File) (updated int, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := context.Cause(ctx)
		if err == nil {
			// A file that is begun is finished: it must not be half written.
			err = d.writeFile(context.WithoutCancel(ctx), sandboxID, name, files[name])
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		updated++
	}
	return updated, errors.Join(errs...)
}

func (d *Driver) writeFile(ctx context.Context, sandboxID, name string, f File) error {
	content, err := f.Bytes()
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if len(content) > MaxFile {
		return runtime.Errorf(runtime.ErrInvalid, "%q: %s", name, tooLarge)
	}
	p, err := d.path(ctx, sandboxID, name)
	if err != nil {
		return err
	}
	if f.Offset != nil {
		q := &FileRequest{Op: filecall.OpPatch, Path: p, Offset: *f.Offset, Data: content}
		_, err = d.files.Do(ctx, ownPlace(sandboxID), q, nil, maxFileReply)
		return replyError(err)
	}
	q := &FileRequest{Op: filecall.OpPut, Path: p}
	_, err = d.files.Do(ctx, ownPlace(sandboxID), q, bytes.NewReader(content), maxFileReply)
	return fileError(name, err)
}

// ownPlace is where file operations of the service begin, with absolute paths: the sandbox's working directory may be gone, or closed.
func ownPlace(sandboxID string) fileclient.Place {
	return fileclient.Place{Sandbox: sandboxID, Dir: ownDir}
}

// path returns a file's path in the sandbox.
func (d *Driver) path(ctx context.Context, sandboxID, name string) (string, error) {
	if err := checkID(sandboxID); err != nil {
		return "", err
	}
	s, err := d.rt.Get(ctx, sandboxID)
	if err != nil {
		return "", err
	}
	return Path(s.MountPoint, name)
}

var tooLarge = fmt.Sprintf("larger than %d bytes", MaxFile)

// causes are what the kinds of errors of a file mean that is read or written.
var causes = map[string]string{
	filecall.KindMissing:    "no such file",
	filecall.KindNotDir:     "no such file",
	filecall.KindLoop:       "no such file",
	filecall.KindNotRegular: "not a regular file",
	filecall.KindDenied:     "permission denied",
	filecall.KindTooLarge:   fmt.Sprintf("larger than %d bytes", filecall.MaxFile),
	filecall.KindName:       "the name or the path is too long, or is not one",
}

// fileError returns the error for a file that could not be read or written. What a reply says is the sandbox's word.
func fileError(name string, err error) error {
	e, ok := errors.AsType[*filecall.Error](err)
	if !ok {
		return err
	}
	cause, known := causes[e.Kind]
	if !known {
		cause = strconv.Quote(e.Message[max(0, len(e.Message)-200):]) // its end
	}
	return runtime.Errorf(classOf(e.Kind), "%q: %s", name, cause)
}
