package cluster

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"

	"k8s.io/client-go/tools/remotecommand"

	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// maxSaid is how much of what the other end of a connection says is kept, in bytes.
const maxSaid = 4 << 10

// said keeps the last output.
type said struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	s.text = s.text[max(0, len(s.text)-maxSaid):]
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(s.text, []byte("?"))))
}

// connect executes wolffia-guest connect in the sandbox's pod. It returns the connection, and a
// channel on which its end is sent with the reason. It ends with ctx. This process's end of it stays
// open, so that the shim does not see its end before the reason.
func (c *Cluster) connect(ctx context.Context, tag string) (_ *os.File, gone <-chan error, err error) {
	u, err := url.Parse(c.config.Host)
	if err != nil {
		return nil, nil, c.explain("the API server's address", err)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/api/v1/namespaces/" + c.namespace + "/pods/" + objectName(c.id) + "/exec"
	u.RawQuery = url.Values{
		"container": {container}, "command": {launch.GuestPath, "connect", tag},
		"stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
	}.Encode()
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", u.String())
	if err != nil {
		return nil, nil, c.explain("connect to the pod", err)
	}
	end1, theirs, err := rawsock.Pair()
	if err != nil {
		return nil, nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	ours, err := net.FileConn(end1) // which no thread waits for
	if err = errors.Join(err, end1.Close()); err != nil {
		return nil, nil, runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, theirs.Close()))
	}
	c.held = ours // or the collector of garbage would close it
	end := make(chan error, 1)
	go func() { // ends with ctx, with the shim's end of the pair, or with the pod
		words := new(said)
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: ours, Stdout: ours, Stderr: words})
		switch text := words.String(); {
		case text != "":
			end <- runtime.Errorf(runtime.ErrUnavailable, "the connection to the pod ended: %s", text)
		case err != nil && !errors.Is(err, context.Canceled):
			end <- c.explain("the connection to the pod", err)
		default:
			end <- nil
		}
	}()
	return theirs, end, nil
}
