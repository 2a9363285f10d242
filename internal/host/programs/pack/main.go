// Pack makes a wolffia that carries its companions.
//
//	pack OUT WOLFFIA COMPANION...
package main

import (
	"log"
	"os"

	"wolffia/internal/host/programs"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: pack OUT WOLFFIA COMPANION...")
	}
	if err := programs.Pack(os.Args[1], os.Args[2], os.Args[3:]...); err != nil {
		log.Fatalf("pack: %v", err)
	}
}
