package shim

import (
	"testing"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// What a user may want back as soon as a sandbox has ended is not held by a PID 1 that ends later.
func TestBorrows(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    runtime.SandboxConfig
		want bool
	}{
		{"nothing", runtime.SandboxConfig{}, false},
		{"a codebase", runtime.SandboxConfig{CodebasePath: "/src"}, false},
		{"toolchains", runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: "/opt/go", Target: "/opt/go", Toolchain: true}}}, false},
		{"a mount", runtime.SandboxConfig{Mounts: []runtime.Mount{{Toolchain: true}, {Source: "/media/usb", Target: "/usb"}}}, true},
		{"a volume", runtime.SandboxConfig{Volumes: []runtime.VolumeMount{{Name: "v", Target: "/v"}}}, true},
		{"an automatic cache", runtime.SandboxConfig{Volumes: []runtime.VolumeMount{{Name: "v", Target: "/v", Cache: "go", Key: "a"}}}, false},
		{"a socket", runtime.SandboxConfig{Sockets: []runtime.Socket{{Source: "/run/a", Target: "/run/a"}}}, true},
		{"a root directory", runtime.SandboxConfig{Rootfs: "/srv/root"}, true},
		{"a static filter", runtime.SandboxConfig{CodebasePath: "/src", Filter: runtime.FilterStatic}, true},
		{"no filter", runtime.SandboxConfig{CodebasePath: "/src", Filter: runtime.FilterNone}, true},
	} {
		if got := borrows(&statedir.Config{SandboxConfig: tt.c}); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
