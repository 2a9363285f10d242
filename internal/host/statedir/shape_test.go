package statedir

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"wolffia/fields"
	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
)

func shaped() *Config {
	return &Config{
		SandboxConfig: runtime.SandboxConfig{ID: "aaaaaaaaaaaa", Runtime: "bwrap", CodebasePath: "/a", Filter: runtime.FilterFuse, Network: runtime.NetworkFiltered},
		CreatedAt:     1, UID: 1000, GID: 1000, User: "ann",
	}
}

// change sets v to another value than it has.
func change(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		change(t, v.Field(0), name)
	default:
		t.Fatalf("field %s is of a kind that this test does not know, %s: add it to change", name, v.Kind())
	}
}

// Each field of a configuration is what the table of settings says: claimed, a part of the shape, or one with which no pooled sandbox
// can serve. Of what Create decides, two are free: CreatedAt, and PrivateGit, which follows from the rest.
func TestShapeOfEachField(t *testing.T) {
	was := Shape(shaped(), false)
	if was == "" {
		t.Fatal("no pooled sandbox can serve an ordinary configuration")
	}
	for _, at := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if at.Anonymous {
			continue
		}
		c := shaped()
		change(t, reflect.ValueOf(c).Elem().FieldByIndex(at.Index), at.Name)
		got := Shape(c, false)
		free := at.Name == "CreatedAt" || at.Name == "PrivateGit"
		if len(at.Index) > 1 {
			key, _, _ := strings.Cut(at.Tag.Get("json"), ",")
			free = slices.Contains(fields.Records(fields.Claim), key)
			if cold := slices.Contains(fields.Records(fields.Cold), key); cold && got != "" {
				t.Errorf("field %s: a pooled sandbox serves it, and the table says that none can", at.Name)
			}
		}
		if (got == was) != free {
			t.Errorf("field %s: a change leaves the shape as it is: %v, and it is to be free: %v", at.Name, got == was, free)
		}
	}
}

func TestShape(t *testing.T) {
	was := Shape(shaped(), false)
	for name, tt := range map[string]struct {
		change    func(c *Config)
		fixedName bool
		none      bool // no pooled sandbox serves it
		same      bool
	}{
		"another codebase":                {change: func(c *Config) { c.CodebasePath = "/b"; c.Permissions = []perm.Rule{{Pattern: "**"}} }, same: true},
		"other names":                     {change: func(c *Config) { c.Egress = &network.Policy{Allow: []string{"a.example"}} }, same: true},
		"default place":                   {change: func(c *Config) { c.MountPoint = runtime.DefaultMountPoint }, same: true},
		"a name":                          {change: func(c *Config) { c.Name = "x" }, same: true},
		"a name, and a kernel of its own": {change: func(c *Config) { c.Name = "x" }, fixedName: true},
		"git":                             {change: func(c *Config) { c.Git = &runtime.GitConfig{} }},
		"a mount":                         {change: func(c *Config) { c.Mounts = []runtime.Mount{{Source: "/data", Target: "/data"}} }},
		"a mount in it":                   {change: func(c *Config) { c.Mounts = []runtime.Mount{{Source: "/data", Target: "/workspace/data"}} }, none: true},
		"limits":                          {change: func(c *Config) { c.Resources.Memory = 1 << 30 }},
		"no codebase":                     {change: func(c *Config) { c.CodebasePath = "" }, none: true},
		"a pod":                           {change: func(c *Config) { c.Kubernetes, c.CodebasePath = &runtime.KubernetesConfig{}, "" }},
		"copied":                          {change: func(c *Config) { c.CopyOnWrite = true }, none: true},
		"static":                          {change: func(c *Config) { c.Filter = runtime.FilterStatic }, none: true},
		"root's":                          {change: func(c *Config) { c.RootTree = true }, none: true},
		"made by root":                    {change: func(c *Config) { c.DroppedUID = 1000 }, none: true},
		"a port":                          {change: func(c *Config) { c.Publish = []runtime.Publish{{Port: 1}} }, none: true},
		"a volume":                        {change: func(c *Config) { c.Volumes = []runtime.VolumeMount{{Name: "a"}} }, none: true},
		"docker":                          {change: func(c *Config) { c.Docker = &runtime.DockerConfig{} }, none: true},
	} {
		c := shaped()
		tt.change(c)
		switch got := Shape(c, tt.fixedName); {
		case (got == "") != tt.none:
			t.Errorf("%s: the shape is %q", name, got)
		case !tt.none && (got == was) != tt.same:
			t.Errorf("%s: the shape is the same: %v", name, got == was)
		}
	}
	pod := func(codebase string) string {
		c := shaped()
		c.Kubernetes, c.CodebasePath = &runtime.KubernetesConfig{}, codebase
		return Shape(c, false)
	}
	if pod("") == pod("/a") {
		t.Error("a pod without a codebase serves a configuration with one")
	}
	git := func(text string) string {
		c := shaped()
		c.Git = &runtime.GitConfig{Config: text}
		return Shape(c, false)
	}
	if git("[user]") != git("") {
		t.Error("the text of git's configuration is a part of the shape")
	}
}
