package hostgit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"wolffia/internal/rmtree"
	"wolffia/runtime"
)

// maxBundleHeader bounds the lines of a bundle before its pack, in bytes.
const maxBundleHeader = 64 << 20

// CheckBundle checks a bundle (gitformat-bundle(5)) that a sandbox has written: that each of its objects is sound, and
// that what they refer to is there. It changes nothing in the repository. git fetch alone does not check what comes
// from a bundle before git 2.46, whatever transfer.fsckObjects says.
// The error is of class runtime.ErrInvalid if the bundle is refused.
func (r *Repo) CheckBundle(ctx context.Context, file *os.File) (err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	pack := bufio.NewReader(file)
	if err := readHeader(pack); err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "the bundle of git inside is refused: %w", err)
	}
	// The objects go to a directory of their own: git leaves there what it has written of those that it refuses.
	apart, err := os.MkdirTemp("", "wolffia-objects-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rmtree.RemovePath(filepath.Split(apart))) }()
	if err := os.Mkdir(filepath.Join(apart, "info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(apart, "info", "alternates"), []byte(filepath.Join(r.dir, ".git", "objects")+"\n"), 0o600); err != nil {
		return err
	}
	// Strict is git fsck's idea of an error, without the exceptions of the user's configuration.
	if _, err := r.runWith(ctx, pack, []string{"GIT_OBJECT_DIRECTORY=" + apart}, "index-pack", "--strict", "--stdin", "--fix-thin"); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return runtime.Errorf(runtime.ErrInvalid, "the commits inside are refused, since an object is damaged or malformed: %w", err)
	}
	return nil
}

// readHeader reads the lines of a bundle before its pack. Only what git bundle create writes is accepted: with a
// filter the host would be told that objects may be missing.
func readHeader(b *bufio.Reader) error {
	left := maxBundleHeader
	for first := true; ; first = false {
		line, err := readLine(b, left)
		if err != nil {
			return err
		}
		left -= len(line)
		switch {
		case first && (line == "# v2 git bundle\n" || line == "# v3 git bundle\n"):
		case first:
			return errors.New("it is none")
		case line == "\n":
			return nil
		case line[0] == '@' && !strings.HasPrefix(line, "@object-format="):
			return fmt.Errorf("it needs %.100q", line)
		}
	}
}

// readLine reads a line of at most that many bytes.
func readLine(b *bufio.Reader, most int) (string, error) {
	var line []byte
	for {
		part, err := b.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return "", fmt.Errorf("more than %d bytes are before its pack", maxBundleHeader)
		}
		switch {
		case err == nil:
			return string(line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", errors.New("it is cut short")
		}
	}
}
