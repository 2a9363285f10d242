package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/wait"
)

// call NAME JSON makes a call of the service on the state directory, once it
// serves, and prints status and answer. NAME may be 'METHOD /PATH', too. $ID in both is the last sandbox that was
// told of.
func call(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: call NAME JSON")
	}
	ctx, cancel := context.WithTimeout(context.Background(), suite.Limit)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		path := filepath.Join(ts.Getenv("WOLFFIA_STATE_DIR"), "service", "sock")
		var c net.Conn
		var err error
		wait.Poll(func() bool { // another command of the script is starting the service
			c, err = new(net.Dialer).DialContext(ctx, "unix", path)
			return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED)
		})
		return c, err
	}}
	body := strings.ReplaceAll(args[1], "$ID", ts.Getenv("ID"))
	method, path, other := strings.Cut(strings.ReplaceAll(args[0], "$ID", ts.Getenv("ID")), " ")
	if !other {
		method, path = http.MethodPost, "/api/v1/"+args[0]
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://wolffia"+path, strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	res, err := transport.RoundTrip(req)
	ts.Check(err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s", res.StatusCode, answer)
	if id := regexp.MustCompile(`"(?:sandboxId|id)":"([a-z0-9]{12})"`).FindSubmatch(answer); id != nil {
		ts.Setenv("ID", string(id[1]))
	}
}
