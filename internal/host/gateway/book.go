package gateway

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"wolffia/network"
)

const (
	// maxNames is how many names that the program inside chose, below a wildcard, can have an
	// address. Those that a policy names have one always.
	maxNames = 65536
	// maxPages is how many names can have an address at all: 127.64.0.0/10 has twice as many.
	maxPages = 1 << 21
)

// firstAddress is the address of the first name; the others follow.
var firstAddress = binary.BigEndian.Uint32([]byte{127, 64, 1, 0})

// A book gives names addresses inside. A name keeps its address. It is safe for concurrent use.
type book struct {
	mu     sync.Mutex
	byName map[string]*page
	pages  []*page // by address, from firstAddress
	chosen int     // pages of names that no policy named
}

// A page is a name with its address.
type page struct {
	name  string
	addr  netip.Addr
	asked atomic.Bool                      // the host has looked the name up
	met   atomic.Pointer[network.Compiled] // the policy for all of whose ports the name has doors
}

// last returns the pages that were assigned last, at most n, the latest first.
func (b *book) last(n int) []*page {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.pages[max(0, len(b.pages)-n):])
	slices.Reverse(all)
	return all
}

// assign returns the page of a name, and nil if the book is full. named says that the policy
// names it.
func (b *book) assign(name string, named bool) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.byName[name]; p != nil {
		return p
	}
	if !named && b.chosen == maxNames || len(b.pages) == maxPages {
		return nil
	}
	if !named {
		b.chosen++
	}
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], firstAddress+uint32(len(b.pages)))
	p := &page{name: name, addr: netip.AddrFrom4(addr)}
	if b.byName == nil {
		b.byName = map[string]*page{}
	}
	b.byName[name] = p
	b.pages = append(b.pages, p)
	return p
}

// find returns the page of an address, and nil if no name has it.
func (b *book) find(addr netip.Addr) *page {
	addr = addr.Unmap()
	if !addr.Is4() {
		return nil
	}
	bytes := addr.As4()
	i := int64(binary.BigEndian.Uint32(bytes[:])) - int64(firstAddress)
	b.mu.Lock()
	defer b.mu.Unlock()
	if i < 0 || i >= int64(len(b.pages)) {
		return nil
	}
	return b.pages[i]
}
