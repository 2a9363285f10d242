package toolchain

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Shape is an installation that is known by what its directory contains, wherever it is.
type Shape struct {
	Name string
	// Has are names below the directory that tell it.
	Has []string
	// Shows are the names below it that are shown. If it contains nothing else but
	// documentation, it is shown as one directory.
	Shows []string
	// Never is what lies beside, or in what is shown, and is not shown since it may hold
	// credentials; a last name * is all that a directory contains.
	Never []string
	// Env are variables to set; the value is below the directory.
	Env map[string]string
	// Itself is set if the entry of PATH is the directory; else the entry is bin or sbin in it.
	Itself bool
}

// shapes are the installations that are known by what they contain, the more specific first,
// and of those that exclude each other the ones that a machine has many of.
var shapes = []Shape{
	{Name: "go", Has: []string{"bin/go", "pkg/tool"}, Shows: []string{"bin", "pkg", "src", "lib", "api", "misc", "test", "VERSION", "go.env"}, Never: []string{".git/config"}},
	{
		Name: "conda", Has: []string{"conda-meta", "bin"}, Shows: []string{"bin", "condabin", "lib", "libexec", "include", "share", "ssl"},
		Never: []string{".condarc", "conda-meta/history", "pip.conf", "ssl/private/*"},
	},
	{
		Name: "venv", Has: []string{"pyvenv.cfg", "bin"}, Shows: []string{"bin", "lib", "lib64", "include", "share", "pyvenv.cfg"},
		Never: []string{"pip.conf", "pipx_metadata.json", ".env"},
	},
	{Name: "python", Has: []string{"bin/python3", "lib"}, Shows: []string{"bin", "lib", "lib64", "include", "share"}, Never: []string{"pip.conf"}},
	{
		Name: "java", Has: []string{"bin/java", "lib/modules"}, Shows: []string{"bin", "lib", "conf", "jmods", "include", "release"},
		Never: []string{"conf/management/jmxremote.password"}, Env: map[string]string{"JAVA_HOME": ""},
	},
	{
		Name: "java", Has: []string{"bin/java", "jre/lib/rt.jar"}, Shows: []string{"bin", "lib", "jre", "include", "release"},
		Never: []string{"jre/lib/management/jmxremote.password", "jre/lib/management/snmp.acl"}, Env: map[string]string{"JAVA_HOME": ""},
	},
	{
		Name: "java", Has: []string{"bin/java", "lib/rt.jar"}, Shows: []string{"bin", "lib", "release"},
		Never: []string{"lib/management/jmxremote.password", "lib/management/snmp.acl"}, Env: map[string]string{"JAVA_HOME": ""},
	},
	{
		Name: "node", Has: []string{"bin/node", "include/node"}, Shows: []string{"bin", "lib", "include", "share"},
		Never: []string{"etc/npmrc", ".npmrc", "lib/node_modules/npm/npmrc"},
	},
	{Name: "ruby", Has: []string{"bin/ruby", "lib/ruby"}, Shows: []string{"bin", "lib", "libexec", "include", "share"}, Never: []string{"etc/gemrc"}},
	{Name: "maven", Has: []string{"bin/mvn", "boot"}, Shows: []string{"bin", "boot", "lib", "conf/logging"}, Never: []string{"conf/settings.xml"}},
	{Name: "gradle", Has: []string{"bin/gradle", "lib"}, Shows: []string{"bin", "lib"}, Never: []string{"init.d/company.gradle", "gradle.properties"}},
	{Name: "zig", Has: []string{"zig", "lib/std"}, Shows: []string{"zig", "lib"}, Itself: true},
}

// plain are the names that are shown of an installation of no other shape.
var plain = []string{"bin", "sbin", "lib", "lib64", "libexec", "include", "share", "go", "packages"}

// papers are the beginnings of names of documentation.
var papers = []string{
	"LICEN", "COPYING", "README", "CHANGE", "NOTICE", "VERSION", "AUTHORS", "CONTRIBUTING", "SECURITY", "PATENTS",
	"legal", "man", "release", "doc", "CACHEDIR.TAG", ".gitignore", ".lock",
}

// optional is the shape of what is installed in /opt.
var optional = Shape{Shows: plain[:7]}

// shaped returns the shape of the installation that an entry of PATH belongs to, and the
// installation's directory; nil if none of the shapes fits.
func (f *finder) shaped(dir string) (s *Shape, root string) {
	base, parent := path.Base(dir), path.Dir(dir)
	below := base == "bin" || base == "sbin" || base == "condabin"
	if below && (parent == f.home || parent == "/" || parent == "/usr" || parent == "/usr/local" || parent == f.home+"/.local") {
		return nil, ""
	}
	var names []fs.DirEntry // fewer system calls than a look for each of Has
	if below {
		names, _ = f.list(parent)
	}
	lacks := func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		return !slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == first })
	}
	for i := range shapes {
		s := &shapes[i]
		root := parent
		if s.Itself {
			root = dir
		} else if !below {
			continue
		} else if slices.ContainsFunc(s.Has, lacks) {
			continue
		}
		if !slices.ContainsFunc(s.Has, func(name string) bool { return !f.has(root, name) }) {
			return s, root
		}
	}
	for _, pattern := range []string{"/opt/*", "/opt/*/*"} {
		if ok, _ := path.Match(pattern, parent); ok && below {
			o := optional
			o.Name = strings.Split(parent, "/")[2]
			return &o, parent
		}
	}
	return nil, ""
}

// byShape adds what an installation shows.
func (f *finder) byShape(p *part, s *Shape, root string) {
	if p.name == "" {
		p.name = s.Name
	}
	f.hide(p, root, s.Shows, s.Never)
	f.pieces(p, root, s.Shows)
	for k, below := range s.Env {
		if p.env == nil {
			p.env = map[string]string{}
		}
		if p.env[k] == "" {
			p.env[k] = path.Join(root, below)
		}
	}
	if s.Name == "venv" || s.Name == "python" {
		f.followLink(p, path.Join(root, "bin/python3"))
	}
}

// installation adds what an installation of any shape shows, and reports whether that is its
// directory as a whole.
func (f *finder) installation(p *part, root string) (whole bool) {
	if s, _ := f.shaped(path.Join(root, "bin")); s != nil {
		f.hide(p, root, s.Shows, s.Never)
		whole = f.pieces(p, root, s.Shows)
		if s.Name == "venv" {
			f.followLink(p, path.Join(root, "bin/python3"))
		}
		return whole
	}
	return f.pieces(p, root, plain)
}

// pieces mounts the directory root if it contains only names of shows and documentation;
// else those of shows that exist. It reports which.
func (f *finder) pieces(p *part, root string, shows []string) (whole bool) {
	names, err := f.list(root)
	if err != nil {
		return false
	}
	var envs part // environments of pyenv-virtualenv
	whole = true
	for _, e := range names {
		name := e.Name()
		switch {
		case slices.Contains(shows, name):
		case name == "envs":
			children, err := f.list(path.Join(root, name))
			whole = whole && err == nil
			for _, c := range children {
				whole = f.installation(&envs, path.Join(root, name, c.Name())) && whole
			}
		case slices.ContainsFunc(papers, func(b string) bool { return strings.HasPrefix(name, b) }):
		default:
			whole = false
		}
	}
	if whole = whole && !p.contains(root) && f.mount(p, root); !whole {
		for _, name := range shows {
			f.mount(p, path.Join(root, name))
		}
	}
	p.mounts = append(p.mounts, envs.mounts...)
	return whole
}

// secretEnds and secretNames are the ends and the names of files that hold credentials, in
// lower case. A name may continue after a dot or a dash.
var (
	secretEnds  = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".env", ".netrc", ".token"}
	secretNames = []string{
		".env", ".npmrc", ".pypirc", ".netrc", ".git-credentials", ".pgpass", ".ssh", ".aws", ".gnupg", ".docker", ".kube",
		"id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "credentials", "auth.json", "secrets",
	}
)

// secret reports whether the name of a file beside programs is one that credentials have.
func secret(name string) bool {
	name = strings.ToLower(name)
	if slices.ContainsFunc(secretEnds, func(s string) bool { return strings.HasSuffix(name, s) }) {
		return true
	}
	return slices.ContainsFunc(secretNames, func(s string) bool {
		rest, begins := strings.CutPrefix(name, s)
		return begins && (rest == "" || rest[0] == '.' || rest[0] == '-')
	})
}
