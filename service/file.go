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

	"wolffia/runtime"
)

// MaxFile is the largest file that is read or written, in bytes.
const MaxFile = 32 << 20

// A File is the content of a file.
type File struct {
	Encoding string `json:"encoding,omitempty"` // "utf-8", which is also what empty means, or "base64"
	Content  string `json:"content"`
}

// Bytes returns what the file holds. The error is of class [runtime.ErrInvalid].
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
	return nil, runtime.Errorf(runtime.ErrInvalid, "encoding %q: it can be utf-8 or base64", f.Encoding)
}

// Path is what a file's path means in a sandbox: a relative one is below the
// mount point. It is cleaned by its text alone; symbolic links mean what they
// mean inside, where the processes that follow them run.
func Path(mountPoint, name string) (string, error) {
	if name == "" || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: it must be that of a file", name)
	}
	if !path.IsAbs(name) {
		name = path.Join(mountPoint, name)
	}
	if name = path.Clean(name); name == "/" || name == mountPoint {
		return "", runtime.Errorf(runtime.ErrInvalid, "path %q: it must be that of a file", name)
	}
	return name, nil
}

// What the scripts below end with, so that we need not understand messages.
const (
	exitMissing = 40
	exitNoFile  = 41 // a directory, a device, a FIFO
	exitFailed  = 42 // standard error says why
	exitShort   = 43 // what came on standard input is not all of it
)

// readScript prints up to $2 bytes of the file $1.
const readScript = `
[ -e "$1" ] || exit 40
[ -f "$1" ] || exit 41
head -c "$2" <"$1" || exit 42
`

// ReadFile implements [SandboxDriver].
func (d *Driver) ReadFile(ctx context.Context, sandboxID, name string) ([]byte, error) {
	p, err := d.path(ctx, sandboxID, name)
	if err != nil {
		return nil, err
	}
	r, err := d.inside(ctx, sandboxID, readScript, nil, p, strconv.Itoa(MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(r.Stdout) > MaxFile || r.StdoutDropped > 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: it is larger than %d bytes", name, MaxFile)
	}
	return r.Stdout, fileError(name, r)
}

// writeScript makes standard input, of $3 bytes, the content of the file $1 in
// the directory $2. It writes beside it, as $4, and renames; a link is replaced,
// not followed. Where the rules let that file be written and no other beside it,
// it is written in place, with its old content kept to put it back, and whoever asks
// this script to end has to wait.
const writeScript = `
umask 022
new=$4 kept=
trap 'rm -f -- "$4"; [ -z "$kept" ] || rm -rf -- "$kept"' EXIT
trap 'exit 42' HUP INT TERM
all() { [ "$(wc -c <"$1")" -eq "$2" ] || exit 43; }
[ -d "$1" ] && [ ! -L "$1" ] && exit 41
[ -d "$2" ] || mkdir -p -- "$2" || exit 42
if (set -C; : >"$new") 2>/dev/null; then
	[ -L "$1" ] || [ ! -f "$1" ] || chmod "$(stat -c %a -- "$1")" "$new" || exit 42
	cat >"$new" || exit 42
	all "$new" "$3"
	mv -fT -- "$new" "$1" || exit 42
	exit 0
fi
[ -L "$1" ] && exit 41
[ ! -e "$1" ] || [ -f "$1" ] || exit 41
trap '' HUP INT TERM
kept=$(mktemp -d) || exit 42
cat >"$kept/new" || exit 42
all "$kept/new" "$3"
if [ -e "$1" ]; then
	cat <"$1" >"$kept/old" || exit 42
	(cat <"$kept/new" >"$1") && exit 0
	cat <"$kept/old" >"$1"
else
	(cat <"$kept/new" >"$1") && exit 0
	rm -f -- "$1"
fi
exit 42
`

// WriteFiles implements [SandboxDriver].
func (d *Driver) WriteFiles(ctx context.Context, sandboxID string, files map[string]File) (updated int, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := context.Cause(ctx)
		if err == nil {
			// One that is given up in the midst would be neither old nor new.
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
		return runtime.Errorf(runtime.ErrInvalid, "%q: it is larger than %d bytes", name, MaxFile)
	}
	p, err := d.path(ctx, sandboxID, name)
	if err != nil {
		return err
	}
	beside := path.Join(path.Dir(p), ".wolffia-"+runtime.NewID())
	r, err := d.inside(ctx, sandboxID, writeScript, content, p, path.Dir(p), strconv.Itoa(len(content)), beside)
	if err != nil {
		return err
	}
	return fileError(name, r)
}

// path is a file's path inside.
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

// fileError says how one of the scripts has failed; nil: it has not.
func fileError(name string, r *runtime.ExecResult) error {
	switch r.ExitCode {
	case 0:
		return nil
	case exitMissing:
		return runtime.Errorf(runtime.ErrNotFound, "%q: there is no such file", name)
	case exitNoFile:
		return runtime.Errorf(runtime.ErrInvalid, "%q: it is not a regular file", name)
	case exitShort:
		return runtime.Errorf(runtime.ErrUnavailable, "%q: the content did not arrive", name)
	}
	why := complaint(r)
	class := runtime.ErrUnavailable
	for _, denied := range []string{"Permission denied", "Operation not permitted", "Read-only file system"} {
		if strings.Contains(why, denied) {
			class = runtime.ErrDenied
		}
	}
	return runtime.Errorf(class, "%q: %s", name, why)
}

// complaint is what a script has said last, which may be anything.
func complaint(r *runtime.ExecResult) string {
	const most = 200 // bytes
	said := bytes.TrimSpace(r.Stderr)
	said = said[bytes.LastIndexByte(said, '\n')+1:]
	if len(said) > most {
		said = said[len(said)-most:]
	}
	if len(said) == 0 {
		return fmt.Sprintf("it has failed with exit code %d", r.ExitCode)
	}
	return strconv.Quote(string(said))
}

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }
