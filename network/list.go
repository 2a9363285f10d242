package network

import (
	"slices"
	"strings"
)

// A List is a named set of rules, which a policy has as "@NAME".
type List struct {
	Name   string   `json:"name"`
	Hosts  []string `json:"hosts"`  // rules: exact names, with ports
	Reason string   `json:"reason"` // one sentence: what needs the hosts
}

// Lists returns the named lists, by name.
func Lists() []List {
	all := slices.Clone(lists)
	for i := range all {
		all[i].Hosts = slices.Clone(all[i].Hosts)
	}
	return all
}

func listNames() []string {
	names := make([]string, len(lists))
	for i, l := range lists {
		names[i] = l.Name
	}
	return names
}

// byTool has the lists of tools whose names are given in place of a list's.
var byTool = map[string]string{
	"apk": "alpine", "apt": "debian", "bun": "npm", "bundler": "rubygems", "cargo": "crates", "claude": "anthropic", "codex": "openai", "composer": "packagist",
	"dotnet": "nuget", "gem": "rubygems", "git": "github", "golang": "go", "mix": "hex", "mvn": "maven", "nvm": "node", "pip": "pypi", "pnpm": "npm",
	"poetry": "pypi", "python": "pypi", "rust": "crates", "uv": "pypi",
}

// meantList returns the list that an unknown name is likely to mean: that of a tool, or one with
// the same letters, or with more or fewer at the end. It returns "" if it finds no list.
func meantList(name string) string {
	name = strings.ToLower(name)
	if list := byTool[name]; list != "" {
		return list
	}
	for _, list := range listNames() {
		if letters(list) == letters(name) || len(name) > 2 && (strings.HasPrefix(list, name) || strings.HasPrefix(name, list)) {
			return list
		}
	}
	return ""
}

// letters returns the bytes of a word in order.
func letters(word string) string {
	b := []byte(word)
	slices.Sort(b)
	return string(b)
}

// lists are the named lists, by name.
//
// A row has the hosts that the tool's default configuration needs to download public data, by
// exact name. Hosts where strangers can upload as easily would let data out. So rows omit them,
// unless the tool does not work without (@github, @gitlab, @huggingface, models), and the reason
// mentions it. Port 80 is in a row only if the tool checks signatures itself.
var lists = []List{
	{"alpine", []string{"dl-cdn.alpinelinux.org:80,443"}, "apk downloads Alpine's packages, whose signatures it checks"},
	{"anthropic", []string{"api.anthropic.com:443", "claude.ai:443", "console.anthropic.com:443", "platform.claude.com:443"}, "Claude Code uses its models and logs in: with another's key, also a way out for data"},
	{"crates", []string{"index.crates.io:443", "static.crates.io:443", "crates.io:443"}, "cargo reads the sparse index and downloads crates"},
	{
		"crates-git",
		[]string{"crates.io:443", "github.com:443", "static.crates.io:443"},
		"cargo before 1.70, as in Debian 12, reads the index with git: with a token inside, also a way out for data",
	},
	{"debian", []string{"deb.debian.org:80,443", "security.debian.org:80,443"}, "apt downloads Debian's packages, whose signatures it checks"},
	{"docker", []string{"auth.docker.io:443", "production.cloudflare.docker.com:443", "registry-1.docker.io:443"}, "images are pulled from Docker Hub"},
	{"gemini", []string{
		"accounts.google.com:443", "cloudcode-pa.googleapis.com:443", "generativelanguage.googleapis.com:443", "oauth2.googleapis.com:443", "www.googleapis.com:443",
	}, "Gemini CLI uses its models and logs in: with another's key, also a way out for data"},
	{"github", []string{
		"api.github.com:443", "codeload.github.com:443", "github.com:22,443", "objects.githubusercontent.com:443",
		"raw.githubusercontent.com:443", "release-assets.githubusercontent.com:443", "ssh.github.com:443",
	}, "git, its releases and its API: with a token inside, also a way out for data"},
	{"gitlab", []string{"gitlab.com:22,443", "registry.gitlab.com:443"}, "git and its API: with a token inside, also a way out for data"},
	{"go", []string{"proxy.golang.org:443", "sum.golang.org:443"}, "the go command downloads modules and toolchains and checks their sums"},
	{"gradle", []string{"downloads.gradle.org:443", "plugins-artifacts.gradle.org:443", "plugins.gradle.org:443", "services.gradle.org:443"}, "Gradle downloads itself and its plugins"},
	{"hex", []string{"builds.hex.pm:443", "hex.pm:443", "repo.hex.pm:443"}, "mix and rebar3 download packages of Elixir and Erlang"},
	{"huggingface", []string{"huggingface.co:443"}, "models and data sets: with a token inside, also a way out for data"},
	{"maven", []string{"repo.maven.apache.org:443", "repo1.maven.org:443"}, "Maven, Gradle and sbt download from Maven Central"},
	{"node", []string{"nodejs.org:443"}, "version managers download Node, and node-gyp its headers"},
	{"npm", []string{"registry.npmjs.org:443"}, "npm, pnpm and bun download packages"},
	{"nuget", []string{"api.nuget.org:443"}, "dotnet downloads packages"},
	{"openai", []string{"api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443"}, "Codex uses its models and logs in: with another's key, also a way out for data"},
	{"packagist", []string{"packagist.org:443", "repo.packagist.org:443"}, "composer reads the index; the archives are mostly on @github"},
	{"pypi", []string{"files.pythonhosted.org:443", "pypi.org:443"}, "pip, uv and poetry download packages"},
	{"rubygems", []string{"index.rubygems.org:443", "rubygems.org:443"}, "gem and bundler download gems"},
	{"rustup", []string{"static.rust-lang.org:443"}, "rustup downloads toolchains"},
	{"ubuntu", []string{"archive.ubuntu.com:80,443", "ports.ubuntu.com:80,443", "security.ubuntu.com:80,443"}, "apt downloads Ubuntu's packages, whose signatures it checks"},
	{"yarn", []string{"registry.yarnpkg.com:443"}, "yarn downloads packages"},
}
