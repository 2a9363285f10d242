package gitscan

import (
	"path/filepath"
	"testing"
)

// What git does for the user in every repository is found as what a repository's own configuration
// names.
func TestScanOwnConfiguration(t *testing.T) {
	home := t.TempDir()
	root := filepath.Join(home, "root")
	project(t, root)
	project(t, filepath.Join(root, "sub"))
	write(t, filepath.Join(root, "sub/script.py"), "")
	system := filepath.Join(t.TempDir(), "system")
	env := func(name string) string {
		return map[string]string{"GIT_CONFIG_SYSTEM": system, "XDG_CONFIG_HOME": home + "/xdg"}[name]
	}
	for _, file := range []string{home + "/.gitconfig", home + "/.config/git/config", home + "/xdg/git/config", system} {
		for _, tt := range []struct {
			name, config string
			want, later  []string
		}{
			{"absolute", "[core]\nhooksPath = " + root + "/h", []string{"h"}, nil},
			{"home", "[core]\nhooksPath = ~/root/h", []string{"h"}, nil},
			{"elsewhere", "[core]\nhooksPath = ~/h\nworktree = ~/root/x", nil, nil},
			{"relative", "[core]\nhooksPath = tools/hooks", []string{"sub/tools/hooks", "tools/hooks"}, []string{"tools/hooks"}},
			{"above", "[core]\nhooksPath = ../hooks", []string{"hooks"}, []string{"hooks"}},
			{"husky", "[core]\nhooksPath = .husky/_", []string{".husky", "sub/.husky"}, []string{".husky"}},
			{"include", "[include]\npath = " + root + "/inc", []string{"h", "inc"}, nil},
			{"includeIf", "[includeIf \"onbranch:x\"]\npath = ~/root/inc", []string{"h", "inc"}, nil},
			{"program", "[core]\nfsmonitor = ./watch.sh\npager = less", []string{"sub/watch.sh", "watch.sh"}, []string{"watch.sh"}},
			{"argument", "[diff]\nexternal = python3 script.py", []string{"sub/script.py"}, nil},
		} {
			t.Run(filepath.Base(filepath.Dir(file))+" "+tt.name, func(t *testing.T) {
				write(t, filepath.Join(root, "inc"), "[core]\nhooksPath = "+root+"/h")
				write(t, file, tt.config)
				defer write(t, file, "")
				want(t, scan(t, &Options{Home: home, Getenv: env}, root), Repos{Dirs: []string{".git", "sub/.git"}, Outside: tt.want, Later: tt.later})
			})
		}
	}
	got := scan(t, &Options{Home: root, Getenv: env}, root)
	want(t, got, Repos{Dirs: []string{".git", "sub/.git"}, Outside: []string{".config/git/config", ".gitconfig"}})
}
