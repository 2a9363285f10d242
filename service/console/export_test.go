package console

// Calls are the calls of the API, as method and path.
func Calls() (all []string) {
	for pattern := range calls {
		all = append(all, route(pattern))
	}
	return all
}
