package runtimetest

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"wolffia/perm"
	"wolffia/runtime"
)

var createTests = []test{
	{"CreateDefaults", nil, createDefaults},
	{"CreateFields", nil, createFields},
	{"CreateCopies", nil, createCopies},
	{"CreateIDTaken", nil, createIDTaken},
	{"CreateNameTaken", nil, createNameTaken},
	{"CreateInvalid", nil, createInvalid},
	{"CreateInvalidOnHost", nil, createInvalidOnHost},
	{"CreateResolvesCodebase", nil, createResolvesCodebase},
	{"ListOrder", nil, listOrder},
}

func createDefaults(e *env) {
	before := time.Now().Truncate(time.Millisecond)
	s := e.create(nil)
	after := time.Now()
	if !runtime.IsID(s.ID) || s.Name != "" || s.ContainerName() != s.ID || len(s.Labels) != 0 ||
		s.State != runtime.StateCreated || s.Reason != "" || s.Runtime != e.rt.Name() ||
		s.MountPoint != runtime.DefaultMountPoint || s.Network != runtime.NetworkNone ||
		s.CodebaseID != "" || s.CodebasePath != "" {
		e.Errorf("Create: got %+v, want an unnamed sandbox that is created, with the defaults", s)
	}
	if s.CreatedAt.Before(before) || s.CreatedAt.After(after) || s.CreatedAt.Nanosecond()%1e6 != 0 {
		e.Errorf("created at %v, want a millisecond between %v and %v", s.CreatedAt, before, after)
	}
	if s.UID == 0 || os.Geteuid() != 0 && s.UID != os.Geteuid() {
		if e.has(Isolation) {
			e.Errorf("uid %d: want the caller's, or another one if that is root", s.UID)
		}
	}
}

// everything is a configuration in which every field says something that every
// runtime can do.
func everything(e *env) *runtime.SandboxConfig {
	return &runtime.SandboxConfig{
		ID: runtime.NewID(), Name: "A.name-with_all.9", CodebaseID: "a codebase",
		CodebasePath: e.dir(), Permissions: rules("**=write"), MountPoint: "/srv/code",
		Labels:  map[string]string{"wolffia.userId": "ann", "k": "", "key with spaces\n": "ünï\x01\"\\", "a": strings.Repeat("v", 4096)},
		Runtime: e.rt.Name(), Env: map[string]string{"A": "b"}, Network: runtime.NetworkNone,
	}
}

func createFields(e *env) {
	c := everything(e)
	s := e.create(c)
	if s.ID != c.ID || s.Name != c.Name || s.ContainerName() != c.Name || s.CodebaseID != c.CodebaseID ||
		s.CodebasePath != c.CodebasePath || s.MountPoint != c.MountPoint ||
		!maps.Equal(s.Labels, c.Labels) || s.Runtime != c.Runtime || s.Network != c.Network {
		e.Errorf("%+v\nof %+v", s, c)
	}
	for _, ref := range []string{s.ID, s.Name} {
		if got := e.get(ref); !reflect.DeepEqual(got, s) {
			e.Errorf("Get(%q) is %+v\nCreate said %+v", ref, got, s)
		}
	}
	if all := e.list(); len(all) != 1 || !reflect.DeepEqual(all[0], s) {
		e.Errorf("List is %+v\nCreate said %+v", all, s)
	}
	e.OK(e.rt.Start(e.Ctx, s.ID))
	s.State = runtime.StateRunning
	if got := e.get(s.ID); !reflect.DeepEqual(got, s) {
		e.Errorf("started it is %+v\nwant %+v", got, s)
	}
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	s.State = runtime.StateStopped
	if got := e.get(s.ID); !reflect.DeepEqual(got, s) {
		e.Errorf("stopped it is %+v\nwant %+v", got, s)
	}
}

// What a caller does to its own configuration, or to an answer, changes no
// sandbox.
func createCopies(e *env) {
	c := &runtime.SandboxConfig{
		Labels: map[string]string{"k": "v"}, Env: map[string]string{"A": "b"},
		CodebasePath: e.dir(), Permissions: rules("**=write"),
	}
	id := e.create(c).ID
	c.Labels["k"], c.Env["A"], c.Permissions[0].Level = "changed", "changed", perm.None
	e.get(id).Labels["k"] = "changed"
	e.list()[0].Labels["k"] = "changed"
	if got := e.get(id).Labels["k"]; got != "v" {
		e.Errorf("the label is %q", got)
	}
	e.OK(e.rt.Start(e.Ctx, id))
	e.prints(id, "echo $A; echo x >file; cat file", "b\nx\n")
}

func createIDTaken(e *env) {
	c := &runtime.SandboxConfig{ID: "abcdefghijkl", Name: "first"}
	first := e.create(c)
	_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{ID: c.ID, Name: "second"})
	e.Wrong("the id again", err, runtime.ErrExists)
	if all := e.list(); len(all) != 1 || !reflect.DeepEqual(all[0], first) {
		e.Errorf("List is %+v\nwant %+v", all, first)
	}
	e.OK(e.rt.Destroy(e.Ctx, c.ID))
	e.create(&runtime.SandboxConfig{ID: c.ID, Name: "second"})
}

func createNameTaken(e *env) {
	c := &runtime.SandboxConfig{Name: "taken"}
	first := e.create(c)
	_, err := e.rt.Create(e.Ctx, c)
	e.Wrong("the name again", err, runtime.ErrExists)
	if all := e.list(); len(all) != 1 || all[0].ID != first.ID {
		e.Errorf("List is %+v", all)
	}
	e.create(&runtime.SandboxConfig{Name: "Taken"}) // another name
	e.create(&runtime.SandboxConfig{Name: "take"})  // the beginning of one is free
	e.OK(e.rt.Destroy(e.Ctx, "taken"))
	if s := e.create(c); s.ID == first.ID {
		e.Errorf("an id was given twice: %s", s.ID)
	}
}

func createInvalid(e *env) {
	mount := func(target string) []runtime.Mount { return []runtime.Mount{{Source: e.dir(), Target: target}} }
	bad := map[string]runtime.SandboxConfig{
		"short id":              {ID: "abc"},
		"upper case id":         {ID: "ABCDEFGHIJKL"},
		"id with a slash":       {ID: "../../../abc"},
		"name like an id":       {Name: "abcdefghijkl"},
		"name with a slash":     {Name: "a/b"},
		"name with dots":        {Name: ".."},
		"name with a dash":      {Name: "-rf"},
		"name with a newline":   {Name: "a\n"},
		"name of 64":            {Name: strings.Repeat("n", 64)},
		"network":               {Network: "some"},
		"relative mount point":  {MountPoint: "workspace"},
		"unclean mount point":   {MountPoint: "/a/../b"},
		"mount point /":         {MountPoint: "/"},
		"mount point /proc":     {MountPoint: "/proc"},
		"mount point in /etc":   {MountPoint: "/etc/x"},
		"mount point NUL":       {MountPoint: "/a\x00b"},
		"mount target relative": {Mounts: mount("data")},
		"mount target /usr":     {Mounts: mount("/usr")},
		"mount target taken":    {Mounts: mount(runtime.DefaultMountPoint)},
		"mount source relative": {Mounts: []runtime.Mount{{Source: "data", Target: "/data"}}},
		"relative cwd":          {Cwd: "src"},
		"label without a key":   {Labels: map[string]string{"": "v"}},
		"label with NUL":        {Labels: map[string]string{"k": "\x00"}},
		"label of 4097":         {Labels: map[string]string{"k": strings.Repeat("v", 4097)}},
		"variable with =":       {Env: map[string]string{"A=B": "c"}},
		"variable with NUL":     {Env: map[string]string{"A": "\x00"}},
		"variable without name": {Env: map[string]string{"": "v"}},
		"disk negative":         {CodebasePath: "/x", Resources: runtime.Resources{Disk: -1}},
		"disk, no codebase":     {Resources: runtime.Resources{Disk: 1}},
		"pattern":               {Permissions: []perm.Rule{{Pattern: "a//b", Level: perm.Read}}},
		"empty pattern":         {Permissions: []perm.Rule{{Level: perm.Read}}},
		"level":                 {Permissions: []perm.Rule{{Pattern: "*", Level: 9}}},
		"another runtime":       {Runtime: "another"},
	}
	for _, what := range slices.Sorted(maps.Keys(bad)) {
		c := bad[what]
		s, err := e.rt.Create(e.Ctx, &c)
		e.Wrong(what, err, runtime.ErrInvalid)
		if s != nil {
			e.Errorf("%s: an error and a sandbox %+v", what, s)
		}
	}
	e.empty()
}

func createInvalidOnHost(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "")
	e.OK(os.Symlink("nowhere", dir+"/dangling"))
	bad := map[string]*runtime.SandboxConfig{
		"codebase missing":     e.open(dir + "/missing"),
		"codebase a file":      e.open(dir + "/file"),
		"codebase dangling":    e.open(dir + "/dangling"),
		"codebase in a file":   e.open(dir + "/file/dir"),
		"codebase with a NUL":  e.open(dir + "\x00"),
		"codebase over state":  e.open("/"), // the state directory is in there somewhere
		"codebase name is a ~": e.open("~"),
	}
	if os.Geteuid() != 0 { // nothing is unreadable for root
		e.OK(os.Mkdir(dir+"/closed", 0))
		bad["codebase unreadable"] = e.open(dir + "/closed")
	}
	if e.has(Mounts) {
		bad["mount missing"] = &runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: dir + "/missing", Target: "/data"}}}
		bad["mount over state"] = &runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: "/", Target: "/data"}}}
	}
	if e.has(Rootfs) {
		bad["rootfs missing"] = &runtime.SandboxConfig{Rootfs: dir + "/missing"}
	}
	if e.has(Image) {
		bad["image and rootfs"] = &runtime.SandboxConfig{Image: noImage, Rootfs: dir}
		bad["image id too short"] = &runtime.SandboxConfig{ImageID: "sha256:12"}
		bad["image name with a NUL"] = &runtime.SandboxConfig{Image: "a\x00b"}
	}
	for _, what := range slices.Sorted(maps.Keys(bad)) {
		_, err := e.rt.Create(e.Ctx, bad[what])
		e.Wrong(what, err, runtime.ErrInvalid)
	}
	e.empty()
}

// A symbolic link to the codebase is resolved once.
func createResolvesCodebase(e *env) {
	dir := e.dir()
	e.write(dir+"/first/name", "first\n")
	e.write(dir+"/second/name", "second\n")
	e.OK(os.Symlink("first", dir+"/link"))
	s := e.create(e.open(dir + "/link"))
	if want := filepath.Join(dir, "first"); s.CodebasePath != want {
		e.Errorf("the codebase is %s, want %s", s.CodebasePath, want)
	}
	e.OK(os.Remove(dir + "/link"))
	e.OK(os.Symlink("second", dir+"/link"))
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "cat name", "first\n")
}

func listOrder(e *env) {
	if all := e.list(); len(all) != 0 {
		e.Fatalf("a fresh runtime has %d sandboxes", len(all))
	}
	made := map[string]bool{}
	for range 6 {
		made[e.create(nil).ID] = true
	}
	all := e.list()
	for i, s := range all {
		if !made[s.ID] || i > 0 && s.CreatedAt.Before(all[i-1].CreatedAt) {
			e.Errorf("%d: %s, created at %v", i, s.ID, s.CreatedAt)
		}
		delete(made, s.ID)
	}
	if len(made) > 0 {
		e.Errorf("not listed: %v", made)
	}
}
