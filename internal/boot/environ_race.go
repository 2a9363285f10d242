//go:build race

package boot

// The race detector is told by a variable what to do at the end of a program;
// by default it waits for a second.
func init() { passed = append(passed, "GORACE") }
