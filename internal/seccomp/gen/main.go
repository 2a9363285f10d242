// Gen writes the filter of the architecture it runs on.
package main

import (
	"log"
	"os"
	"runtime"

	"wolffia/internal/seccomp/profile"
)

func main() {
	filter, err := profile.Filter()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("filter_"+runtime.GOARCH+".bpf", filter, 0o644); err != nil {
		log.Fatal(err)
	}
}
