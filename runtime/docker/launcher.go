package docker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"wolffia/runtime"
)

// lastWords is how long the connection to a container that is gone may take to
// end.
const lastWords = time.Second

// A Launcher takes over what a keeper has started.
type Launcher struct{}

var _ runtime.Launcher = Launcher{}

// Name implements [runtime.Launcher].
func (Launcher) Name() string { return Name }

// Launch implements [runtime.Launcher].
func (Launcher) Launch(spec *runtime.LaunchSpec) (*runtime.Instance, error) {
	if spec.Kept == nil {
		return nil, errors.New("no keeper has started it")
	}
	said, say := io.Pipe()
	conn, err := net.FileConn(spec.Kept.Stream)
	_ = spec.Kept.Stream.Close()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the connection to the container: %w", err)
	}
	s := newStream(conn, say)
	return &runtime.Instance{
		Stream: s,
		Stderr: said,
		Wait: func() error {
			err := spec.Kept.Wait()
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
		Kill: func() error { return errors.Join(spec.Kept.Kill(), s.Close()) },
	}, nil
}
