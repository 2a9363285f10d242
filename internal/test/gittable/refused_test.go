package gittable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/gittable"
	"wolffia/internal/test/testenv"
)

// TestRefused tries each setting of the table, and each way to write one, in a
// repository that the host has made and in one that was made inside: with git, by a lock
// as git does it, and by some other ways in turn.
func TestRefused(t *testing.T) {
	lives(t, func(t *testing.T, host string, m marks) {
		newRigging(t, host).copies(t, "rig")
		writeFile(t, filepath.Join(host, "scratch/x"), "", 0o644)
	}, func(t *testing.T, c *inside) {
		c.run(t, "rig", "git init -q new")
		got, tried := tally{}, 0
		scratch := 0
		for i, s := range gittable.Settings {
			if s.Key == "extensions.worktreeConfig" || !picked(i) {
				continue // the first: what it has git read is guarded as well: TestWays
			}
			for _, file := range []string{"rig/.git/config", "rig/new/.git/config"} {
				was := c.host(t, order{Do: "get", Dir: file})
				check := func(way string) {
					t.Helper()
					tried++
					if said := c.host(t, order{Do: "same", Dir: file, Content: []byte(was)}); said != "" {
						if said != "gone" { // who has made a repository may destroy it
							got.add(way, fmt.Sprintf("%s=%s in %s", s.Key, s.Value, file))
						}
						c.host(t, order{Do: "put", Dir: file, Content: []byte(was)})
						c.settle(t, file, []byte(was))
					}
				}
				text := []byte(was + s.Text(c.m.fill(s.Key)))
				c.run(t, filepath.Dir(file), gitConfig(c.m.fill(s.Key)(s.Key), c.m.fill(s.Key)(s.Value)))
				check("git config")
				for j, w := range ways {
					if !strings.HasPrefix(w.name, "a lock") && !testenv.Full() && j%9 != i/4%9 || strings.Contains(w.name, "directory's directory") {
						continue
					}
					scratch++
					w.do(c.at(file), c.at(fmt.Sprint("scratch/", scratch)), text)
					check(w.name)
					_ = os.Remove(c.at(file + ".lock"))
				}
			}
		}
		for what, text := range gittable.Spellings("core", "fsmonitor", c.Marks+"/bin/core.fsmonitor") {
			for _, file := range []string{"rig/.git/config", "rig/new/.git/config"} {
				was := c.host(t, order{Do: "get", Dir: file})
				for _, all := range []string{text, was + text, text + was} {
					tried++
					_ = os.WriteFile(c.at(file+".lock"), []byte(all), 0o644)
					_ = os.Rename(c.at(file+".lock"), c.at(file))
					_ = os.Remove(c.at(file + ".lock"))
					if c.host(t, order{Do: "same", Dir: file, Content: []byte(was)}) != "" {
						got.add("spelling", fmt.Sprintf("%s in %s", what, file))
						c.host(t, order{Do: "put", Dir: file, Content: []byte(was)})
						c.settle(t, file, []byte(was))
					}
				}
			}
		}
		got.report(t, tried)
	})
}

// gitConfig is the command that makes a setting.
func gitConfig(key, value string) string {
	key = strings.NewReplacer(".<", ".", ">.", ".").Replace(key)
	return "git config --file config '" + key + "' '" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
