package runtime_test

import (
	"strings"
	"testing"

	"wolffia/runtime"
)

func TestValidateVolumes(t *testing.T) {
	for _, test := range []struct {
		volumes []runtime.VolumeMount
		wrong   string // empty: nothing
	}{
		{[]runtime.VolumeMount{{Name: "a", Target: "/a"}, {Name: "a", Target: "~"}, {Name: "b", Target: "~/x"}, {Cache: "go", Target: "/c"}, {Name: "cache-npm", Cache: "npm", Target: "/d"}, {Name: "cache", Target: "/e"}}, ""},
		{[]runtime.VolumeMount{{Name: "cache-go", Target: "/a"}}, "those of caches: use --cache"},
		{[]runtime.VolumeMount{{Name: "cache-go-0123456789ab", Target: "/a"}}, "those of caches: use --cache"},
		{[]runtime.VolumeMount{{Target: "/a"}}, "it has no name"},
		{[]runtime.VolumeMount{{Name: "../a", Target: "/a"}}, "a name is up to 63"},
		{[]runtime.VolumeMount{{Name: ".a", Target: "/a"}}, "a name is up to 63"},
		{[]runtime.VolumeMount{{Cache: "../a", Target: "/a"}}, "up to 20 of a-z"},
		{[]runtime.VolumeMount{{Name: "a", Target: "a"}}, "absolute path"},
		{[]runtime.VolumeMount{{Name: "a", Target: "~ann/a"}}, "absolute path"},
		{[]runtime.VolumeMount{{Name: "a", Target: "~/../../etc"}}, "absolute path"},
		{[]runtime.VolumeMount{{Name: "a", Target: "/usr/a"}}, "needs that place"},
		{[]runtime.VolumeMount{{Name: "a", Target: "/run"}}, "needs that place"},
		{[]runtime.VolumeMount{{Name: "a", Target: "/a"}, {Name: "b", Target: "/a"}}, "is there already"},
		{[]runtime.VolumeMount{{Name: "a", Target: "/workspace"}}, "is there already"},
		{[]runtime.VolumeMount{{Name: "a", Target: "/\xff"}}, "UTF-8"},
	} {
		c := &runtime.SandboxConfig{CodebasePath: "/code", Volumes: test.volumes}
		err := c.Validate()
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%+v: %v; want %q", test.volumes, err, test.wrong)
		}
	}
	c := &runtime.SandboxConfig{Volumes: []runtime.VolumeMount{{Cache: "go", Target: "/c"}}}
	if err := c.Validate(); err == nil {
		t.Error("a cache of no codebase")
	}
}
