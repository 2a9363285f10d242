package programs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Pack writes a wolffia that carries companions to the file out, which it replaces: the
// program at the path wolffia, then the companions, by the names of their files. The same
// input gives the same bytes. The programs that every first start needs are not compressed.
func Pack(out, wolffia string, companions ...string) error {
	b, err := os.ReadFile(wolffia)
	if err != nil {
		return err
	}
	if bytes.HasSuffix(b, []byte(magic)) {
		return fmt.Errorf("%s carries programs already: pack the one that go build makes", wolffia)
	}
	entries := map[string]entry{}
	for _, path := range companions {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		e := entry{Offset: int64(len(b)), Size: int64(len(content)), SHA256: digest(content), Gzip: !slices.Contains([]string{Guest, Box, Tree}, filepath.Base(path))}
		if e.Gzip {
			var z bytes.Buffer
			w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
			if err != nil {
				return err
			}
			_, err = w.Write(content)
			if err = errors.Join(err, w.Close()); err != nil {
				return err
			}
			content = z.Bytes()
		}
		e.Stored = int64(len(content))
		entries[filepath.Base(path)] = e
		b = append(b, content...)
	}
	index, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	if len(index) > maxIndex {
		return fmt.Errorf("%d programs are too many for an index", len(companions))
	}
	b = append(b, index...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(index)))
	b = append(b, magic...)
	// By another name first: a program that runs cannot be written to.
	coming := out + ".new"
	if err := os.WriteFile(coming, b, 0o755); err != nil {
		return err
	}
	// whatever the umask
	if err := errors.Join(os.Chmod(coming, 0o755), os.Rename(coming, out)); err != nil {
		return errors.Join(err, os.Remove(coming))
	}
	return nil
}
