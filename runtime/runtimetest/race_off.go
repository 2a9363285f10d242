//go:build !race

package runtimetest

// some says how much of n is enough.
func some(n int) int { return n }
