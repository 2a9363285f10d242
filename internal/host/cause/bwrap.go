package cause

import "slices"

// oldest is the first bubblewrap with --disable-userns.
var oldest = []int{0, 8, 0}

// Older reports whether version a is before b.
func Older(a, b []int) bool { return slices.Compare(a, b) < 0 }

// TooOld reports whether a bubblewrap lacks what wolffia needs.
func TooOld(version []int) bool { return Older(version, oldest) }

// vulnerable reports whether it has CVE-2026-41163 where it is setuid: by the overlays that came
// with 0.11.0. Distributions repair it under the same version.
func (b *Bwrap) vulnerable() bool {
	return !Older(b.Version, []int{0, 11, 0}) && Older(b.Version, []int{0, 11, 2})
}
