package service

import (
	"path"
	"path/filepath"

	"wolffia/internal/pathname"
	"wolffia/runtime"
)

// A Volume is a directory or file of the host that a request asks to show.
type Volume struct {
	Path     string // absolute, on the host
	Target   string // absolute, inside
	Writable bool
}

// A Root is a directory of the host that volumes of requests may be in.
type Root struct {
	Path     string // absolute
	Real     string // Path without symbolic links
	Writable bool   // volumes in it may be
}

// volumes adds the volumes of a request to mounts. That a link leads out of its root is found when
// the sandbox is created: see [runtime.Mount].
func volumes(mounts []runtime.Mount, asked []Volume, roots []Root) ([]runtime.Mount, error) {
	for _, v := range asked {
		if !filepath.IsAbs(v.Path) || !path.IsAbs(v.Target) {
			return nil, runtime.Errorf(runtime.ErrInvalid, "volume %q at %q: both paths must be absolute", v.Path, v.Target)
		}
		source := filepath.Clean(v.Path)
		root := rootOf(source, v.Writable, roots)
		switch {
		case root == nil && v.Writable && rootOf(source, false, roots) != nil:
			return nil, runtime.Errorf(runtime.ErrDenied, "volume %s: the service shows it read-only: ask for that", source)
		case root == nil:
			return nil, runtime.Errorf(runtime.ErrDenied, "volume %s: the service shows no directory there", source)
		}
		mounts = append(mounts, runtime.Mount{Source: source, Target: path.Clean(v.Target), Writable: v.Writable, Within: root.Real})
	}
	return mounts, nil
}

// rootOf returns the root that a path is in, nil if there is none that permits the volume.
func rootOf(source string, writable bool, roots []Root) *Root {
	for i := range roots {
		r := &roots[i]
		if (pathname.Within(source, r.Path) || pathname.Within(source, r.Real)) && (r.Writable || !writable) {
			return r
		}
	}
	return nil
}
