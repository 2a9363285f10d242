package policy

import (
	"slices"
	"strings"
	"testing"

	"wolffia/perm"
)

// scaffolds are the files with a dot, and some others, that ordinary programs write into a new
// project.
var scaffolds = []struct{ command, files string }{
	{"git init", ".git/HEAD .git/config .git/hooks/x"},
	{"git clone .", ".git .gitignore .gitattributes .gitmodules .github/workflows/ci.yml .mailmap README.md"},
	{"cargo init", ".gitignore Cargo.toml src/main.rs target/.rustc_info.json target/debug/.cargo-lock"},
	{"go mod init", "go.mod .golangci.yml .goreleaser.yaml"},
	{"npm init -y", "package.json package-lock.json node_modules/.package-lock.json node_modules/.bin/x"},
	{"npm create vite", ".gitignore .vscode/extensions.json .oxlintrc.json index.html vite.config.ts node_modules/.vite/x"},
	{"npm create vue", ".gitignore .gitattributes .editorconfig .prettierrc.json .eslintrc.cjs .vscode/extensions.json env.d.ts"},
	{"create-next-app", ".gitignore .eslintrc.json .next/cache/x next.config.ts"},
	{"npm create astro", ".gitignore .vscode/extensions.json .vscode/launch.json .astro/types.d.ts"},
	{"nuxi init", ".gitignore .nuxt/x .output/x nuxt.config.ts"},
	{"sv create", ".gitignore .prettierrc .prettierignore .svelte-kit/x"},
	{"create-turbo", ".gitignore .turbo/x pnpm-workspace.yaml turbo.json"},
	{"create-nx-workspace", ".gitignore .editorconfig .prettierrc .prettierignore .nx/cache/x .vscode/extensions.json .swcrc nx.json"},
	{"yarn init", ".editorconfig .gitattributes .gitignore .pnp.cjs .pnp.loader.mjs .yarn/cache/x .yarn/install-state.gz"},
	{"python3 -m venv, pytest, tox, mypy, ruff, coverage", ".venv/bin/python .pytest_cache/x .tox/x .nox/x .mypy_cache/x .ruff_cache/x .coverage .coverage.host.1 .hypothesis/x"},
	{"uv init", ".gitignore .python-version .venv/x pyproject.toml uv.lock"},
	{"rails new", ".gitattributes .gitignore .dockerignore .ruby-version .rubocop.yml .github/dependabot.yml .kamal/hooks/x .bundle/x"},
	{"bundle gem", ".gitignore .rspec .rubocop.yml .github/workflows/main.yml"},
	{"mix new", ".formatter.exs .gitignore mix.exs"},
	{"gradle init", ".gitattributes .gitignore .gradle/x .kotlin/x gradle/wrapper/x"},
	{"spring initializr", ".gitignore .gitattributes .mvn/wrapper/maven-wrapper.properties mvnw pom.xml"},
	{"dotnet new", ".gitignore .editorconfig .config/dotnet-tools.json x.csproj"},
	{"flutter create", ".gitignore .metadata .dart_tool/x .idea/libraries/x.xml .idea/modules.xml .flutter-plugins-dependencies"},
	{"composer create-project", ".editorconfig .gitattributes .gitignore .env.example .phpunit.result.cache .styleci.yml"},
	{"terraform init", ".terraform/providers/x .terraform.lock.hcl"},
	{"swift package init", ".gitignore .build/x Package.swift"},
	{"editors and file systems", ".main.go.swp .main.go.swx .#main.go main.go~ .main.go.un~ .~lock.x.odt# .DS_Store ._x .nfs0001 .goutputstream-AB12CD .tmpAb12Cd .merge_file_x1 .README.md.Ab12Cd"},
}

// refusedScaffolds are those of which a preset that guards what the host executes refuses a file,
// as rows of perm say.
var refusedScaffolds = map[string]string{
	"ng new":          ".vscode/tasks.json",
	"jj git init":     ".jj/repo/store/type",
	"yarn set":        ".yarn/releases/yarn.cjs",
	"npx husky init":  ".husky/pre-commit",
	"devbox, direnv":  ".envrc",
	"codespaces":      ".devcontainer/devcontainer.json",
	"sbt, for Metals": ".bsp/sbt.json",
	"mise use":        "mise.toml",
}

// TestScaffolds: new projects can be made at the top of an empty codebase, with the default preset
// and with development.
func TestScaffolds(t *testing.T) {
	for _, preset := range []string{"agent-safe", "development"} {
		p := newPlace(t)
		p.o.Preset = preset
		rules, err := perm.Compile(p.rules().Rules)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range scaffolds {
			for _, file := range strings.Fields(s.files) {
				for name := file; name != ""; name = name[:max(0, strings.LastIndexByte(name, '/'))] {
					if got := rules.Level(name, name != file); got != perm.Write {
						t.Errorf("%s, %s: %v", preset, s.command, rules.Explain(name, name != file))
					}
				}
			}
		}
		for command, file := range refusedScaffolds {
			want := []perm.Level{perm.Write}
			if preset == "agent-safe" {
				want = []perm.Level{perm.None, perm.Read}
			} else if file == ".envrc" {
				want = []perm.Level{perm.Read}
			}
			if got := rules.Level(file, false); !slices.Contains(want, got) {
				t.Errorf("%s, %s: %s is %v", preset, command, file, got)
			}
		}
	}
}
