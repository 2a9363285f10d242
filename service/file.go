package service

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wolffia/internal/archive"
	"wolffia/internal/filecall"
	"wolffia/runtime"
	"wolffia/runtime/launch"
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
	r, err := d.inside(ctx, sandboxID, nil, launch.GuestPath, "get", strconv.Itoa(MaxFile), p)
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 || r.Truncated() {
		return nil, fileError(name, r)
	}
	return r.Stdout, nil
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
		return d.patch(ctx, sandboxID, &FileRequest{Op: filecall.OpPatch, Path: p, Offset: *f.Offset, Data: content})
	}
	r, err := d.inside(ctx, sandboxID, content, launch.GuestPath, "put", strconv.Itoa(len(content)), p)
	if err == nil && r.ExitCode != 0 {
		err = fileError(name, r)
	}
	return err
}

// patch changes a part of a file.
func (d *Driver) patch(ctx context.Context, sandboxID string, q *FileRequest) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	r, err := d.inside(ctx, sandboxID, text, launch.GuestPath, filecall.Arg)
	if err != nil {
		return err
	}
	_, err = replyOf(sandboxID, q, r)
	return err
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

// failures are what the exit codes of the guest's program mean.
var failures = map[int]struct {
	class   error
	message string
}{
	archive.ExitMissing:    {runtime.ErrNotFound, "no such file"},
	archive.ExitNotRegular: {runtime.ErrInvalid, "not a regular file"},
	archive.ExitDenied:     {runtime.ErrDenied, "permission denied"},
	archive.ExitTooLarge:   {runtime.ErrInvalid, tooLarge},
	archive.ExitShort:      {runtime.ErrUnavailable, "the content was cut off on the way; nothing was written"},
	archive.ExitTooLong:    {runtime.ErrInvalid, "the name or the path is too long"},
}

var tooLarge = fmt.Sprintf("larger than %d bytes", MaxFile)

// fileError returns the error for a file that the guest's program failed to read or
// write. r is the sandbox's word.
func fileError(name string, r *runtime.Result) error {
	if f, known := failures[r.ExitCode]; known {
		return runtime.Errorf(f.class, "%q: %s", name, f.message)
	}
	said := fmt.Sprintf("exit code %d", r.ExitCode)
	if text := bytes.TrimSpace(r.Stderr); len(text) > 0 {
		said = strconv.Quote(string(text[max(0, len(text)-200):])) // its end
	}
	class := runtime.ErrUnavailable
	if r.ExitCode == archive.ExitInvalid {
		class = runtime.ErrInvalid
	}
	return runtime.Errorf(class, "%q: %s", name, said)
}
