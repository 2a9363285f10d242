package docker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// lastWords is how long the last output of a container that has ended may take to arrive.
const lastWords = time.Second

// A Launcher attaches to a sandbox that a keeper has started.
type Launcher struct{}

var _ launch.Launcher = Launcher{}

// Name implements [launch.Launcher].
func (Launcher) Name() string { return Name }

// Launch implements [launch.Launcher].
func (Launcher) Launch(spec *launch.Spec) (*launch.Instance, error) {
	if spec.Attached == nil {
		return nil, errors.New("launch.Spec.Attached is nil: the keeper has not started the sandbox")
	}
	stderr, toStderr := io.Pipe()
	conn, err := net.FileConn(spec.Attached.Stream)
	_ = spec.Attached.Stream.Close()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the connection to the container: %w", err)
	}
	s := newStream(conn, toStderr)
	return &launch.Instance{
		Stream: s,
		Stderr: stderr,
		Wait: func() error {
			err := spec.Attached.Wait()
			select { // output from before comes first
			case <-s.over:
			case <-time.After(lastWords):
			}
			_ = s.Close()
			if err != nil {
				_, _ = fmt.Fprintln(toStderr, err)
			}
			return errors.Join(err, toStderr.Close())
		},
		Kill:  func() error { return errors.Join(spec.Attached.Kill(), s.Close()) },
		Pause: spec.Attached.Pause, Resume: spec.Attached.Resume,
	}, nil
}
