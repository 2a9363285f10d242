package audit

import (
	"cmp"
	"slices"
	"sync"

	"wolffia/perm"
)

// maxRecent bounds the kinds of denials of each of the lists of a Recent.
const maxRecent = 64

// A Recent has the last denials in memory, one of each kind, for a report of the denials during a
// command. The zero Recent is empty. It is safe for concurrent use.
type Recent struct {
	mu    sync.Mutex
	count int64
	// Lookups of hidden names, which programs do often, do not displace other records.
	lookups, others []recent
}

// A recent is a kind of denial, and the numbers of the first and the last of them.
type recent struct {
	entry
	kind        kind
	first, last int64
}

// Add adds a denial, with the rules that decided, and returns the number of all so far.
func (s *Recent) Add(r Record, rules *perm.Policy) int64 {
	if len(r.Path) > maxPath {
		r.Path, r.Cut = r.Path[:maxPath], true
	}
	if r.Host != nil {
		r.cut()
	}
	k := kindOf(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	list := &s.others
	if r.IsLookup() {
		list = &s.lookups
	}
	i := slices.IndexFunc(*list, func(old recent) bool { return old.kind == k })
	if i >= 0 {
		(*list)[i].entry, (*list)[i].last = entry{r, rules}, s.count
		return s.count
	}
	if len(*list) == maxRecent {
		oldest := 0
		for i := range *list {
			if (*list)[i].last < (*list)[oldest].last {
				oldest = i
			}
		}
		*list = slices.Delete(*list, oldest, oldest+1)
	}
	*list = append(*list, recent{entry{r, rules}, k, s.count, s.count})
	return s.count
}

// Since returns the kinds of denials after the first n, as far as they are known, in order.
// Their Rule, Problem and Remedy are set as by Explain.
func (s *Recent) Since(n int64) []Record {
	s.mu.Lock()
	all := slices.Concat(s.lookups, s.others)
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(r recent) bool { return r.last <= n })
	at := func(r recent) int64 {
		if r.first > n {
			return r.first
		}
		return r.last
	}
	slices.SortFunc(all, func(a, b recent) int { return cmp.Compare(at(a), at(b)) })
	out := make([]Record, len(all))
	for i, r := range all {
		r.record.Explain(r.rules)
		out[i] = r.record
	}
	return out
}

// IsLookup reports whether r is the lookup of a hidden name, which need not exist.
func (r *Record) IsLookup() bool {
	return r.Op == "lookup" && r.Level == perm.None && r.Errno == "ENOENT"
}
