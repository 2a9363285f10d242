// Wolffia-guest is PID 1 of a sandbox. It is started by wolffia, never by
// hand: it speaks frames on its standard input and output.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/guest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "wolffia-guest:", err)
		os.Exit(1)
	}
}

func run() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("this is PID 1 of a sandbox, started by wolffia; it is of no use on its own")
	}
	if err := guest.Harden(); err != nil {
		return err
	}
	unix.Umask(0o022)
	return guest.Serve(os.Stdin, os.Stdout, os.Exit)
}
