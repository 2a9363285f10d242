package fusefs

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// TestExecutedNamesCannotBeMade: what the host executes because of its name comes
// into being by no call: not by creation, links, or the rename of a file or directory.
func TestExecutedNamesCannotBeMade(t *testing.T) {
	mountedBoth(t, setup{
		Policy: append(perm.ExecutedRules([]string{".", "pkg", "tool"}), perm.Rule{Pattern: "**", Level: perm.Write}),
		Host: func(t *testing.T, dir string) {
			for _, f := range []string{".idea/workspace.xml", "x/tasks.json", "x/config.toml", "x/workspace.xml", "new/.vscode/tasks.json", "pkg/main.go", "pkg/.tool-versions"} {
				write(t, dir, f, f)
			}
		},
	}, func(t *testing.T, c *client) {
		exchange := func(from, to string) error {
			return unix.Renameat2(unix.AT_FDCWD, c.at(from), unix.AT_FDCWD, c.at(to), unix.RENAME_EXCHANGE)
		}
		file := func(name string) error { return os.WriteFile(c.at(name), nil, 0o644) }
		for _, tt := range []struct {
			what string
			err  error
			want syscall.Errno
		}{
			{"make a file", file(".bashrc"), unix.EACCES},
			{"make a file in a directory of the codebase", file("pkg/mise.toml"), unix.EACCES},
			{"make a directory", os.Mkdir(c.at(".husky"), 0o755), unix.EACCES},
			{"make a link", os.Symlink("x", c.at(".husky")), unix.EACCES},
			{"make a link where there may be a directory", os.Symlink("x", c.at(".vscode")), unix.EACCES},
			{"make a file of a build", file(".config"), 0},
			{"move it on", rename(c.at(".config"), c.at(".config.old")), 0},
			{"make a link there", os.Symlink("x", c.at(".config")), unix.EACCES},
			{"make a link elsewhere", os.Symlink("x", c.at("link")), 0},
			{"move a link there", rename(c.at("link"), c.at(".config")), unix.EACCES},
			{"link a link there", os.Link(c.at("link"), c.at(".config")), unix.EACCES},
			{"make a file there again", file(".config"), 0},
			{"exchange it with a link", exchange("link", ".config"), unix.EACCES},
			{"exchange it with a link, the other way", exchange(".config", "link"), unix.EACCES},
			{"remove it", os.Remove(c.at(".config")), 0},
			{"make a directory with a link", os.Mkdir(c.at("holds"), 0o755), 0},
			{"make the link", os.Symlink("x", c.at("holds/.config")), 0},
			{"move it to a directory of the codebase", rename(c.at("holds"), c.at("tool")), unix.EXDEV},
			{"make such a directory", os.Mkdir(c.at(".vscode"), 0o755), 0},
			{"make a file in it", file(".vscode/tasks.json"), unix.EACCES},
			{"make a harmless file in it", file(".vscode/extensions.json"), 0},
			{"make a directory in it", os.Mkdir(c.at(".vscode/tasks.json"), 0o755), unix.EACCES},
			{"link a file into it", os.Link(c.at("x/tasks.json"), c.at(".vscode/tasks.json")), unix.EACCES},
			{"move a file into it", rename(c.at("x/tasks.json"), c.at(".vscode/tasks.json")), unix.EACCES},
			{"move a harmless file on", rename(c.at(".vscode/extensions.json"), c.at(".vscode/tasks.json")), unix.EACCES},
			{"move a directory to its name", rename(c.at("x"), c.at(".cargo")), unix.EXDEV},
			{"move a directory of the same name up", rename(c.at("new/.vscode"), c.at(".zed")), unix.EACCES},
			{"exchange the two", exchange("x", ".vscode"), unix.EXDEV},
			{"exchange with one that is there", exchange("x", ".idea"), unix.EXDEV},
			{"move away one that is there", rename(c.at(".idea"), c.at("y")), unix.EXDEV},
			{"change a file in it", file(".idea/workspace.xml"), unix.EACCES},
			{"remove a file in it", os.Remove(c.at(".idea/workspace.xml")), unix.EACCES},
			{"replace a file in it", rename(c.at("x/workspace.xml"), c.at(".idea/workspace.xml")), unix.EACCES},
			{"move away a directory that is opened", rename(c.at("pkg"), c.at("z")), unix.EXDEV},
			{"put another in its place", exchange("new", "pkg"), unix.EXDEV},
			{"make one in a new directory", file("new/.vscode/settings.json"), 0},
			{"move that about", rename(c.at("new"), c.at("newer")), 0},
		} {
			wantErrno(t, tt.what, tt.err, tt.want)
		}
		for _, name := range []string{".bashrc", ".husky", ".vscode/tasks.json", ".cargo", ".zed", "pkg/mise.toml", "pkg/.vscode"} {
			if _, err := os.Lstat(c.at(name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
	})
}
