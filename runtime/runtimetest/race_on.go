//go:build race

package runtimetest

// some says how much of n is enough: the race detector is slow, and finds what
// it finds with less.
func some(n int) int { return n / 4 }
