package defaults

import (
	"os"
	"testing"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Git is told to compare less where owners or inode numbers differ. Whether an unprivileged user's
// sandbox has a configuration of git does not depend on the codebase: a pooled sandbox gets that later.
func TestCompleteGit(t *testing.T) {
	own, other, root := os.Getuid(), os.Getuid()+1, 1
	has := &runtime.GitConfig{Config: "[user]\n"}
	for name, tt := range map[string]struct {
		uid, dropped int
		otherInodes  bool
		git          *runtime.GitConfig
		want         string // "none": no configuration
	}{
		"own":                      {uid: own, git: has, want: "[user]\n"},
		"own, none":                {uid: own, want: "none"},
		"other inodes":             {uid: own, otherInodes: true, git: has, want: launch.GitMinimal + "[user]\n"},
		"other inodes, none":       {uid: own, otherInodes: true, want: launch.GitMinimal},
		"another's":                {uid: other, git: has, want: launch.GitMinimal + "[user]\n"},
		"another's, none":          {uid: other, want: "none"},
		"another's, none, of root": {uid: other, dropped: root, want: launch.GitMinimal},
		"again":                    {uid: other, git: &runtime.GitConfig{Config: launch.GitMinimal + "x"}, want: launch.GitMinimal + "x"},
	} {
		c := &statedir.Config{}
		c.CodebasePath, c.UID, c.GID, c.DroppedUID = t.TempDir(), tt.uid, os.Getgid(), tt.dropped
		if tt.git != nil {
			g := *tt.git
			c.Git = &g
		}
		Git(c, !tt.otherInodes)
		got := "none"
		if c.Git != nil {
			got = c.Git.Config
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
