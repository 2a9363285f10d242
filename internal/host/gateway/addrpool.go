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
	// address. The names of a policy always have an address.
	maxNames = 65536
	// maxPages is how many names can have an address at all: 127.64.0.0/10 has twice as many.
	maxEntries = 1 << 21
)

// firstAddress is the address of the first name; the others follow.
var firstAddress = binary.BigEndian.Uint32([]byte{127, 64, 1, 0})

// An addrPool assigns addresses inside to names. A name keeps its address. It is safe for
// concurrent use.
type addrPool struct {
	mu      sync.Mutex
	byName  map[string]*nameEntry
	entries []*nameEntry // by address, from firstAddress
	chosen  int          // entries of names that no policy named
}

// A nameEntry is a name with its address.
type nameEntry struct {
	name      string
	addr      netip.Addr
	lookedUp  atomic.Bool                      // the host has looked the name up
	listening atomic.Pointer[network.Compiled] // the policy for whose ports the name has all its listeners
}

// last returns the entries that were assigned last, at most n, the latest first.
func (b *addrPool) last(n int) []*nameEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.entries[max(0, len(b.entries)-n):])
	slices.Reverse(all)
	return all
}

// assign returns the entry of a name, which it makes at first. It returns nil if the pool is full.
// named says that the policy names it.
func (b *addrPool) assign(name string, named bool) *nameEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.byName[name]; p != nil {
		return p
	}
	if !named && b.chosen == maxNames || len(b.entries) == maxEntries {
		return nil
	}
	if !named {
		b.chosen++
	}
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], firstAddress+uint32(len(b.entries)))
	p := &nameEntry{name: name, addr: netip.AddrFrom4(addr)}
	if b.byName == nil {
		b.byName = map[string]*nameEntry{}
	}
	b.byName[name] = p
	b.entries = append(b.entries, p)
	return p
}

// find returns the entry of an address, and nil if no name has the address.
func (b *addrPool) find(addr netip.Addr) *nameEntry {
	addr = addr.Unmap()
	if !addr.Is4() {
		return nil
	}
	bytes := addr.As4()
	i := int64(binary.BigEndian.Uint32(bytes[:])) - int64(firstAddress)
	b.mu.Lock()
	defer b.mu.Unlock()
	if i < 0 || i >= int64(len(b.entries)) {
		return nil
	}
	return b.entries[i]
}
