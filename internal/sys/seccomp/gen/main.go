// Gen writes the filters of package seccomp, one for each architecture.
//
// It has a compiler of its own: elastic/go-seccomp-bpf 1.6.0, the one in pure Go,
// does not load the number of the call again after it has looked at an argument, so
// that it compares later calls in the profile with that argument.
package main

import (
	"log"
	"os"
)

func main() {
	for _, goarch := range architectures {
		for kind, root := range kinds {
			filter, err := compiled(goarch, root)
			if err != nil {
				log.Fatal(err)
			}
			if err := os.WriteFile(kind+goarch+".bpf", filter, 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
}
