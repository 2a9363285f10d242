package ops_test

import (
	"testing"

	"wolffia/ops"
	"wolffia/perm"
)

// Whether a path is a directory decides which rules match; unless it is known, the stricter answer holds.
func TestExplain(t *testing.T) {
	policy, err := perm.Compile([]perm.Rule{
		{Pattern: "**", Level: perm.Write},
		{Pattern: "keys", Type: perm.Directory, Level: perm.None},
		{Pattern: "/build", Type: perm.File, Level: perm.Read},
		{Pattern: "/docs", Type: perm.Directory, Level: perm.Read},
		{Pattern: "/docs", Type: perm.File, Level: perm.View},
		{Pattern: "/top", Type: perm.Directory, Level: perm.None},
		{Pattern: "/top/in", Level: perm.Read},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		file, dir, any perm.Level
		rule, remedy   string // of any
	}{
		"a":     {perm.Write, perm.Write, perm.Write, "**=write", ""},
		"keys":  {perm.Write, perm.None, perm.None, "keys=none (directory)", "--rule '/keys/=write'"},
		"build": {perm.Read, perm.Write, perm.Read, "/build=read (file)", "--rule '/build=write'"},
		"docs":  {perm.View, perm.Read, perm.View, "/docs=view (file)", "--rule '/docs=write'"},
		"top":   {perm.Write, perm.View, perm.View, "/top=none (directory)", "--rule '/top/=write'"},
		".":     {perm.Write, perm.Write, perm.Write, "**=write", ""},
	} {
		file, dir := ops.Explain(policy, name, perm.File), ops.Explain(policy, name, perm.Directory)
		if file.Level != want.file || dir.Level != want.dir {
			t.Errorf("%s: a file %v, a directory %v", name, file, dir)
		}
		e := ops.Explain(policy, name, perm.Glob)
		if e.Level != want.any || e.Rule == nil || e.Rule.String() != want.rule || e.Remedy(perm.Write) != want.remedy {
			t.Errorf("%s: %v; to allow it: %s", name, e, e.Remedy(perm.Write))
		}
	}
}
