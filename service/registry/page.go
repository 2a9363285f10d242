package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// bbolt trusts the pages of its file: of one that is damaged it reads what is
// beyond the end, or in a circle for ever. So all of a file is checked before
// bbolt sees it. Its format, version 2, in the byte order of the machine:
//
//	page      id u64, flags u16, count u16, overflow u32, then by its flags:
//	meta      magic u32, version u32, page size u32, flags u32, bucket,
//	          freelist u64, pages u64, transaction u64, FNV-64a of the above
//	branch    count times: position u32, key size u32, page u64
//	leaf      count times: flags u32, position u32, key size u32, value size u32
//	freelist  count ids (if it is 65535, the first word is the count)
//	bucket    root page u64, sequence u64; if root is 0 a leaf page follows
//
// Pages 0 and 1 are meta; the valid one with the later transaction counts.
// Positions are relative to their own entry.
const (
	pageHeader = 16
	entrySize  = 16
	metaSize   = 64

	branchFlag   = 0x01
	leafFlag     = 0x02
	freelistFlag = 0x10
	bucketFlag   = 0x01 // of a leaf's entry

	magic         = 0xED0CDAED
	formatVersion = 2
)

var order = binary.NativeEndian

// A pageFile is a file that is being checked.
type pageFile struct {
	data  []byte
	size  uint64 // of a page
	pages uint64 // that there are
	used  []bool // by page
}

// checkPages checks that a file of bbolt can be read.
func checkPages(data []byte) error {
	f := &pageFile{data: data}
	root, free, err := f.meta()
	if err != nil {
		return err
	}
	f.used = make([]bool, f.pages)
	f.used[0], f.used[1] = true, true
	if err := f.tree(root); err != nil {
		return err
	}
	return f.freelist(free)
}

// meta finds the valid meta page, and the roots of what is in the file.
func (f *pageFile) meta() (root, free uint64, err error) {
	var latest []byte
	size := uint64(0)
	// The second is behind the first, whose size only they know.
	for at := 0; at+pageHeader+metaSize <= len(f.data) && at <= 64<<10; {
		m := f.data[at+pageHeader:][:metaSize]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		valid := order.Uint32(m) == magic && order.Uint32(m[4:]) == formatVersion && order.Uint64(m[56:]) == sum.Sum64()
		if n := uint64(order.Uint32(m[8:])); valid && n >= 512 && n <= 64<<10 && n&(n-1) == 0 && (at == 0 || uint64(at) == n) {
			if latest == nil || order.Uint64(m[48:]) > order.Uint64(latest[48:]) {
				latest, size = m, n
			}
		}
		switch {
		case at == 0 && latest != nil:
			at = int(size)
		case at == 0:
			at = 512
		case latest == nil:
			at *= 2
		default:
			at = len(f.data)
		}
	}
	if latest == nil {
		return 0, 0, errors.New("it has no valid header")
	}
	f.size, f.pages = size, order.Uint64(latest[40:])
	if f.pages < 3 || f.pages > uint64(len(f.data))/size {
		return 0, 0, fmt.Errorf("it should have %d pages of %d bytes, and has %d bytes", f.pages, size, len(f.data))
	}
	return order.Uint64(latest[16:]), order.Uint64(latest[32:]), nil
}

// page returns a page with all that it runs over to, which nobody else may use.
func (f *pageFile) page(id uint64) (page []byte, flags uint16, err error) {
	if id < 2 || id >= f.pages {
		return nil, 0, fmt.Errorf("page %d: there are %d", id, f.pages)
	}
	h := f.data[id*f.size:]
	n := uint64(order.Uint32(h[12:])) + 1
	if order.Uint64(h) != id || n > f.pages-id {
		return nil, 0, fmt.Errorf("page %d: it says that it is page %d, of %d pages", id, order.Uint64(h), n)
	}
	for i := id; i < id+n; i++ {
		if f.used[i] {
			return nil, 0, fmt.Errorf("page %d: it is used twice", i)
		}
		f.used[i] = true
	}
	return h[:n*f.size], order.Uint16(h[8:]), nil
}

// tree checks a page and all below it.
func (f *pageFile) tree(id uint64) error {
	page, flags, err := f.page(id)
	if err != nil {
		return err
	}
	switch flags {
	case leafFlag:
		err = f.leaf(page)
	case branchFlag:
		if order.Uint16(page[10:]) == 0 {
			return fmt.Errorf("page %d: it leads nowhere", id)
		}
		err = entries(page, func(e, _, _ []byte) error { return f.tree(order.Uint64(e[8:])) })
	default:
		err = fmt.Errorf("its flags are %#x", flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// leaf checks the entries of a leaf, and the buckets among them.
func (f *pageFile) leaf(page []byte) error {
	return entries(page, func(e, _, value []byte) error {
		switch order.Uint32(e) {
		case 0:
			return nil
		case bucketFlag:
		default:
			return fmt.Errorf("an entry's flags are %#x", order.Uint32(e))
		}
		if len(value) < 16 {
			return errors.New("a bucket is cut")
		}
		if root := order.Uint64(value); root != 0 {
			return f.tree(root)
		}
		inline := value[16:]
		if len(inline) < pageHeader || order.Uint16(inline[8:]) != leafFlag {
			return errors.New("a bucket is cut")
		}
		return entries(inline, func(e, _, _ []byte) error {
			if order.Uint32(e) != 0 {
				return errors.New("a bucket is in a small one")
			}
			return nil
		})
	})
}

// entries calls do with each entry of a branch or leaf, whose keys must be in
// order. Only a leaf's have values.
func entries(page []byte, do func(entry, key, value []byte) error) error {
	leaf := order.Uint16(page[8:]) == leafFlag
	n := int(order.Uint16(page[10:]))
	if pageHeader+n*entrySize > len(page) {
		return fmt.Errorf("%d entries are too many", n)
	}
	var last []byte
	for i := range n {
		from := page[pageHeader+i*entrySize:]
		pos, keySize, valueSize := uint64(order.Uint32(from)), uint64(order.Uint32(from[4:])), uint64(0)
		if leaf {
			pos, keySize, valueSize = uint64(order.Uint32(from[4:])), uint64(order.Uint32(from[8:])), uint64(order.Uint32(from[12:]))
		}
		if pos+keySize+valueSize > uint64(len(from)) || pos < uint64((n-i)*entrySize) {
			return fmt.Errorf("entry %d is not in the page", i)
		}
		key := from[pos:][:keySize]
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("entry %d is not in order", i)
		}
		if err := do(from, key, from[pos+keySize:][:valueSize]); err != nil {
			return err
		}
		last = key
	}
	return nil
}

// freelist checks the list of free pages, which must be all that are not used.
func (f *pageFile) freelist(id uint64) error {
	page, flags, err := f.page(id)
	if err != nil {
		return err
	}
	if flags != freelistFlag {
		return fmt.Errorf("page %d: it is not the list of free pages", id)
	}
	ids, n := page[pageHeader:], uint64(order.Uint16(page[10:]))
	if n == 0xFFFF {
		n, ids = order.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return fmt.Errorf("page %d: %d free pages are too many", id, n)
	}
	for i := range n {
		free := order.Uint64(ids[i*8:])
		if free < 2 || free >= f.pages || f.used[free] {
			return fmt.Errorf("page %d: it is free, and is used or not there", free)
		}
		f.used[free] = true
	}
	for id, used := range f.used {
		if !used {
			return fmt.Errorf("page %d: it is neither used nor free", id)
		}
	}
	return nil
}
