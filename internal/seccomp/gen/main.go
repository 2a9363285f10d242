// Gen writes the filter of package seccomp for the architecture that it runs on.
//
// It has a compiler of its own: elastic/go-seccomp-bpf 1.6.0, the one in pure Go,
// does not load the number of the call again after it has looked at an argument, so
// that it compares later calls in the profile with that argument.
package main

import (
	"log"
	"os"
	"runtime"
)

func main() {
	filter, err := compiled()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("filter_"+runtime.GOARCH+".bpf", filter, 0o644); err != nil {
		log.Fatal(err)
	}
}
