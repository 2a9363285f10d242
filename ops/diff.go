package ops

import (
	"bytes"
	"context"
	"errors"

	"wolffia/runtime"
)

// errFull ends a diff that is longer than was asked for.
var errFull = errors.New("the text is too long")

// A limited is a buffer of at most left more bytes.
type limited struct {
	text bytes.Buffer // not embedded: it must not have ReadFrom, which has no bound
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n, _ := l.text.Write(b[:min(len(b), l.left)])
	if l.left -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// Diff returns the beginning of what Diff of rt writes, up to most bytes; more says that there is
// more.
func Diff(
	ctx context.Context, rt runtime.Workspace, sandboxID string, o runtime.DiffOptions, most int,
) (text []byte, more bool, err error) {
	w := &limited{left: most}
	err = rt.Diff(ctx, sandboxID, o, w)
	if more = errors.Is(err, errFull); more {
		err = nil
	}
	return w.text.Bytes(), more, err
}
