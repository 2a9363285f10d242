package service

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service/registry"
)

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

// ReadFile returns the content of a file in the owner's sandbox, which it reads as a process
// there; for the path see [ops.Files.FilePath]. A missing file is [runtime.ErrNotFound], one
// without read permission [runtime.ErrDenied], one that is not a regular file or
// is larger than [ops.MaxFile] [runtime.ErrInvalid].
func (own Owned) ReadFile(ctx context.Context, o registry.Owner, sandboxID, path string) ([]byte, error) {
	if err := own.verify(ctx, o, sandboxID); err != nil {
		return nil, err
	}
	return own.read(ctx, sandboxID, path)
}

func (own Owned) read(ctx context.Context, id, path string) ([]byte, error) {
	files, err := own.filesOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return files.Whole(ctx, path)
}

// WriteFiles writes files by path, as a process in the owner's sandbox, and
// creates missing directories. Each file keeps its old content or gets all of
// the new, whether or not others fail; only where the rules allow no other file
// in the directory, the end of the sandbox can leave a file half written.
// updated is the number of files written. After the end of ctx it begins no
// other file.
func (own Owned) WriteFiles(ctx context.Context, o registry.Owner, sandboxID string, files map[string]File) (updated int, err error) {
	if err := own.verify(ctx, o, sandboxID); err != nil {
		return 0, err
	}
	return own.write(ctx, sandboxID, files)
}

func (own Owned) write(ctx context.Context, id string, files map[string]File) (updated int, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := context.Cause(ctx)
		if err == nil {
			// A file that is begun is finished: it must not be half written.
			err = own.writeFile(context.WithoutCancel(ctx), id, name, files[name])
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		updated++
	}
	return updated, errors.Join(errs...)
}

func (own Owned) writeFile(ctx context.Context, sandboxID, name string, file File) error {
	content, err := file.Bytes()
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	files, err := own.filesOf(ctx, sandboxID)
	if err != nil {
		return err
	}
	return files.Put(ctx, name, content, file.Offset)
}

// filesOf returns the files of a sandbox.
func (own Owned) filesOf(ctx context.Context, sandboxID string) (*ops.Files, error) {
	b, err := own.s.rt.Get(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	return &ops.Files{Client: own.s.files, Sandbox: sandboxID, MountPoint: b.MountPoint}, nil
}
