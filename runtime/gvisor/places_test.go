package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// What would have to be made in a directory of the host's that is shown
// read-only is refused: runsc would make it.
func TestCheckPlaces(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "there/below"), 0o755), os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	bind := func(target string) runtime.Mount { return runtime.Mount{Source: "/x", Target: target} }
	for name, tt := range map[string]struct {
		spec launch.Spec
		ok   bool
	}{
		"beside": {launch.Spec{Etc: dir, Binds: []runtime.Mount{bind("/workspace"), bind("/etcetera/x")}}, true},
		"in the root directory": {launch.Spec{
			Root: []launch.Mount{{Source: dir, Target: "/srv"}}, Binds: []runtime.Mount{bind("/srv/none")},
		}, false},
		"deep": {launch.Spec{
			Root: []launch.Mount{{Source: dir, Target: "/srv"}}, Binds: []runtime.Mount{bind("/srv/there/none")},
		}, false},
		"below a file": {launch.Spec{
			Root: []launch.Mount{{Source: dir, Target: "/srv"}}, Binds: []runtime.Mount{bind("/srv/file/none")},
		}, false},
		"there": {launch.Spec{
			Root:  []launch.Mount{{Source: dir, Target: "/srv"}, {Kind: launch.Symlink, Source: "usr/bin", Target: "/bin"}},
			Binds: []runtime.Mount{bind("/srv/there"), bind("/srv/file"), bind("/bin/x")},
		}, true},
		"in /etc":    {launch.Spec{Etc: dir, Binds: []runtime.Mount{bind("/etc/none")}}, false},
		"in a mount": {launch.Spec{Binds: []runtime.Mount{{Source: dir, Target: "/data"}, bind("/data/none")}}, false},
		"in one writable": {launch.Spec{
			Binds: []runtime.Mount{{Source: "/never/looked/at", Target: "/workspace", Writable: true}, bind("/workspace/none")},
		}, true},
	} {
		tt.spec.Home = "/home/ann"
		err := checkPlaces(tt.spec.Mounts())
		if (err == nil) != tt.ok || err != nil && runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%s: got err %v; want (err == nil) == %v and (err == nil or runtime.Class(err) == runtime.ErrInvalid)", name, err, tt.ok)
		}
	}
}

func TestCheckPlatform(t *testing.T) {
	none := filepath.Join(t.TempDir(), "kvm")
	for _, name := range []string{"", DefaultPlatform} {
		if err := checkPlatform(name, none); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := checkPlatform(KVM, none); runtime.Class(err) != runtime.ErrUnavailable {
		t.Errorf("without the device: %v", err)
	}
	if err := checkPlatform(KVM, os.DevNull); err != nil {
		t.Errorf("with a device: %v", err)
	}
}

func TestLaunchSaysWhatIsMissing(t *testing.T) {
	for _, s := range []*launch.Spec{{Seccomp: []byte{1}}, {Program: os.Args[0]}} {
		if i, err := (Launcher{}).Launch(s); err == nil || i != nil {
			t.Errorf("%+v: got i %v; want err != nil and i == nil", s, i)
		}
	}
}
