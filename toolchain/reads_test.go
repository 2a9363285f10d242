package toolchain

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// A countingFS counts what is asked of a file system, by operation and path.
type countingFS struct {
	fs.ReadLinkFS
	asked map[string]int
}

func (c countingFS) Open(name string) (fs.File, error) {
	c.asked["list "+name]++
	return c.ReadLinkFS.Open(name)
}

func (c countingFS) Lstat(name string) (fs.FileInfo, error) {
	c.asked["lstat "+name]++
	return c.ReadLinkFS.Lstat(name)
}

func (c countingFS) ReadLink(name string) (string, error) {
	c.asked["readlink "+name]++
	return c.ReadLinkFS.ReadLink(name)
}

// TestReads: a start asks for nothing twice, looks up no name in a directory that it has
// listed, and needs one list and at most one name for each version of a version manager's.
func TestReads(t *testing.T) {
	const versions = 20
	pyenv := home + "/.pyenv"
	all := tree{pyenv + "/shims/python": "", pyenv + "/version": "", home + "/.cargo/bin/cargo": "", "/usr/bin/x": ""}
	for i := range versions {
		v := fmt.Sprintf("%s/versions/3.%d/", pyenv, i)
		all[v+"bin/python3"], all[v+"bin/python3.x"], all[v+"lib/x"], all[v+"include/x"] = "-> python3.x", "", "", ""
	}
	h := host(all, home+"/.cargo/bin", pyenv+"/shims", pyenv+"/bin", "/usr/bin")
	c := countingFS{h.FS.(fs.ReadLinkFS), map[string]int{}}
	h.FS = c
	var readable []string
	h.Readable = func(p string) bool { readable = append(readable, p); return true }
	if found := Find(h); len(found.Toolchains) != 2 {
		t.Fatalf("found %v, left %v", found.Names(), found.Left)
	}
	below := 0
	for what, n := range c.asked {
		if n > 1 {
			t.Errorf("%s: %d times", what, n)
		}
		operation, name, _ := strings.Cut(what, " ")
		if strings.Contains(name, "/versions/") {
			below++
		}
		if operation == "lstat" && c.asked["list "+path.Dir(name)] > 0 && strings.Contains(name, "/versions/") {
			t.Errorf("%s, of a directory that was listed", what)
		}
	}
	if below > 2*versions {
		t.Errorf("%d operations below %d versions", below, versions)
	}
	seen := map[string]bool{}
	for _, p := range readable {
		if seen[p] {
			t.Errorf("Readable(%s) twice", p)
		}
		seen[p] = true
	}
}
