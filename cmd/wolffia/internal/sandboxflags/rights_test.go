package sandboxflags

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"wolffia/fields"
	"wolffia/runtime"
)

// Each field of a configuration makes another key, a new one too, but those that give no rights.
func TestRights(t *testing.T) {
	flags := func(runtime string, env ...string) *Sandbox {
		f := &Sandbox{}
		f.Values = fields.Values{"runtime": &runtime, "env": &env}
		return f
	}
	none := flags("").rights(new(runtime.SandboxConfig))
	var free []string
	for i := range reflect.TypeFor[runtime.SandboxConfig]().NumField() {
		c := new(runtime.SandboxConfig)
		v := reflect.ValueOf(c).Elem().Field(i)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int64:
			v.SetInt(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Struct:
			v.Field(0).SetInt(1)
		default:
			t.Fatalf("a field of kind %s", v.Kind())
		}
		if flags("").rights(c) == none {
			name, _, _ := strings.Cut(reflect.TypeFor[runtime.SandboxConfig]().Field(i).Tag.Get("json"), ",")
			free = append(free, name)
		}
	}
	slices.Sort(free)
	want := []string{
		"codebaseNames", "codebasePath", "cwd", "env", "git", "idleAction", "idleTimeoutNs", "labels", "mountPoint", "name", "noGitMonitor", "publish", "resources", "runtime", "ttlNs",
	}
	if !slices.Equal(free, want) {
		t.Errorf("free are\n%v, want\n%v", free, want)
	}
	keys := map[string]string{
		flags("gvisor").rights(new(runtime.SandboxConfig)): "gvisor", flags("", "A=1").rights(new(runtime.SandboxConfig)): "A", none: "none",
	}
	if len(keys) != 3 {
		t.Errorf("different flags have the same key: %v", slices.Collect(maps.Values(keys)))
	}
	if flags("", "A=1").rights(new(runtime.SandboxConfig)) != flags("", "A=2").rights(new(runtime.SandboxConfig)) {
		t.Error("two values of a variable have different keys")
	}
	toolchain := &runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: "/opt/go", Target: "/opt/go", Toolchain: true}}}
	if flags("").rights(toolchain) != none {
		t.Error("a toolchain has another key")
	}
}
