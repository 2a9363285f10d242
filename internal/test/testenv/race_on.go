//go:build race

package testenv

// raced reports whether the race detector is on.
const raced = true
