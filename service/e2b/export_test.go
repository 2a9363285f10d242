package e2b

// TryAtMost sets of how many sandboxes the tokens are tried of a URL that names none.
func TryAtMost(n int) (restore func()) {
	old := maxTried
	maxTried = n
	return func() { maxTried = old }
}
