//go:build race

package boot

// GORACE configures the race detector, which by default sleeps for a second when a program
// ends.
func init() { passed = append(passed, "GORACE") }
