package toolchain

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/pathname"
	"wolffia/runtime"
)

const home = "/home/u"

// A tree is a file system by absolute paths: a path that ends in / is a directory, a value
// that begins with "-> " a symbolic link, another one a file; programs are in bin.
type tree map[string]string

func (t tree) fs() fstest.MapFS {
	m := fstest.MapFS{}
	for name, content := range t {
		f := &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		if target, link := strings.CutPrefix(content, "-> "); link {
			f = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		} else if strings.HasSuffix(name, "/") {
			f.Mode = fs.ModeDir | 0o755
		} else if strings.Contains(name, "bin/") || strings.Contains(name, "/versions/") {
			f.Mode = 0o755
		}
		m[strings.Trim(name, "/")] = f
	}
	return m
}

func host(t tree, dirs ...string) *Host {
	return &Host{FS: t.fs(), Path: strings.Join(dirs, ":"), Home: home, Getenv: func(string) string { return "" }}
}

// targets are where the mounts are, and checks that each is at the path of its source.
func targets(t *testing.T, mounts []runtime.Mount) []string {
	t.Helper()
	var all []string
	for _, m := range mounts {
		if m.Writable || !m.Toolchain {
			t.Errorf("mount %+v is writable, or not of a toolchain", m)
		}
		all = append(all, m.Target)
	}
	return all
}

func TestFind(t *testing.T) {
	node := home + "/.nvm/versions/node/v20"
	for name, c := range map[string]struct {
		tree  tree
		path  []string
		apart []string
		mount []string
		inner string // PATH, without the default
		env   map[string]string
		left  []string
	}{
		"nvm": {
			tree:  tree{node + "/bin/node": "", node + "/include/node/node.h": "", node + "/lib/x": "", node + "/LICENSE": ""},
			path:  []string{node + "/bin"},
			mount: []string{node}, inner: node + "/bin",
		},
		"nvm with a token of npm": {
			tree:  tree{node + "/bin/node": "", node + "/include/node/node.h": "", node + "/lib/x": "", node + "/etc/npmrc": "token"},
			path:  []string{node + "/bin"},
			mount: []string{node + "/bin", node + "/include", node + "/lib"}, inner: node + "/bin",
		},
		"nvm with a token in npm": {
			tree: tree{
				node + "/bin/node": "", node + "/include/node/node.h": "", node + "/lib/node_modules/npm/npmrc": "token",
				node + "/lib/node_modules/npm/index.js": "", node + "/lib/node_modules/npm/a": "-> npmrc", node + "/lib/node_modules/npm/b": "-> ..", node + "/lib/node_modules/tsc/x": "",
			},
			path:  []string{node + "/bin"},
			mount: []string{node + "/bin", node + "/include", node + "/lib/node_modules/npm/index.js", node + "/lib/node_modules/tsc"}, inner: node + "/bin",
		},
		"java with a password": {
			tree: tree{
				"/opt/jdk/bin/java": "", "/opt/jdk/lib/modules": "", "/opt/jdk/release": "", "/opt/jdk/legal/x": "", "/opt/jdk/conf/net.properties": "", "/opt/jdk/conf/security/java.security": "",
				"/opt/jdk/conf/management/jmxremote.password": "secret", "/opt/jdk/conf/management/management.properties": "",
			},
			path: []string{"/opt/jdk/bin"}, inner: "/opt/jdk/bin", env: map[string]string{"JAVA_HOME": "/opt/jdk"},
			mount: []string{
				"/opt/jdk/bin", "/opt/jdk/conf/management/management.properties", "/opt/jdk/conf/net.properties", "/opt/jdk/conf/security", "/opt/jdk/lib", "/opt/jdk/release",
			},
		},
		"conda with a key": {
			tree: tree{
				home + "/conda/bin/python": "", home + "/conda/conda-meta/x": "", home + "/conda/ssl/cert.pem": "-> cacert.pem", home + "/conda/ssl/cacert.pem": "", home + "/conda/ssl/private/ca.key": "secret",
			},
			path: []string{home + "/conda/bin"}, inner: home + "/conda/bin",
			mount: []string{home + "/conda/bin", home + "/conda/ssl/cacert.pem", home + "/conda/ssl/cert.pem"},
		},
		"conda without a key": {
			tree: tree{home + "/conda/bin/python": "", home + "/conda/conda-meta/x": "", home + "/conda/ssl/cert.pem": "", home + "/conda/ssl/private/": ""},
			path: []string{home + "/conda/bin"}, inner: home + "/conda/bin",
			mount: []string{home + "/conda/bin", home + "/conda/ssl"},
		},
		"fnm": {
			tree: tree{
				"/run/user/1/fnm/7": "-> " + home + "/fnm/20/installation", home + "/fnm/20/installation/bin/node": "",
				home + "/fnm/20/installation/include/node/": "",
			},
			path:  []string{"/run/user/1/fnm/7/bin"},
			mount: []string{home + "/fnm/20/installation"}, inner: home + "/fnm/20/installation/bin",
		},
		"rust": {
			tree: tree{
				home + "/.cargo/bin/rustup": "", home + "/.cargo/bin/cargo": "-> rustup", home + "/.cargo/credentials.toml": "",
				home + "/.rustup/toolchains/stable/bin/cargo": "", home + "/.rustup/settings.toml": "", home + "/.rustup/tmp/x": "",
			},
			path:  []string{home + "/.cargo/bin"},
			mount: []string{home + "/.cargo/bin", home + "/.rustup/settings.toml", home + "/.rustup/toolchains"},
			inner: home + "/.cargo/bin", env: map[string]string{"RUSTUP_HOME": home + "/.rustup"},
		},
		"pyenv": {
			tree: tree{
				home + "/.pyenv/shims/python": "", home + "/.pyenv/version": "", home + "/.pyenv/versions/3.12/bin/python3": "",
				home + "/.pyenv/versions/3.12/lib/x": "", home + "/.pyenv/versions/web": "-> 3.12/envs/web",
				home + "/.pyenv/versions/3.12/envs/web/bin/python": "-> ../../../bin/python3", home + "/.pyenv/versions/3.12/envs/web/pyvenv.cfg": "",
			},
			path:  []string{home + "/.pyenv/shims"},
			mount: []string{home + "/.pyenv/shims", home + "/.pyenv/version", home + "/.pyenv/versions"},
			inner: home + "/.pyenv/shims", env: map[string]string{"PYENV_ROOT": home + "/.pyenv"},
		},
		"pyenv with a password of pip": {
			tree: tree{
				home + "/.pyenv/shims/python": "", home + "/.pyenv/versions/3.12/bin/python3": "", home + "/.pyenv/versions/3.12/lib/x": "",
				home + "/.pyenv/versions/3.11/bin/python3": "", home + "/.pyenv/versions/3.11/lib/x": "", home + "/.pyenv/versions/3.11/pip.conf": "",
			},
			path:  []string{home + "/.pyenv/shims"},
			mount: []string{home + "/.pyenv/shims", home + "/.pyenv/versions/3.11/bin", home + "/.pyenv/versions/3.11/lib", home + "/.pyenv/versions/3.12"},
			inner: home + "/.pyenv/shims", env: map[string]string{"PYENV_ROOT": home + "/.pyenv"},
		},
		"local": {
			tree: tree{
				home + "/.local/bin/tool": "", home + "/.local/bin/claude": "-> " + home + "/.local/share/claude/versions/1.2", home + "/.local/share/claude/versions/1.2": "",
				home + "/.local/share/claude/token": "", home + "/.local/bin/ruff": "-> ../share/uv/tools/ruff/bin/ruff",
				home + "/.local/share/uv/tools/ruff/bin/ruff": "", home + "/.local/share/uv/tools/ruff/pyvenv.cfg": "",
				home + "/.local/share/uv/tools/ruff/bin/python3":     "-> " + home + "/.local/share/uv/python/3.12/bin/python3.12",
				home + "/.local/share/uv/tools/ruff/uv-receipt.toml": "", home + "/.local/share/uv/python/3.12/bin/python3.12": "",
				home + "/.local/share/uv/python/3.12/bin/python3": "-> python3.12", home + "/.local/share/uv/python/3.12/lib/x": "",
				home + "/.local/lib/python3.12/site-packages/x": "", home + "/.local/bin/pnpm": "-> ../lib/node_modules/pnpm/bin/pnpm.cjs",
				home + "/.local/lib/node_modules/pnpm/bin/pnpm.cjs": "", home + "/.local/lib/node_modules/pnpm/dist/pnpm.cjs": "", home + "/.local/bin/key": "-> " + home + "/.ssh/id_rsa", home + "/.ssh/id_rsa": "",
			},
			path: []string{home + "/.local/bin"},
			mount: []string{
				home + "/.local/bin", home + "/.local/lib/node_modules", home + "/.local/lib/python3.12", home + "/.local/share/claude/versions/1.2", home + "/.local/share/uv/python/3.12",
				home + "/.local/share/uv/tools/ruff/bin", home + "/.local/share/uv/tools/ruff/pyvenv.cfg",
			},
			inner: home + "/.local/bin",
		},
		"corepack": { // its versions one by one, since the sandbox fetches others beside them
			tree: tree{
				"/usr/bin/pnpm": "", home + "/.cache/node/corepack/v1/pnpm/9.15.0/bin/pnpm.cjs": "", home + "/.cache/node/corepack/v1/pnpm/10.1.0/bin/pnpm.cjs": "",
				home + "/.cache/node/corepack/v1/corepack-1-2.part/x": "", home + "/.cache/node/corepack/lastKnownGood.json": "{}", home + "/.cache/other": "",
			},
			path: []string{"/usr/bin"},
			mount: []string{
				home + "/.cache/node/corepack/lastKnownGood.json", home + "/.cache/node/corepack/v1/pnpm/10.1.0", home + "/.cache/node/corepack/v1/pnpm/9.15.0",
			},
			inner: "/usr/bin", env: map[string]string{"COREPACK_HOME": home + "/.cache/node/corepack"},
		},
		"bun, with a global package": {
			tree: tree{
				home + "/.bun/bin/bun": "", home + "/.bun/bin/cowsay": "-> ../install/global/node_modules/cowsay/cli.js",
				home + "/.bun/install/global/node_modules/cowsay/cli.js": "", home + "/.bun/install/global/package.json": "", home + "/.bun/install/cache/x": "", home + "/.bunfig.toml": "token",
			},
			path:  []string{home + "/.bun/bin"},
			mount: []string{home + "/.bun/bin", home + "/.bun/install/global/node_modules"}, inner: home + "/.bun/bin",
		},
		"pipx": { // as of Debian 12; later it is in .local/share
			tree: tree{
				home + "/.local/bin/pycowsay": "-> " + home + "/.local/pipx/venvs/pycowsay/bin/pycowsay", home + "/.local/pipx/venvs/pycowsay/bin/pycowsay": "",
				home + "/.local/pipx/venvs/pycowsay/bin/python": "-> python3", home + "/.local/pipx/venvs/pycowsay/bin/python3": "-> /usr/bin/python3", "/usr/bin/python3": "",
				home + "/.local/pipx/venvs/pycowsay/lib/python3.11/site-packages/x": "", home + "/.local/pipx/venvs/pycowsay/pyvenv.cfg": "",
				home + "/.local/pipx/venvs/pycowsay/pipx_metadata.json": "index with a password", home + "/.local/pipx/shared/x": "", home + "/.local/pipx/logs/x": "",
			},
			path: []string{home + "/.local/bin"},
			mount: []string{
				home + "/.local/bin", home + "/.local/pipx/venvs/pycowsay/bin", home + "/.local/pipx/venvs/pycowsay/lib", home + "/.local/pipx/venvs/pycowsay/pyvenv.cfg",
			},
			inner: home + "/.local/bin",
		},
		"volta": {
			tree: tree{
				home + "/.volta/bin/node": "-> volta-shim", home + "/.volta/bin/volta-shim": "", home + "/.volta/bin/volta": "", home + "/.volta/layout.v4": "",
				home + "/.volta/tools/image/node/20.1.0/bin/node": "", home + "/.volta/tools/user/platform.json": "{}", home + "/.volta/hooks.json": "token", home + "/.volta/log/x": "",
			},
			path:  []string{home + "/.volta/bin"},
			mount: []string{home + "/.volta/bin", home + "/.volta/layout.v4", home + "/.volta/tools"}, inner: home + "/.volta/bin",
			env: map[string]string{"VOLTA_HOME": home + "/.volta"},
		},
		"sdkman": {
			tree: tree{
				home + "/.sdkman/candidates/java/current": "-> 21", home + "/.sdkman/candidates/java/21/bin/java": "", home + "/.sdkman/candidates/java/21/lib/modules": "",
				home + "/.sdkman/candidates/maven/current": "-> 3.9", home + "/.sdkman/candidates/maven/3.9/bin/mvn": "", home + "/.sdkman/candidates/maven/3.9/boot/x": "",
				home + "/.sdkman/candidates/maven/3.9/conf/settings.xml": "password",
			},
			path: []string{home + "/.sdkman/candidates/java/current/bin", home + "/.sdkman/candidates/maven/3.9/bin"},
			mount: []string{
				home + "/.sdkman/candidates/java/current", home + "/.sdkman/candidates/maven/3.9/bin", home + "/.sdkman/candidates/maven/3.9/boot",
			},
			inner: home + "/.sdkman/candidates/java/current/bin:" + home + "/.sdkman/candidates/maven/3.9/bin",
			env:   map[string]string{"JAVA_HOME": home + "/.sdkman/candidates/java/current"},
		},
		"in /usr": {
			tree: tree{"/usr/local/go/bin/go": "", "/usr/local/go/pkg/tool/": "", "/usr/bin/x": "", "/bin": "-> usr/bin", "/usr/local/bin/node": "-> /opt/n/bin/node", "/opt/n/bin/node": "", "/opt/n/lib/x": ""},
			path: []string{"/bin", "/usr/local/go/bin", "/usr/local/bin"}, mount: []string{"/opt/n"}, inner: "/bin:/usr/local/go/bin:/usr/local/bin",
		},
		"opt": {
			tree: tree{"/opt/cmake/bin/cmake": "", "/opt/cmake/share/x": "", "/opt/cmake/etc/token": ""},
			path: []string{"/opt/cmake/bin"}, mount: []string{"/opt/cmake/bin", "/opt/cmake/share"}, inner: "/opt/cmake/bin",
		},
		"homebrew": {
			tree: tree{"/home/linuxbrew/.linuxbrew/bin/jq": "-> ../Cellar/jq/1/bin/jq", "/home/linuxbrew/.linuxbrew/Cellar/jq/1/bin/jq": "", "/home/linuxbrew/.linuxbrew/etc/npmrc": ""},
			path: []string{"/home/linuxbrew/.linuxbrew/bin"}, mount: []string{"/home/linuxbrew/.linuxbrew/Cellar", "/home/linuxbrew/.linuxbrew/bin"}, inner: "/home/linuxbrew/.linuxbrew/bin",
		},
		"homebrew with node": {
			tree: tree{
				"/home/linuxbrew/.linuxbrew/bin/node": "-> ../Cellar/node/1/bin/node", "/home/linuxbrew/.linuxbrew/Cellar/node/1/bin/node": "",
				"/home/linuxbrew/.linuxbrew/include/node/x": "",
			},
			path: []string{"/home/linuxbrew/.linuxbrew/bin"}, inner: "/home/linuxbrew/.linuxbrew/bin",
			mount: []string{"/home/linuxbrew/.linuxbrew/Cellar", "/home/linuxbrew/.linuxbrew/bin", "/home/linuxbrew/.linuxbrew/include"},
		},
		"left out": {
			tree: tree{home + "/bin/mine": "", home + "/x": "", home + "/tools/y": "", home + "/.foo/bin/.env": "", home + "/link": "-> " + home, "/proc/bin/": "", home + "/.local/share/mise/shims/x": ""},
			path: []string{home + "/bin", home, home + "/tools", home + "/.foo/bin", home + "/link", "bin", ".", "", "/proc/bin", "/none/bin", home + "/x", home + "/.local/share/mise/shims"},
			left: []string{home + "/bin", home, home + "/tools", home + "/.foo/bin", home + "/link", "bin", ".", "", "/proc/bin", "/none/bin", home + "/x", home + "/.local/share/mise/shims"},
		},
		"apart": {
			tree:  tree{"/opt/a/bin/x": "", "/opt/a/lib/project/secret": "", home + "/go/bin/y": "", home + "/go/bin/z": "-> ../src/p/z", home + "/go/src/p/z": ""},
			path:  []string{"/opt/a/bin", home + "/go/bin", home + "/go/src/p/bin"},
			apart: []string{"/opt/a/lib/project", home + "/go/src/p"},
			mount: []string{home + "/go/bin", "/opt/a/bin"}, inner: "/opt/a/bin:" + home + "/go/bin",
			left: []string{home + "/go/src/p/bin"},
		},
		"another one's": {
			tree: tree{home + "/.foo/bin/x": ""}, path: []string{home + "/.foo/bin"}, mount: []string{home + "/.foo/bin"}, inner: home + "/.foo/bin",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(c.tree, c.path...)
			h.Apart = c.apart
			found := Find(h)
			if diff := cmp.Diff(c.mount, targets(t, found.Mounts())); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			var inner []string
			for _, s := range found.order {
				inner = append(inner, s.dir)
			}
			if got := strings.Join(inner, ":"); got != c.inner {
				t.Errorf("PATH %s, want %s", got, c.inner)
			}
			if env := found.Env(); len(env)+len(c.env) > 0 && !cmp.Equal(env, c.env) {
				t.Errorf("variables %v, want %v", env, c.env)
			}
			var left []string
			for _, l := range found.Left {
				left = append(left, l.Dir)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNever builds a home with every layout and shape and all credentials that the tables
// name beside them, and checks that no mount shows one.
func TestNever(t *testing.T) {
	all := tree{}
	var dirs []string
	secrets := []string{
		home + "/.npmrc", home + "/.netrc", home + "/.ssh/id_rsa", home + "/.aws/credentials", home + "/.config/gh/hosts.yml", home + "/.docker/config.json",
		home + "/.m2/settings.xml", home + "/.gradle/gradle.properties", home + "/.pypirc", home + "/.git-credentials",
	}
	f := newFinder(&Host{FS: tree{home + "/": ""}.fs(), Home: home})
	one := func(pattern string) string { return strings.ReplaceAll(pattern, "*", "one") }
	for i := range layouts {
		l, root := &layouts[i], f.roots[i]
		for _, d := range l.Dirs {
			dirs = append(dirs, path.Join(root, one(d)))
			all[path.Join(root, one(d), l.Name+"-program")] = ""
		}
		for _, s := range l.Shows {
			if !strings.HasPrefix(s, "../") && !strings.HasPrefix(s, "~/") && !slices.Contains([]string{"version", "settings.toml", "asdf.sh", "layout.v4"}, s) {
				all[path.Join(root, one(s), "bin/x")] = ""
			}
		}
		for _, n := range l.Never {
			if below, inHome := strings.CutPrefix(n, "~/"); inHome {
				secrets = append(secrets, path.Join(home, below))
			} else {
				secrets = append(secrets, path.Join(root, one(n)))
			}
		}
	}
	for i := range shapes {
		s := &shapes[i]
		name := fmt.Sprint(s.Name, i)
		for _, root := range []string{home + "/apps/" + name, "/opt/" + name + "/1.0", home + "/.nvm/versions/" + name + "/1"} {
			for _, h := range s.Has {
				all[path.Join(root, h)] = ""
			}
			if !s.Itself {
				all[path.Join(root, "bin/x")] = ""
			}
			for _, d := range s.Shows {
				if ok := slices.ContainsFunc(s.Has, func(h string) bool { return h == d || strings.HasPrefix(h, d+"/") }); !ok && !strings.Contains(d, ".") {
					all[path.Join(root, d, "x")] = ""
				}
			}
			for _, n := range s.Never {
				secrets = append(secrets, path.Join(root, one(n)))
			}
			if dirs = append(dirs, root+"/bin"); s.Itself {
				dirs[len(dirs)-1] = root
			}
		}
	}
	for name := range all { // a name that others are below is a directory
		for other := range all {
			if strings.HasPrefix(other, name+"/") {
				delete(all, name)
			}
		}
	}
	for _, s := range secrets {
		all[s] = "SECRET"
	}
	h := host(all, dirs...)
	found := Find(h)
	for _, m := range found.Mounts() {
		for _, s := range secrets {
			if pathname.Within(s, m.Target) {
				t.Errorf("mount %s shows %s", m.Target, s)
			}
		}
	}
	for i := range layouts {
		if l := &layouts[i]; l.Refused == "" && l.Name != "rustup" && l.Name != "juliaup" && !slices.Contains(found.Names(), l.Name) {
			t.Errorf("layout %s was not found in %s; left: %v", l.Name, h.Path, found.Left)
		}
		if len(layouts[i].Never) == 0 && !slices.Contains([]string{"rustup", "julia"}, layouts[i].Name) {
			t.Errorf("layout %s names no credentials: Never must have them", layouts[i].Name)
		}
	}
	for i := range shapes {
		if !slices.Contains(found.Names(), shapes[i].Name) {
			t.Errorf("shape %s was not found; left: %v", shapes[i].Name, found.Left)
		}
	}
}

func TestOnly(t *testing.T) {
	found := Find(host(tree{home + "/go/bin/x": "", home + "/.deno/bin/deno": "", "/usr/bin/y": "", "/usr/sbin/z": ""}, home+"/go/bin", "/usr/sbin", home+"/.deno/bin", "/usr/bin"))
	if want := []string{"gopath", "deno"}; !slices.Equal(found.Names(), want) {
		t.Fatalf("found %v, want %v", found.Names(), want)
	}
	only, unknown := found.Only([]string{"deno"})
	if unknown != "" {
		t.Fatal(unknown)
	}
	if got, want := only.Path(), "/usr/sbin:"+home+"/.deno/bin:/usr/bin:/usr/local/bin:/bin"; got != want {
		t.Errorf("PATH %s, want %s", got, want)
	}
	if got := targets(t, only.Mounts()); !slices.Equal(got, []string{home + "/.deno/bin"}) {
		t.Errorf("mounts %v", got)
	}
	if _, unknown = found.Only([]string{"deno", "ruby"}); unknown != "ruby" {
		t.Errorf("unknown %q, want ruby", unknown)
	}
}

// A home directory behind a symbolic link has both names inside, and is never shown itself.
func TestLinkedHome(t *testing.T) {
	h := host(tree{"/home": "-> data/home", "/data/home/u/.deno/bin/deno": "", "/data/home/u/.secret": ""}, home+"/.deno/bin", home, "/data/home/u", "/data/home")
	found := Find(h)
	if diff := cmp.Diff([]string{"/data" + home + "/.deno/bin", home + "/.deno/bin"}, targets(t, found.Mounts())); diff != "" {
		t.Error(diff)
	}
	if len(found.Left) != 3 {
		t.Errorf("left out: %v", found.Left)
	}
}

// What the sandbox's user cannot read is left out, as /root for the user that root drops to.
func TestReadable(t *testing.T) {
	h := host(tree{home + "/.deno/bin/deno": "", "/opt/x/bin/y": ""}, home+"/.deno/bin", "/opt/x/bin")
	h.Readable = func(p string) bool { return !pathname.Within(p, home) }
	found := Find(h)
	if got := targets(t, found.Mounts()); !slices.Equal(got, []string{"/opt/x"}) {
		t.Errorf("mounts %v", got)
	}
	if len(found.Left) != 1 || !strings.Contains(found.Left[0].Reason, "cannot be read") {
		t.Errorf("left out: %v", found.Left)
	}
}

// Links that never end are an error, not a hang.
func TestLoop(t *testing.T) {
	found := Find(host(tree{"/a": "-> /b", "/b": "-> /a"}, "/a/bin", "/b"))
	if len(found.Left) != 2 {
		t.Errorf("left out: %v", found.Left)
	}
}

func TestSecret(t *testing.T) {
	for _, name := range []string{".env", ".env.local", "server.pem", "id_rsa", "credentials", "credentials.json", ".npmrc", "CREDENTIALS.toml", "a.key"} {
		if !secret(name) {
			t.Errorf("%s counts as a program", name)
		}
	}
	for _, name := range []string{"env", "credentialsctl", "secretservice", "keygen", "node", "aws"} {
		if secret(name) {
			t.Errorf("%s counts as a credential", name)
		}
	}
}
