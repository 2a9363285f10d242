package runtimetest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wolffia/perm"
	"wolffia/runtime"
)

var filterTableTests = []test{
	{"FilterLevels", []Feature{Filter}, filterLevels},
	{"FilterAttributesStay", []Feature{Filter}, filterAttributesStay},
}

// An operation is what a program does to a path, in Python, and what it says
// for each level.
type operation struct {
	code string
	want [perm.Write + 1]string // by level; empty: it works
}

const absent, denied = "ENOENT", "EACCES"

// The kinds of operation.
func seen(code string) operation { return operation{code, [...]string{absent, "", "", ""}} }

func reads(code string) operation { return operation{code, [...]string{absent, denied, "", ""}} }

func writes(code string) operation {
	return operation{code, [...]string{absent, denied, denied, ""}}
}

func names(code string) operation {
	return operation{code, [...]string{denied, denied, denied, ""}}
}

// operations walk through what can be done to f, which exists, and n, which
// does not; w is a file that can be changed.
var operations = map[string]operation{
	"stat":          seen("os.stat(f)"),
	"lstat":         seen("os.lstat(f)"),
	"exists":        seen("os.access(f, os.F_OK) or fail(errno.ENOENT)"),
	"list":          seen("f in os.listdir('.') or fail(errno.ENOENT)"),
	"scan":          seen("f in [x.name for x in os.scandir('.')] or fail(errno.ENOENT)"),
	"open path":     seen("os.close(os.open(f, os.O_PATH))"),
	"read":          reads("open(f, 'rb').read() == b'content' or fail(errno.EIO)"),
	"mmap":          reads("mmap.mmap(os.open(f, os.O_RDONLY), 0, prot=mmap.PROT_READ)[:]"),
	"write":         writes("os.write(os.open(f, os.O_WRONLY), b'content')"),
	"append":        writes("os.write(os.open(f, os.O_WRONLY|os.O_APPEND), b'')"),
	"read-write":    writes("os.open(f, os.O_RDWR)"),
	"truncate":      writes("os.truncate(f, 7)"),
	"open truncate": writes("os.write(os.open(f, os.O_WRONLY|os.O_TRUNC), b'content')"),
	"chmod":         writes("os.chmod(f, 0o644)"),
	"utime":         writes("os.utime(f)"),
	"create":        names("os.open(n, os.O_WRONLY|os.O_CREAT|os.O_EXCL)"),
	"mkdir":         names("os.mkdir(n)"),
	"symlink":       names("os.symlink('x', n)"),
	"mkfifo":        names("os.mkfifo(n)"),
	"link to":       names("os.link(w, n)"),
	"rename to":     names("os.rename(w, n)"),
	"rename over":   names("os.rename(w, f)"),
	"link from":     writes("os.link(f, w + '2')"),
	"rename from":   writes("os.rename(f, w + '2')"),
	"unlink":        writes("os.unlink(f)"),
}

// Every operation on every level.
func filterLevels(e *env) {
	dir := e.dir()
	var program strings.Builder
	program.WriteString(`
import errno, mmap, os
def fail(e): raise OSError(e, '')
def attempt(where, do):
    os.chdir(where)
    try: do(); said = ''
    except OSError as err: said = errno.errorcode[err.errno]
    os.chdir('..')
    print(where + '=' + said)
`)
	want := map[string]string{}
	n := 0
	for name, op := range operations {
		n++
		for _, level := range perm.Levels() {
			where := fmt.Sprintf("d%d-%s", n, level)
			file := "file." + level.String()
			e.write(dir+"/"+where+"/"+file, "content")
			e.write(dir+"/"+where+"/w", "content")
			if name == "mkfifo" && op.want[level] == denied && !e.has(RefusedFifos) {
				continue // it need not say so
			}
			fmt.Fprintf(&program, "f, n, w = '%s', 'new.%s', 'w'\nattempt('%s', lambda: %s)\n", file, level, where, op.code)
			want[where] = op.want[level] + " for " + name
		}
	}
	s := e.start(&runtime.SandboxConfig{
		CodebasePath: dir, Permissions: rules("**=write", "*.none=none", "*.view=view", "*.read=read"),
	})
	for line := range strings.Lines(e.python(s.ID, program.String())) {
		where, got, _ := strings.Cut(strings.TrimSpace(line), "=")
		said, name, _ := strings.Cut(want[where], " for ")
		if got != said {
			_, level, _ := strings.Cut(where, "-")
			e.Errorf("%s of a name of level %s: %q, want %q", name, level, got, said)
		}
		delete(want, where)
	}
	if len(want) > 0 {
		e.Errorf("no word of %v", want)
	}
}

// The rules hold whatever error a program gets.
func filterAttributesStay(e *env) {
	dir := e.dir()
	for _, name := range []string{"a.view", "a.read"} {
		e.write(dir+"/"+name, "content")
	}
	e.OK(os.Mkdir(dir+"/d.read", 0o755))
	want := e.attributes(dir)
	s := e.start(&runtime.SandboxConfig{
		CodebasePath: dir, Permissions: rules("**=write", "*.none=none", "*.view=view", "*.read=read"),
	})
	inside := e.out(s.ID, "stat -c '%n %A %Y' *")
	_ = e.sh(s.ID, "for f in *; do chmod 600 $f; touch -d @1 $f; chmod u+s $f; done; mkfifo new.none new.view new.read d.read/new; touch -d @1 d.read; truncate -s 1 a.read")
	if got := e.attributes(dir); got != want {
		e.Errorf("the host has\n%swant\n%s", got, want)
	}
	if got := e.out(s.ID, "stat -c '%n %A %Y' a.read a.view d.read"); got != inside {
		e.Errorf("inside are\n%swant\n%s", got, inside)
	}
}

// attributes describes what is in a directory on the host.
func (e *env) attributes(dir string) string {
	e.Helper()
	var b strings.Builder
	e.OK(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && path != dir {
			fmt.Fprintln(&b, path, st.Mode(), st.Size(), st.ModTime().UnixNano())
		}
		return err
	}))
	return b.String()
}
