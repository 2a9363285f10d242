package child

import (
	"errors"
	"io"
	"os"
)

// A Piped is a child whose standard streams are pipes.
type Piped struct {
	*Child
	Stream io.ReadWriteCloser // the child's standard output and input
	Stderr io.ReadCloser
}

// StartPiped is Start with pipes as descriptors 0, 1 and 2; Files follow from 3 on.
func StartPiped(c *Command) (_ *Piped, err error) {
	var ours, theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		for _, f := range ours {
			if err != nil {
				_ = f.Close()
			}
		}
	}()
	for fd := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if fd == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	all := *c
	all.Files = append(theirs[:3:3], c.Files...)
	child, err := Start(&all)
	if err != nil {
		return nil, err
	}
	return &Piped{Child: child, Stream: &stream{ours[1], ours[0]}, Stderr: ours[2]}, nil
}

// A stream reads from one pipe and writes to another.
type stream struct{ r, w *os.File }

func (s *stream) Read(b []byte) (int, error)  { return s.r.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.w.Write(b) }
func (s *stream) Close() error                { return errors.Join(s.w.Close(), s.r.Close()) }
