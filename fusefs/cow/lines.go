package cow

import (
	"bytes"
	"slices"
)

// maxEdits bounds the differences that are sought between two texts, and so time and memory. With
// more, the lines between their common unique lines are replaced as a whole.
const maxEdits = 256

// An edit replaces the lines [a, b) of the old text by the lines [c, d) of the new one.
type edit struct{ a, b, c, d int }

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := make([][]byte, 0, bytes.Count(text, newline)+1)
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		lines = append(lines, text[:n])
		text = text[n:]
	}
	return lines
}

// compareLines returns the edits that make b of a, in order, without two that touch.
func compareLines(a, b [][]byte) []edit {
	same := 0 // lines at the beginning, which need no number
	for same < len(a) && same < len(b) && bytes.Equal(a[same], b[same]) {
		same++
	}
	a, b = a[same:], b[same:]
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	numbers := map[string]int32{}
	number := func(lines [][]byte) []int32 {
		n := make([]int32, len(lines))
		for i, l := range lines {
			k, ok := numbers[string(l)]
			if !ok {
				k = int32(len(numbers))
				numbers[string(l)] = k
			}
			n[i] = k
		}
		return n
	}
	d := differ{a: number(a), b: number(b)}
	d.compare(0, len(a), 0, len(b), true)
	for i := range d.edits {
		e := &d.edits[i]
		e.a, e.b, e.c, e.d = e.a+same, e.b+same, e.c+same, e.d+same
	}
	return d.joined()
}

// A differ compares two sequences.
type differ struct {
	a, b  []int32
	edits []edit
}

// joined returns the edits, those that touch as one.
func (d *differ) joined() []edit {
	var all []edit
	for _, e := range d.edits {
		if n := len(all); n > 0 && all[n-1].b == e.a && all[n-1].d == e.c {
			all[n-1].b, all[n-1].d = e.b, e.d
		} else {
			all = append(all, e)
		}
	}
	return all
}

// compare adds the edits between two ranges.
func (d *differ) compare(a0, a1, b0, b1 int, anchors bool) {
	for a0 < a1 && b0 < b1 && d.a[a0] == d.b[b0] {
		a0, b0 = a0+1, b0+1
	}
	for a0 < a1 && b0 < b1 && d.a[a1-1] == d.b[b1-1] {
		a1, b1 = a1-1, b1-1
	}
	if a0 == a1 || b0 == b1 {
		if a0 < a1 || b0 < b1 {
			d.edits = append(d.edits, edit{a0, a1, b0, b1})
		}
		return
	}
	if d.shortest(a0, a1, b0, b1) {
		return
	}
	if anchors {
		if common := d.unique(a0, a1, b0, b1); len(common) > 0 {
			for _, at := range common {
				d.compare(a0, at[0], b0, at[1], false)
				a0, b0 = at[0], at[1]
			}
			d.compare(a0, a1, b0, b1, false)
			return
		}
	}
	d.edits = append(d.edits, edit{a0, a1, b0, b1})
}

// A front has, for a number k of edits, how far in the old text each diagonal gets: diagonal i-k
// at i, and unreached if it gets nowhere.
type front []int32

const unreached = -1 << 30

// at returns how far a diagonal gets with the edits of f.
func (f front) at(diagonal int) int {
	if i := diagonal + len(f)/2; 0 <= i && i < len(f) {
		return int(f[i])
	}
	return unreached
}

// step returns from where one edit more leads to a diagonal, by an insertion or else by a deletion.
func (f front) step(diagonal int) (x int, inserts bool) {
	down, right := f.at(diagonal+1), f.at(diagonal-1)+1
	if down >= right {
		return down, true
	}
	return right, false
}

// shortest adds the fewest edits between two ranges, unless they are more than maxEdits (Myers, An
// O(ND) Difference Algorithm and Its Variations, 1986).
func (d *differ) shortest(a0, a1, b0, b1 int) bool {
	n, m := a1-a0, b1-b0
	var fronts []front
	for k := range min(n+m, maxEdits) + 1 {
		f := make(front, 2*k+1)
		for i := range f {
			diagonal, x := i-k, 0
			if k > 0 {
				x, _ = fronts[k-1].step(diagonal)
			}
			y := x - diagonal
			if x < 0 || x > n || y < 0 || y > m {
				f[i] = unreached
				continue
			}
			for x < n && y < m && d.a[a0+x] == d.b[b0+y] {
				x, y = x+1, y+1
			}
			f[i] = int32(x)
			if x == n && y == m {
				d.trace(fronts, a0, b0, n, m)
				return true
			}
		}
		fronts = append(fronts, f)
	}
	return false
}

// trace adds the edits that led to the ends n and m of two ranges, back through the fronts.
func (d *differ) trace(fronts []front, a0, b0, n, m int) {
	var all []edit
	x, y := n, m
	for _, f := range slices.Backward(fronts) {
		diagonal := x - y
		var inserts bool
		if x, inserts = f.step(diagonal); inserts {
			y = x - diagonal
			all = append(all, edit{a0 + x, a0 + x, b0 + y - 1, b0 + y})
			y--
		} else {
			y = x - diagonal
			all = append(all, edit{a0 + x - 1, a0 + x, b0 + y, b0 + y})
			x--
		}
	}
	slices.Reverse(all)
	d.edits = append(d.edits, all...)
}

// unique returns where the lines are that both ranges have once, in an order that both have.
func (d *differ) unique(a0, a1, b0, b1 int) [][2]int {
	type count struct{ a, b, at int }
	seen := map[int32]*count{}
	for _, l := range d.a[a0:a1] {
		if seen[l] == nil {
			seen[l] = &count{}
		}
		seen[l].a++
	}
	for i, l := range d.b[b0:b1] {
		if c := seen[l]; c != nil {
			c.b++
			c.at = b0 + i
		}
	}
	var pairs [][2]int
	for i, l := range d.a[a0:a1] {
		if c := seen[l]; c.a == 1 && c.b == 1 {
			pairs = append(pairs, [2]int{a0 + i, c.at})
		}
	}
	// The longest increasing subsequence of the second numbers.
	var ends []int // of pairs, by length
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(ends, p[1], func(j, at int) int { return pairs[j][1] - at })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	if len(ends) == 0 {
		return nil
	}
	common := make([][2]int, len(ends))
	for n, i := len(ends)-1, ends[len(ends)-1]; n >= 0; n, i = n-1, before[i] {
		common[n] = pairs[i]
	}
	return common
}
