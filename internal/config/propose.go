package config

import (
	"fmt"
	"strings"
)

// A trait is something that is found in a project by the name of a file at its root.
type trait struct {
	files []string // one of them is enough
	is    string
	cache string // the cache that it uses, if a sandbox can have that
}

// traits are in the order of a proposal. Of the lock files of one package.json the first
// one that exists counts.
var traits = [][]trait{
	{{[]string{"go.mod", "go.work"}, "Go", "go"}},
	{
		{[]string{"pnpm-lock.yaml"}, "Node with pnpm", "pnpm"},
		{[]string{"yarn.lock"}, "Node with yarn", "yarn"},
		{[]string{"bun.lock", "bun.lockb"}, "Node with bun", ""},
		{[]string{"package.json"}, "Node with npm", "npm"},
	},
	{
		{[]string{"uv.lock"}, "Python with uv", "uv"},
		{[]string{"pyproject.toml", "requirements.txt", "setup.py"}, "Python", "pip"},
	},
	{{[]string{"Cargo.toml"}, "Rust", "cargo"}},
	{{[]string{"pom.xml"}, "Maven", "maven"}},
	{{[]string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}, "Gradle", "gradle"}},
	{{[]string{"Makefile", "GNUmakefile", "makefile", "CMakeLists.txt"}, "make", ""}},
}

// Propose returns the text of a project's file for a codebase; has reports whether a name
// exists at its root. It sets keys that exist only.
func Propose(keys []Key, has func(name string) bool) string {
	var found, caches []string
	builds := false
	for _, group := range traits {
	group:
		for _, t := range group {
			for _, name := range t.files {
				if !has(name) {
					continue
				}
				found = append(found, fmt.Sprintf("%s (%s)", t.is, name))
				if t.cache != "" {
					builds, caches = true, append(caches, t.cache)
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
	if k := key(keys, "cache"); k != nil && len(caches) > 0 {
		b.WriteString("\n# What is downloaded stays for the next sandbox of this project.\n")
		if k.Kind == List {
			fmt.Fprintf(&b, "cache: [%s]\n", strings.Join(caches, ", "))
		} else {
			fmt.Fprintf(&b, "cache: %s\n", strings.Join(caches, ","))
		}
	}
	if builds {
		b.WriteString(`
# To download packages: the network of this host, with the services on it that trust
# localhost.
# network: host
`)
	}
	b.WriteString(`
# rules:
#   - /docs/=read            # PATTERN=none|view|read|write

# A file that is hidden as a secret and is none:
# reveal:
#   - /testing.env=read

# env:
#   CI: "true"

# memory: 2g
`)
	return b.String()
}
