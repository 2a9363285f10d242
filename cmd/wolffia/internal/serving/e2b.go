//go:build !small

package serving

import (
	"context"

	"wolffia/ops/stream"
	"wolffia/service/e2b"
	"wolffia/volume"
)

// forE2B returns the options of E2B's interface.
func (i *instance) forE2B() *e2b.Options {
	return &e2b.Options{
		Options: stream.Options{Log: i.log},
		Volumes: &e2b.Volumes{
			Store:   volume.Open(i.rt.StateDir()),
			Allowed: func() bool { return i.current.Load().Truth("allow-volumes") },
			Make: func(ctx context.Context, name string) error {
				return i.rt.MakeVolume(ctx, i.current.Load().template, name)
			},
		},
	}
}
