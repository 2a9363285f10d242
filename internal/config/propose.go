package config

import (
	"fmt"
	"strconv"
	"strings"
)

// A trait is something that is found in a project by the name of a file at its root.
type trait struct {
	files []string // one of them is enough
	is    string
	cache string // the cache that it uses, if a sandbox can have that
	hosts string // the list of hosts that it downloads from
}

// traits are in the order of a proposal. Of the lock files of one package.json the first
// one that exists counts.
var traits = [][]trait{
	{{[]string{"go.mod", "go.work"}, "Go", "go", "@go"}},
	{
		{[]string{"pnpm-lock.yaml"}, "Node with pnpm", "pnpm", "@npm"},
		{[]string{"yarn.lock"}, "Node with yarn", "yarn", "@yarn"},
		{[]string{"bun.lock", "bun.lockb"}, "Node with bun", "", "@npm"},
		{[]string{"package.json"}, "Node with npm", "npm", "@npm"},
	},
	{
		{[]string{"uv.lock"}, "Python with uv", "uv", "@pypi"},
		{[]string{"pyproject.toml", "requirements.txt", "setup.py"}, "Python", "pip", "@pypi"},
	},
	{{[]string{"Cargo.toml"}, "Rust", "cargo", "@crates"}},
	{{[]string{"pom.xml"}, "Maven", "maven", "@maven"}},
	{{[]string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}, "Gradle", "gradle", "@maven"}},
	{{[]string{"Makefile", "GNUmakefile", "makefile", "CMakeLists.txt"}, "make", "", ""}},
}

// Propose returns the text of a project's file for a codebase; has reports whether a name
// exists at its root.
func Propose(has func(name string) bool) string {
	var found, caches, hosts []string
	for _, group := range traits {
	group:
		for _, t := range group {
			for _, name := range t.files {
				if !has(name) {
					continue
				}
				found = append(found, fmt.Sprintf("%s (%s)", t.is, name))
				if t.cache != "" {
					caches = append(caches, t.cache)
				}
				if t.hosts != "" {
					hosts = append(hosts, strconv.Quote(t.hosts))
				}
				break group
			}
		}
	}
	var b strings.Builder
	b.WriteString(`# How wolffia runs this project. The keys are the flags of wolffia run; wolffia config
# schema has them all, docs/configuration.md says what this file may do. It is used once
# you have read it and run: wolffia trust
`)
	if len(found) > 0 {
		fmt.Fprintf(&b, "#\n# Found: %s\n", strings.Join(found, ", "))
	}
	if len(caches) > 0 {
		b.WriteString("\n# One cache for sandboxes with a network and without:\n")
		fmt.Fprintf(&b, "# cache: [%s]\n", strings.Join(caches, ", "))
	}
	if len(hosts) > 0 {
		fmt.Fprintf(&b, "\n# To download packages, from these hosts only: wolffia network lists has them.\n# %s: [%s]\n", keyAllowHost, strings.Join(hosts, ", "))
	}
	b.WriteString(`
# rules:
#   - /docs/=read            # PATTERN=none|view|ask|read|write

# A file that is hidden as a secret and is none:
# reveal:
#   - /testing.env=read

# env:
#   CI: "true"

# memory: 2g
`)
	return b.String()
}
