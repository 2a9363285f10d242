package attack

// int80 makes a system call without arguments by the 32-bit gate. It returns the
// result, or the error's number, negative.
//
//go:noescape
func int80(nr uint32) int32
