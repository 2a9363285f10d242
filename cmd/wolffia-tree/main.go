// Wolffia-tree is the tree server of a sandbox. wolffia starts it.
//
//	wolffia-tree tree TAG
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"wolffia/fusefs/treeserver"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "tree" && os.Args[1] != "usr" {
		fmt.Fprintf(os.Stderr, "wolffia-tree: arguments %q: wolffia starts this program, for a sandbox\n", os.Args[1:])
		os.Exit(1)
	}
	if err := treeserver.Main(); err != nil {
		// Its starter has got the error; standard error is the sandbox's log.
		fmt.Fprintf(os.Stderr, "wolffia-tree: %v\n", err)
		os.Exit(1)
	}
}
