//go:build crashtest

package step

import (
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// Variable names the abstract socket, without the @.
const Variable = "WOLFFIA_CRASHTEST_STEPS"

// limit bounds the time that a failpoint waits.
const limit = 60 * time.Second

// Reached reports the failpoint as one line: the first arguments of the process, and
// name. It returns when the other end hangs up, or at once if nothing listens.
func Reached(name string) {
	at := os.Getenv(Variable)
	if at == "" {
		return
	}
	conn, err := net.Dial("unix", "@"+at)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	line := strings.Join(append(os.Args[1:min(3, len(os.Args))], name), "\t")
	if _, err := io.WriteString(conn, line+"\n"); err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// Env returns the variables that a child process needs for its own failpoints.
func Env() []string {
	if at := os.Getenv(Variable); at != "" {
		return []string{Variable + "=" + at}
	}
	return nil
}
