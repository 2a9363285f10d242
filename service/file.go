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

// ReadFile implements [SandboxDriver].
func (f *Fleet) ReadFile(ctx context.Context, sandboxID, name string) ([]byte, error) {
	files, err := f.filesOf(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	return files.Whole(ctx, name)
}

// WriteFiles implements [SandboxDriver].
func (f *Fleet) WriteFiles(ctx context.Context, sandboxID string, files map[string]File) (updated int, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := context.Cause(ctx)
		if err == nil {
			// A file that is begun is finished: it must not be half written.
			err = f.writeFile(context.WithoutCancel(ctx), sandboxID, name, files[name])
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		updated++
	}
	return updated, errors.Join(errs...)
}

func (f *Fleet) writeFile(ctx context.Context, sandboxID, name string, file File) error {
	content, err := file.Bytes()
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	files, err := f.filesOf(ctx, sandboxID)
	if err != nil {
		return err
	}
	return files.Put(ctx, name, content, file.Offset)
}

// filesOf returns the files of a sandbox.
func (f *Fleet) filesOf(ctx context.Context, sandboxID string) (*ops.Files, error) {
	if err := checkID(sandboxID); err != nil {
		return nil, err
	}
	s, err := f.rt.Get(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	return &ops.Files{Client: f.files, Sandbox: sandboxID, MountPoint: s.MountPoint}, nil
}
