package gvisor

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/runtime"
)

// What differs from when the memory was kept is refused by its name; what may differ is taken from now, or from then.
func TestFit(t *testing.T) {
	mount := func(target, source string, options ...string) specs.Mount {
		return specs.Mount{Destination: target, Source: source, Type: "bind", Options: options}
	}
	record := func(change func(k *kept)) *kept {
		k := &kept{Runsc: "v1", Guest: "abc", Boot: "boot1", Spec: specs.Spec{
			Hostname: "was", Process: &specs.Process{Args: []string{"guest", "--files", "9", "tag-1"}, Env: []string{"GOMAXPROCS=2"}},
			Mounts: []specs.Mount{mount("/a", "/x", "ro", "nosuid"), mount("/b", "/y", "rw")},
		}}
		change(k)
		return k
	}
	was := record(func(*kept) {})
	got, err := was.fit(record(func(k *kept) {
		k.Spec.Hostname, k.Spec.Process.Args[3], k.Spec.Process.Env = "is", "tag-2", nil
		k.Spec.Mounts[0] = mount("/a", "/elsewhere", "nosuid", "ro")
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Hostname != "is" || got.Mounts[0].Source != "/elsewhere" || !slices.Equal(got.Process.Args, was.Spec.Process.Args) || !slices.Equal(got.Process.Env, was.Spec.Process.Env) {
		t.Errorf("fit: got %+v, process %+v", got, got.Process)
	}
	for want, change := range map[string]func(k *kept){
		"by runsc v1, and this is v2":          func(k *kept) { k.Runsc = "v2" },
		"before the machine was restarted":     func(k *kept) { k.Boot = "boot2" },
		"by another wolffia":                   func(k *kept) { k.Guest = "def" },
		"other arguments":                      func(k *kept) { k.Spec.Process.Args[2] = "8" },
		`with a mount at "/b", which`:          func(k *kept) { k.Spec.Mounts = k.Spec.Mounts[:1] },
		`without a mount at "/c", which`:       func(k *kept) { k.Spec.Mounts = append(k.Spec.Mounts, mount("/c", "/z")) },
		`a mount at "/b" of other options (["`: func(k *kept) { k.Spec.Mounts[1] = mount("/b", "/y", "ro") },
	} {
		if _, err := was.fit(record(change)); !errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("fit: got %v; want a conflict with %q", err, want)
		}
	}
}

// A record that is damaged, or of another kind, is an error and not a memory.
func TestReadKept(t *testing.T) {
	whole, err := json.Marshal(&kept{Spec: specs.Spec{Process: &specs.Process{Args: []string{"x"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{string(whole): true, "": false, "{}": false, string(whole[:len(whole)/2]): false, "[]": false} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readKept(f); (err == nil) != ok {
			t.Errorf("readKept of %q: got err %v; want (err == nil) == %v", text, err, ok)
		}
		_ = f.Close()
	}
}

func TestExplain(t *testing.T) {
	const text = `running container: starting container: restoring container "x": vfs.CompleteRestore() failed: gofer: failed to walk "dir/g" of type 0100000 in mount "__no_name_0:/ws": no such file or directory`
	if err := explain(text); !errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), `"/ws/dir/g"`) {
		t.Errorf("explain: got %v", err)
	}
	if err := explain("something else"); err != nil {
		t.Errorf("explain: got %v; want nil", err)
	}
}
