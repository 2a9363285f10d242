package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A connection is one to PID 1.
type connection struct {
	held net.Conn     // this process's end of it
	file *os.File     // the shim's
	over <-chan error // the end is sent on it, with the reason
}

// connect executes wolffia-guest connect in the sandbox's pod. The connection ends with ctx. This
// process's end of it stays open, so that the shim does not see its end before the reason.
func (c *Cluster) connect(ctx context.Context, tag string) (*connection, error) {
	u, err := url.Parse(c.config.Host)
	if err != nil {
		return nil, c.explain("the API server's address", err)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/api/v1/namespaces/" + c.namespace + "/pods/" + objectName(c.id) + "/exec"
	u.RawQuery = url.Values{
		"container": {container}, "command": {launch.GuestPath, "connect", tag},
		"stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
	}.Encode()
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", u.String())
	if err != nil {
		return nil, c.explain("connect to the pod", err)
	}
	ours, theirs, err := rawsock.Pair()
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	held, err := net.FileConn(ours) // which no thread waits for
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, theirs.Close()))
	}
	end := make(chan error, 1)
	go func() { // ends with ctx, with the shim's end of the pair, or with the pod
		words := new(said)
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: held, Stdout: held, Stderr: words})
		switch text := words.String(); {
		case text != "":
			end <- runtime.Errorf(runtime.ErrUnavailable, "the connection to the pod ended: %s", text)
		case err != nil && !errors.Is(err, context.Canceled):
			end <- c.explain("the connection to the pod", err)
		default:
			end <- nil
		}
	}()
	return &connection{held, theirs, end}, nil
}

// hold waits until PID 1 has ended, and returns why. When the connection to it breaks, hold makes
// another one and sends it to c.again: a kubelet or an API server may be restarted, a network fail for
// a while, a proxy end what is idle.
func (c *Cluster) hold(ctx context.Context, tag string, now *connection) error {
	var broken time.Time // when the last connection that lasted did
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		began := time.Now()
		err := <-now.over
		if lasted := time.Since(began) > 2*longestPause; lasted || broken.IsZero() {
			broken, pause = time.Now(), shortestPause
		}
		ended, why := c.hasEnded(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case ended:
			return cmp.Or(why, err)
		case time.Since(broken) > alone:
			return cmp.Or(err, why)
		}
		fmt.Fprintln(os.Stderr, "connect to the pod again:", cmp.Or(err, why, io.EOF))
		_ = now.held.Close()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if now, err = c.connect(ctx, tag); err != nil {
			return err
		}
		select {
		case c.again <- now.file:
		case <-ctx.Done():
			return nil
		}
	}
}

// hasEnded reports whether the pod has ended, and why. While that is not known it has not.
func (c *Cluster) hasEnded(ctx context.Context) (ended bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	pod, err := c.pods().Get(ctx, objectName(c.id), metav1.GetOptions{})
	switch {
	case kerrors.IsNotFound(err), err == nil && pod.GetUID() != c.pod:
		return true, runtime.Errorf(runtime.ErrUnavailable, "pod %s/%s was deleted in the cluster at %s",
			c.namespace, objectName(c.id), c.config.Host)
	case err != nil:
		return false, c.explain("look for the pod", err)
	}
	if s := (event{object: pod}).state(); s.err != "" {
		return true, runtime.Errorf(runtime.ErrUnavailable, "the pod ended: %s", s.err)
	}
	return false, nil
}

// Again implements [wolffia/keeper.Remote].
func (c *Cluster) Again() <-chan *os.File { return c.again }
