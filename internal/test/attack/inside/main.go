// Inside is the program that attacks its sandbox, from within. See package attack.
package main

import (
	"os"

	"wolffia/internal/test/attack"
)

func main() { os.Exit(attack.Main(os.Args)) }
