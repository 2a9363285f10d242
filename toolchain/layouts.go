package toolchain

import (
	"path"
	"slices"
	"strings"

	"wolffia/internal/pathname"
)

// A Layout is a tool that is known by its place.
type Layout struct {
	Name string
	// Var is the variable with its root directory. Root is where that is without it; ~/ is the
	// home directory.
	Var, Root string
	// Dirs are the entries of PATH that belong to it, below the root; * is any one name. What has none
	// comes along with every PATH.
	Dirs []string
	// Shows is what is shown, below the root; * is any one name. A * at the end stands for
	// installations, each shown as a [Shape] is. What begins with ../ is beside the entry.
	Shows []string
	// Never is what lies beside, or in what is shown, and is not shown since it may hold
	// credentials: below the root, or below the home directory with ~/. A last name * is all
	// that a directory contains.
	Never []string
	// Also is the name of a layout that comes along.
	Also string
	// Env are variables to set; the value is below the root.
	Env map[string]string
	// Pass are variables of the caller's to pass if their value is below the root.
	Pass []string
	// Shaped is set if an entry that has a [Shape] is that, and not this layout.
	Shaped bool
	// Refused is why it is never shown.
	Refused string
}

// layouts are the tools that are known by their place, the more specific first.
var layouts = []Layout{
	{
		Name: "rust", Var: "CARGO_HOME", Root: "~/.cargo", Dirs: []string{"bin"}, Shows: []string{"bin"},
		Never: []string{"credentials", "credentials.toml", "config", "config.toml", "registry/cache/key"}, Also: "rustup",
	},
	{
		Name: "rustup", Var: "RUSTUP_HOME", Root: "~/.rustup", Dirs: []string{"toolchains/*/bin"},
		Shows: []string{"toolchains", "settings.toml"}, Env: map[string]string{"RUSTUP_HOME": ""},
	},
	{
		Name: "gopath", Var: "GOPATH", Root: "~/go", Dirs: []string{"bin"}, Shows: []string{"bin"},
		Never: []string{"~/.config/go/env", "pkg/mod/private.netrc"},
	},
	{
		Name: "pyenv", Var: "PYENV_ROOT", Root: "~/.pyenv", Dirs: []string{"bin", "shims", "plugins/*/bin", "plugins/*/shims"},
		Shows: []string{"bin", "libexec", "shims", "pyenv.d", "version", "versions/*"},
		Never: []string{"versions/3.12.1/pip.conf", "versions/3.12.1/envs/web/pip.conf", ".git/config"}, Env: map[string]string{"PYENV_ROOT": ""},
	},
	{
		Name: "rbenv", Var: "RBENV_ROOT", Root: "~/.rbenv", Dirs: []string{"bin", "shims"},
		Shows: []string{"bin", "libexec", "shims", "rbenv.d", "version", "versions/*"},
		Never: []string{".git/config"}, Env: map[string]string{"RBENV_ROOT": ""},
	},
	{
		Name: "nodenv", Var: "NODENV_ROOT", Root: "~/.nodenv", Dirs: []string{"bin", "shims"},
		Shows: []string{"bin", "libexec", "shims", "nodenv.d", "version", "versions/*"},
		Never: []string{"versions/20.1.0/etc/npmrc", ".git/config"}, Env: map[string]string{"NODENV_ROOT": ""},
	},
	{
		Name: "goenv", Var: "GOENV_ROOT", Root: "~/.goenv", Dirs: []string{"bin", "shims"},
		Shows: []string{"bin", "libexec", "shims", "version", "versions/*"},
		Never: []string{".git/config"}, Env: map[string]string{"GOENV_ROOT": ""},
	},
	{
		Name: "jenv", Var: "JENV_ROOT", Root: "~/.jenv", Dirs: []string{"bin", "shims"},
		Shows: []string{"bin", "libexec", "shims", "version", "versions/*"},
		Never: []string{".git/config"}, Env: map[string]string{"JENV_ROOT": ""},
	},
	{
		Name: "asdf", Var: "ASDF_DATA_DIR", Root: "~/.asdf", Dirs: []string{"bin", "shims"},
		Shows: []string{"asdf.sh", "bin", "lib", "defaults", "shims", "plugins/*/bin", "plugins/*/lib", "installs/*/*", "~/.tool-versions"},
		Never: []string{"~/.asdfrc", "installs/nodejs/20.1.0/etc/npmrc", "plugins/nodejs/.git/config"}, Env: map[string]string{"ASDF_DATA_DIR": ""},
	},
	{
		Name: "mise", Var: "MISE_DATA_DIR", Root: "~/.local/share/mise", Dirs: []string{"shims"},
		Never:   []string{"~/.config/mise/config.toml"},
		Refused: "needs the configuration of mise, which may contain secrets: use mise activate, or mise env, in place of shims",
	},
	{
		Name: "volta", Var: "VOLTA_HOME", Root: "~/.volta", Dirs: []string{"bin"}, Shows: []string{"bin", "tools", "layout.v4"},
		Never: []string{"hooks.json"}, Env: map[string]string{"VOLTA_HOME": ""},
	},
	{
		Name: "npm", Var: "NPM_CONFIG_PREFIX", Root: "~/.npm-global", Dirs: []string{"bin"}, Shows: []string{"bin", "lib"},
		Never: []string{"etc/npmrc", "~/.npmrc"},
	},
	{Name: "npm", Root: "~/.npm-packages", Dirs: []string{"bin"}, Shows: []string{"bin", "lib"}, Never: []string{"etc/npmrc"}},
	{
		Name: "pnpm", Var: "PNPM_HOME", Root: "~/.local/share/pnpm", Dirs: []string{"", "bin"},
		Shows: []string{"pnpm", "pnpx", "pn", "pnx", "bin", "global", "nodejs", ".tools"}, Never: []string{"~/.config/pnpm/rc", "~/.config/pnpm/auth.ini"},
	},
	{Name: "yarn", Root: "~/.yarn", Dirs: []string{"bin"}, Shows: []string{"bin"}, Never: []string{"~/.yarnrc", "~/.yarnrc.yml"}},
	{Name: "yarn", Root: "~/.config/yarn/global", Dirs: []string{"node_modules/.bin"}, Shows: []string{"node_modules"}, Never: []string{".npmrc"}},
	{
		Name: "bun", Var: "BUN_INSTALL", Root: "~/.bun", Dirs: []string{"bin"}, Shows: []string{"bin", "install/global/node_modules"},
		Never: []string{"~/.bunfig.toml"},
	},
	{Name: "deno", Var: "DENO_INSTALL", Root: "~/.deno", Dirs: []string{"bin"}, Shows: []string{"bin"}, Never: []string{"credentials.json"}},
	{
		Name: "sdkman", Var: "SDKMAN_DIR", Root: "~/.sdkman", Shaped: true, Dirs: []string{"candidates/*/*/bin"},
		Shows: []string{"../bin", "../lib", "../libexec", "../boot", "../conf/logging"},
		Never: []string{"etc/config", "candidates/tool/1.0/conf/settings.xml"},
	},
	{
		Name: "rvm", Var: "rvm_path", Root: "~/.rvm", Dirs: []string{"bin", "rubies/*/bin", "gems/*/bin"},
		Shows: []string{"bin", "rubies", "gems", "wrappers", "environments"}, Never: []string{"user/db"}, Pass: []string{"GEM_HOME", "GEM_PATH"},
	},
	{Name: "gem", Root: "~/.gem", Dirs: []string{"ruby/*/bin"}, Shows: []string{"ruby"}, Never: []string{"credentials"}},
	{Name: "gem", Root: "~/.local/share/gem", Dirs: []string{"ruby/*/bin"}, Shows: []string{"ruby"}, Never: []string{"credentials"}},
	{Name: "composer", Var: "COMPOSER_HOME", Root: "~/.config/composer", Dirs: []string{"vendor/bin"}, Shows: []string{"vendor"}, Never: []string{"auth.json", "config.json"}},
	{Name: "composer", Root: "~/.composer", Dirs: []string{"vendor/bin"}, Shows: []string{"vendor"}, Never: []string{"auth.json", "config.json"}},
	{
		Name: "dotnet", Var: "DOTNET_ROOT", Root: "~/.dotnet", Dirs: []string{"", "tools"},
		Shows: []string{"dotnet", "host", "shared", "sdk", "sdk-manifests", "packs", "templates", "tools"},
		Never: []string{"corefx/cryptography/x509stores/my/key.pfx", "~/.nuget/NuGet/NuGet.Config"}, Env: map[string]string{"DOTNET_ROOT": ""},
	},
	{Name: "ghcup", Root: "~/.ghcup", Dirs: []string{"bin"}, Shows: []string{"bin", "ghc", "hls"}, Never: []string{"config.yaml"}},
	{Name: "cabal", Root: "~/.cabal", Dirs: []string{"bin"}, Shows: []string{"bin"}, Never: []string{"config"}},
	{Name: "opam", Var: "OPAMROOT", Root: "~/.opam", Dirs: []string{"*/bin"}, Shows: []string{"../bin", "../sbin", "../lib", "../share"}, Never: []string{"config"}},
	{Name: "julia", Root: "~/.juliaup", Dirs: []string{"bin"}, Shows: []string{"bin"}, Also: "juliaup"},
	{Name: "juliaup", Root: "~/.julia/juliaup", Dirs: []string{"*/bin"}, Shows: []string{"*"}, Never: []string{"~/.julia/servers/auth.toml"}},
	{
		Name: "homebrew", Var: "HOMEBREW_PREFIX", Root: "/home/linuxbrew/.linuxbrew", Dirs: []string{"bin", "sbin", "opt/*/bin"},
		Shows: []string{"bin", "sbin", "Cellar", "opt", "lib", "include", "share", "etc/ca-certificates", "etc/openssl@3"}, Never: []string{"etc/npmrc", "var/redis.conf", "etc/openssl@3/private/*"},
	},
	{
		// By versions, so that the sandbox can fetch others beside them. Its programs are in /usr, or
		// come with node.
		Name: "corepack", Var: "COREPACK_HOME", Root: "~/.cache/node/corepack",
		Shows: []string{"v1/*/[0-9]*", "lastKnownGood.json"}, Never: []string{"~/.npmrc"},
		Env: map[string]string{"COREPACK_HOME": ""},
	},
	{
		Name: "local", Root: "~/.local", Dirs: []string{"bin"},
		Shows: []string{"bin", "lib/python3*", "lib/node_modules"},
		Never: []string{"share/uv/credentials/credentials.toml", "share/keyrings/login.keyring", "share/pipx/venvs/tool/pipx_metadata.json", "share/uv/tools/ruff/uv-receipt.toml"},
	},
}

// Usual returns patterns of the directories with programs that the tools known by their place have
// below a home directory, if no variable says otherwise.
func Usual(home string) (patterns []string) {
	f := finder{host: &Host{}, home: home}
	for i := range layouts {
		for _, dir := range layouts[i].Dirs {
			if root := f.root(&layouts[i]); root != "" && layouts[i].Refused == "" {
				patterns = append(patterns, path.Join(root, dir))
			}
		}
	}
	return patterns
}

// root returns the root directory of a layout; empty without a home directory.
func (f *finder) root(l *Layout) string {
	if l.Var != "" && f.host.Getenv != nil {
		if v := f.host.Getenv(l.Var); path.IsAbs(v) && path.Clean(v) != f.home && path.Clean(v) != "/" {
			return path.Clean(v)
		}
	}
	rest, below := strings.CutPrefix(l.Root, "~/")
	switch {
	case !below:
		return l.Root
	case f.home == "":
		return ""
	}
	return f.home + "/" + rest
}

// located returns the layout that an entry of PATH belongs to, its root, and the entry's
// path below that; nil without one.
func (f *finder) located(dir string) (l *Layout, root, at string) {
	for i := range layouts {
		l, root := &layouts[i], f.roots[i]
		if root == "" || !pathname.Within(dir, root) {
			continue
		}
		at := strings.TrimPrefix(dir[len(root):], "/")
		if slices.ContainsFunc(l.Dirs, func(d string) bool { ok, _ := path.Match(d, at); return ok }) {
			return l, root, at
		}
	}
	return nil, "", ""
}

// byPlace adds what a layout shows, or returns why nothing of it is shown.
func (f *finder) byPlace(p *part, l *Layout, root, at string) (reason string) {
	if l.Refused != "" {
		return l.Refused
	}
	dir := path.Join(root, at)
	real, err := f.eval(dir)
	if err != nil {
		return "does not exist, or is out of reach"
	}
	if reason = f.refuse(real); reason != "" {
		return reason
	}
	if l.Shaped {
		if s, of := f.shaped(dir); s != nil {
			f.byShape(p, s, of)
			return ""
		}
	}
	if p.name == "" {
		p.name = l.Name
	}
	if at != "" {
		if names, err := f.list(dir); err == nil {
			for _, e := range names {
				if secret(e.Name()) {
					return "contains " + e.Name() + ", which may be a credential"
				}
			}
		}
	}
	f.layout(p, l, root, dir)
	if at != "" && !f.covered(p, dir) {
		f.mount(p, dir)
	}
	f.follow(p, dir)
	return ""
}

// layout adds what a layout and those that come along show.
func (f *finder) layout(p *part, l *Layout, root, dir string) {
	f.hide(p, root, l.Shows, l.Never)
	for _, show := range l.Shows {
		base := root
		if rest, below := strings.CutPrefix(show, "~/"); below {
			base, show = f.home, rest
		} else if rest, beside := strings.CutPrefix(show, "../"); beside {
			base, show = path.Dir(dir), rest
		}
		f.glob(p, base, show)
	}
	f.vars(p, l, root)
	for i := range layouts {
		if also := &layouts[i]; l.Also != "" && also.Name == l.Also {
			if root := f.roots[i]; root != "" && f.exists(root) {
				f.layout(p, also, root, "")
			}
		}
	}
}

// vars adds the variables of a layout.
func (f *finder) vars(p *part, l *Layout, root string) {
	set := func(k, v string) {
		if p.env == nil {
			p.env = map[string]string{}
		}
		p.env[k] = v
	}
	for k, below := range l.Env {
		set(k, path.Join(root, below))
	}
	for _, k := range l.Pass {
		if v := f.host.Getenv; v != nil && v(k) != "" && !slices.ContainsFunc(strings.Split(v(k), ":"), func(s string) bool { return !pathname.Within(s, root) }) {
			set(k, v(k))
		}
	}
}

// glob mounts what the pattern show names below base. Installations (a last name *) are
// mounted as one directory if all of them may be.
func (f *finder) glob(p *part, base, show string) {
	name, rest, more := strings.Cut(show, "/")
	if !strings.Contains(name, "*") {
		if next := path.Join(base, name); more {
			f.glob(p, next, rest)
		} else {
			f.mount(p, next)
		}
		return
	}
	names, err := f.list(base)
	if err != nil {
		return
	}
	all := part{visited: p.visited}
	whole := !more && name == "*"
	for _, e := range names {
		if ok, _ := path.Match(name, e.Name()); !ok {
			continue
		}
		next := path.Join(base, e.Name())
		switch {
		case more:
			f.glob(p, next, rest)
		case name != "*":
			f.mount(p, next)
		case f.isDir(next):
			whole = f.installation(&all, next) && whole
			if real, err := f.eval(next); err != nil || !pathname.Within(f.named(real), base) && !pathname.Within(real, base) {
				whole = false // a link to elsewhere
			}
		default:
			whole = false
		}
	}
	if whole && len(all.mounts) > 0 {
		f.mount(p, base)
	}
	p.mounts = append(p.mounts, all.mounts...) // outermost drops those below base
}
