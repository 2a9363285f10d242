// Package nearest finds the name that was meant by a mistyped one.
package nearest

// Of returns the nearest of names to name: by at most two edits, and fewer than it has bytes. It is empty if
// none is near; of two that are as near, it is the first.
func Of(name string, names []string) string {
	best, distance := "", 3
	for _, n := range names {
		if d := edits(name, n); d < min(distance, len(n)) {
			best, distance = n, d
		}
	}
	return best
}

// edits returns how many bytes have to be inserted, deleted or replaced to make b of a
// (Levenshtein). A name that is much longer than all keys counts as far away.
func edits(a, b string) int {
	if len(a) > 100 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
