//go:build !small

package serving

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"wolffia/image/store"
	"wolffia/ops/stream"
	"wolffia/service/e2b"
	"wolffia/service/engineapi"
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
		Builds: &e2b.Builds{
			Allowed: func() bool { return i.current.Load().Truth("allow-builds") },
			Command: func(name string) ([]string, error) {
				images := store.Open(i.rt.StateDir())
				id, err := images.Find(name)
				if err != nil {
					return nil, err
				}
				image, err := images.Get(id)
				if err != nil {
					return nil, err
				}
				return image.Config.Command(), nil
			},
			Build: func(ctx context.Context, q *e2b.BuildRequest, w io.Writer) error {
				names := make([]string, 0, len(q.Names))
				for _, n := range q.Names {
					canonical, err := store.Canonical(n)
					if err != nil {
						return err
					}
					names = append(names, canonical)
				}
				ask := &engineapi.BuildRequest{Dir: q.Dir, File: q.File, Names: names, NoCache: q.NoCache}
				_, err := i.buildFor(ctx, ask, w)
				return err
			},
			Names: func(begin string) (names []string, err error) {
				const any = "x" // a name does not end with a slash
				canonical, err := store.Canonical(begin + any)
				if err != nil {
					return nil, err
				}
				canonical = strings.TrimSuffix(canonical, any+":latest")
				images, err := store.Open(i.rt.StateDir()).List()
				if images == nil {
					return nil, err
				}
				for _, image := range images {
					for name := range image.Names {
						if rest, is := strings.CutPrefix(name, canonical); is {
							names = append(names, rest)
						}
					}
				}
				return names, nil // which sandbox uses them does not matter
			},
			Remove: func(ctx context.Context, name string) error { return store.Open(i.rt.StateDir()).Remove(ctx, name) },
			Temp:   filepath.Join(i.rt.StateDir(), "service", "e2b-builds"),
		},
	}
}
