package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/cgroup"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

type fakeLauncher string

func (f fakeLauncher) Name() string { return string(f) }

func (fakeLauncher) Launch(*launch.Spec) (*launch.Instance, error) { return nil, nil }

// What a start starts, with which parameters, for each kind of sandbox.
func TestPlan(t *testing.T) {
	dir, err := statedir.Open(t.TempDir() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	beside := launch.ShimMounts | launch.HostCgroup | launch.StoreImages
	s := &starter{
		catalog: &catalog{dir: dir, wolffia: "/bin/wolffia", backends: []launch.Backend{
			{Launcher: fakeLauncher("bare"), Can: beside}, {Launcher: fakeLauncher("kernel"), Can: beside | launch.OwnKernel}, {Launcher: fakeLauncher("engine"), Place: launch.InEngine, Keeper: "keeper"},
		}},
		images: store.Open(dir.Path()),
	}
	id := runtime.NewID()
	rec := dir.Record(id)
	const hex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const image = "sha256:" + hex
	record := filepath.Join(dir.Path(), "images", hex, "image.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o700), os.WriteFile(record, []byte(`{"id":"`+image+`"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	rules := []perm.Rule{{Pattern: "**", Level: perm.Read}}
	group := &limiting{plan: new(cgroup.Plan), rlimits: launch.Rlimits{PIDs: 7}}
	onDisk := paths{guest: "/bin/guest"}
	type want struct {
		tree, keeper, backend                         bool
		copyGuest, ownKernel, image, sendsImage, held bool
	}
	for _, tt := range []struct {
		name   string
		config statedir.Config
		limits *limiting
		use    paths
		want   want
	}{
		{"nothing", statedir.Config{}, nil, onDisk, want{}},
		{"a codebase", statedir.Config{SandboxConfig: runtime.SandboxConfig{CodebasePath: "/code", Permissions: rules}}, nil, onDisk, want{tree: true}},
		{"by root", statedir.Config{DroppedUID: 9}, nil, onDisk, want{copyGuest: true}},
		{"a guest in memory", statedir.Config{}, nil, paths{}, want{copyGuest: true}},
		{"a program", statedir.Config{SandboxConfig: runtime.SandboxConfig{Runtime: "kernel"}}, nil, paths{guest: "/bin/guest", backend: "/bin/kernel"}, want{backend: true, ownKernel: true}},
		{"an image", statedir.Config{SandboxConfig: runtime.SandboxConfig{ImageID: image}}, nil, onDisk, want{image: true}},
		{"an image, by root", statedir.Config{SandboxConfig: runtime.SandboxConfig{ImageID: image}, DroppedUID: 9}, nil, onDisk, want{image: true, sendsImage: true, copyGuest: true}},
		{"a group", statedir.Config{}, group, onDisk, want{held: true}},
		{"limits without a group", statedir.Config{}, &limiting{}, onDisk, want{}},
		{
			"an engine, by root",
			statedir.Config{SandboxConfig: runtime.SandboxConfig{Runtime: "engine", ImageID: image, CodebasePath: "/code", Permissions: rules}, DroppedUID: 9},
			nil, onDisk,
			want{tree: true, keeper: true},
		},
	} {
		c := tt.config
		c.ID = id
		if c.Runtime == "" {
			c.Runtime = "bare"
		}
		life := new(statedir.Lifetime)
		var err error
		if tt.use.image, err = s.lowers(t.Context(), &c, nil); err != nil {
			t.Fatal(err)
		}
		p, err := s.plan(rec, &c, life, tt.limits, tt.use)
		if err != nil {
			t.Fatal(err)
		}
		got := want{
			p.tree != nil, p.keeper != "", p.backend != "",
			p.shim.CopyGuest, p.shim.Can.Has(launch.OwnKernel), len(p.shim.Image) > 0, p.shim.SendsImage, p.shim.Held,
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		if p.shim.ID != id || p.shim.Run != rec.Run() || p.shim.Mnt != rec.Mnt() || p.shim.Guest != tt.use.guest || p.shim.Lifetime != life {
			t.Errorf("%s: got p.shim %+v; want p.shim.ID == %v and p.shim.Run == box.Run() and p.shim.Mnt == box.Mnt() and p.shim.Guest == %v and p.shim.Lifetime == %v",
				tt.name, p.shim, id, tt.use.guest, life)
		}
		if p.shim.Config.Permissions != nil {
			t.Errorf("%s: the rules are only the tree server's", tt.name)
		}
		if p.tree != nil {
			got, err := boot.ParseRules(p.tree.Rules)
			if err != nil || !slices.Equal(got, c.Permissions) || p.tree.Codebase != c.CodebasePath || p.tree.HostIDs != (p.keeper != "") {
				t.Errorf("%s: the tree server gets %+v: %v", tt.name, p.tree, err)
			}
		}
		if p.shim.HasBackend != (p.backend != "") || (p.shim.KeeperDir != "") != (p.keeper != "") || (p.shim.StateDir != "") != (p.keeper != "") {
			t.Errorf(`%s: got p.shim %+v; want p.shim.HasBackend == p.backend != "" and (p.shim.KeeperDir != "") == p.keeper != "" and (p.shim.StateDir != "") == p.keeper != ""`,
				tt.name, p.shim)
		}
		if tt.limits != nil && p.shim.Rlimits != tt.limits.rlimits {
			t.Errorf("%s: got p.shim.Rlimits %+v; want tt.limits == nil or p.shim.Rlimits == %+v", tt.name, p.shim.Rlimits, tt.limits.rlimits)
		}
	}
}

// A backend on another machine is not given directories of this host.
func TestElsewhere(t *testing.T) {
	b := &launch.Backend{Launcher: fakeLauncher("far"), Place: launch.Elsewhere, Complete: func(*runtime.SandboxConfig) error { return nil }}
	for _, c := range []runtime.SandboxConfig{
		{CodebasePath: "/code"}, {Rootfs: "/root"}, {Mounts: []runtime.Mount{{}}}, {Volumes: []runtime.VolumeMount{{}}}, {Sockets: []runtime.Socket{{}}},
	} {
		if err := completeForEngine(b, &statedir.Config{SandboxConfig: c}); runtime.Class(err) != runtime.ErrUnsupported {
			t.Errorf("%+v: got err %v; want runtime.Class(err) == runtime.ErrUnsupported", c, err)
		}
	}
	for _, c := range []runtime.SandboxConfig{{}, {CodebasePath: "/code", CopyOnWrite: true, Filter: runtime.FilterFuse}} {
		if err := completeForEngine(b, &statedir.Config{SandboxConfig: c}); err != nil {
			t.Error(err)
		}
	}
}
