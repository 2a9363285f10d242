package gitscan

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxPacks   = 2000    // packs that are searched
	maxIdx     = 1 << 31 // bytes of a pack's index
	packOpen   = 8 + 4   // a pack's index begins with a magic number, a version,
	fanoutSize = 256 * 4 // and the number of objects up to each first byte
)

// BlobID returns the id of a blob with this content, in a repository whose ids have size
// bytes: 20 or 32. git add gives the same id without filters and conversions.
func BlobID(content []byte, size int) []byte {
	var h hash.Hash
	if size == sha256.Size {
		h = sha256.New()
	} else {
		h = sha1.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return h.Sum(nil)
}

// Object returns the file, relative to root, that holds the blob with this id and
// content in the repository of t: a loose object, which is compared with content, or a
// pack, whose index is believed. It reads only the repository's own objects directory,
// by paths without links: files that are visible to whoever sees the tree. ok is false
// if the blob is not found.
func Object(root *os.File, t Tree, id, content []byte) (file string, ok bool) {
	dir := path.Join(t.Common, "objects")
	name := hex.EncodeToString(id)
	file = path.Join(dir, name[:2], name[2:])
	if f, err := openRegularAt(root, file); err == nil {
		same := holds(f, content)
		_ = f.Close()
		if same {
			return file, true
		}
	}
	packs, err := openAt(root, path.Join(dir, "pack"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return "", false
	}
	names, _ := packs.Readdirnames(2 * maxPacks) // as far as it can be read
	_ = packs.Close()
	slices.Sort(names)
	for _, n := range names {
		base, is := strings.CutSuffix(n, ".idx")
		if !is {
			continue
		}
		pack := path.Join(dir, "pack", base+".pack")
		if inPack(root, path.Join(dir, "pack", n), pack, id) {
			return pack, true
		}
	}
	return "", false
}

// holds reports whether a loose object is a blob with this content;
// gitformat-loose(5).
func holds(f io.Reader, content []byte) bool {
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		return false
	}
	defer z.Close()
	want := append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...)
	got, err := io.ReadAll(io.LimitReader(z, int64(len(want))+1))
	return err == nil && bytes.Equal(got, want)
}

// inPack reports whether a pack exists and its index has id. It reads version 2 of
// gitformat-pack(5), which git has written since 2008.
func inPack(root *os.File, idx, pack string, id []byte) bool {
	f, err := openRegularAt(root, idx)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxIdx {
		return false
	}
	var head [packOpen - 4 + fanoutSize]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return false
	}
	count := func(i int) int64 { return int64(binary.BigEndian.Uint32(head[8+4*i:])) }
	low, high := int64(0), count(int(id[0]))
	if id[0] > 0 {
		low = count(int(id[0]) - 1)
	}
	got := make([]byte, len(id))
	_, found := sort.Find(int(max(0, high-low)), func(i int) int {
		_, err = f.ReadAt(got, int64(len(head))+(low+int64(i))*int64(len(id)))
		return bytes.Compare(id, got)
	})
	if !found || err != nil {
		return false
	}
	p, err := openRegularAt(root, pack)
	return err == nil && p.Close() == nil
}
