package gitsync

import (
	"context"

	"wolffia/runtime"
)

func (p *Pair) sync(context.Context) (Report, error) {
	return Report{}, runtime.Errorf(runtime.ErrUnsupported, "gitsync: written by the next commits")
}

func (p *Pair) unchanged() (Report, bool) { return Report{}, false }

func begin(private, state string) error {
	return runtime.Errorf(runtime.ErrUnsupported, "gitsync: written by the next commits")
}
