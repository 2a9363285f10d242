// Package files copies files of a container as docker does: as archives of tar.
package files

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"wolffia/internal/excerpt"
	"wolffia/internal/filecall"
	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// A Stat describes a file of a container as docker's header of an archive does.
type Stat struct {
	Name       string      `json:"name"`
	Size       int64       `json:"size"`
	Mode       fs.FileMode `json:"mode"`
	Mtime      string      `json:"mtime"`
	LinkTarget string      `json:"linkTarget"`
}

// linkLimit bounds the making of a link.
const linkLimit = 10 * time.Second

// Describe describes the file at a path, which is absolute.
func Describe(ctx context.Context, in *service.Inside, name string) (*Stat, error) {
	reply, err := in.Files().Do(ctx, &filecall.Request{Op: filecall.OpInfo, Paths: []string{path.Join("/", name)}})
	if err != nil || len(reply.Infos) == 0 {
		return nil, runtime.Errorf(runtime.ErrNotFound, "Could not find the file %s in container %s", name,
			in.Sandbox().ContainerName())
	}
	i := reply.Infos[0]
	s := &Stat{
		Name: path.Base(path.Join("/", name)), Size: i.Size, Mode: fs.FileMode(i.Mode) & fs.ModePerm,
		Mtime: i.Modified.UTC().Format("2006-01-02T15:04:05Z07:00"),
	}
	switch i.Type {
	case "directory":
		s.Mode |= fs.ModeDir
	case "symlink":
		s.Mode |= fs.ModeSymlink
	}
	return s, nil
}

// Get writes the file or directory at a path, which is absolute, to w: an archive of tar.
func Get(ctx context.Context, in *service.Inside, name string, w io.Writer) error {
	cmd := &runtime.Command{Command: []string{launch.GuestPath, "pack", path.Join("/", name)}, Cwd: "/"}
	if in.Sandbox().Root {
		cmd.User = "root"
	}
	p, err := in.Start(ctx, cmd)
	if err != nil {
		return err
	}
	said := excerpt.New(1000, 0)
	r, err := ops.Follow(ctx, p, ops.To(w), ops.To(said))
	if err == nil && r.ExitCode != 0 {
		text, _ := said.Result()
		err = refused("copy", name, text)
	}
	return err
}

// refused returns the error of a program that has failed with a file, by what it has said.
func refused(what, name string, said []byte) error {
	return runtime.Errorf(runtime.ErrDenied, "%s %s: %s", what, name, strings.ToValidUTF8(strings.TrimSpace(string(said)), "?"))
}

// Put unpacks an archive of tar in a directory, which is absolute and must exist. Owners are
// not kept. Nothing is written outside of the directory but through links that are in it.
func Put(ctx context.Context, in *service.Inside, dir string, r io.Reader) error {
	if s, err := Describe(ctx, in, dir+"/."); err != nil {
		return err
	} else if !s.Mode.IsDir() {
		return runtime.Errorf(runtime.ErrInvalid, "%s is not a directory", dir)
	}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "archive: %w", err)
		}
		name := path.Join("/", dir, path.Join("/", h.Name))
		mode := filecall.Mode{Mode: uint32(h.FileInfo().Mode().Perm())}
		switch h.Typeflag {
		case tar.TypeDir:
			if path.Join("/", h.Name) != "/" {
				modes := map[string]filecall.Mode{name: mode}
				_, err = in.Files().Do(ctx, &filecall.Request{Op: filecall.OpMkdir, Modes: modes})
			}
		case tar.TypeReg:
			err = in.Files().Write(ctx, name, mode, archive)
		case tar.TypeSymlink:
			var r *runtime.Result
			r, err = in.Exec(ctx, &runtime.Command{
				Command: []string{"ln", "-sfn", "--", h.Linkname, name},
				Cwd:     "/", Timeout: linkLimit,
			})
			if err == nil && r.ExitCode != 0 {
				err = refused("link", name, r.Stderr)
			}
		case tar.TypeXGlobalHeader:
		default:
			err = runtime.Errorf(runtime.ErrUnsupported,
				"archive: %s: only files, directories and symbolic links can be copied", h.Name)
		}
		if err != nil {
			return err
		}
	}
}
