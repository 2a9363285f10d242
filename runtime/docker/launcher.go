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

// lastWords is how long the connection to a container that is gone may take to
// end.
const lastWords = time.Second

// A Launcher takes over what a keeper has started.
type Launcher struct{}

var _ launch.Launcher = Launcher{}

// Name implements [launch.Launcher].
func (Launcher) Name() string { return Name }

// Launch implements [launch.Launcher].
func (Launcher) Launch(spec *launch.Spec) (*launch.Instance, error) {
	if spec.Attached == nil {
		return nil, errors.New("no keeper has started it")
	}
	said, say := io.Pipe()
	conn, err := net.FileConn(spec.Attached.Stream)
	_ = spec.Attached.Stream.Close()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the connection to the container: %w", err)
	}
	s := newStream(conn, say)
	return &launch.Instance{
		Stream: s,
		Stderr: said,
		Wait: func() error {
			err := spec.Attached.Wait()
			select { // what was said before comes first
			case <-s.over:
			case <-time.After(lastWords):
			}
			_ = s.Close() // it is over, whatever the connection does
			if err != nil {
				_, _ = fmt.Fprintln(say, err)
			}
			return errors.Join(err, say.Close())
		},
		Kill: func() error { return errors.Join(spec.Attached.Kill(), s.Close()) },
	}, nil
}
