package perm

import (
	"strings"
	"testing"
)

// TestNewNames: a name with a dot that no list has cannot be made, at the top alone; what ordinary
// tools write can, and what exists has the level that it had.
func TestNewNames(t *testing.T) {
	rules := append(NewNameRules(".", []string{".owntool", ".odd,{name}\xff", ".Upper"}, []string{"own"}), Rule{Pattern: "**", Level: Write})
	rules = append(rules, NewNameRules("home/ann", []string{".profile.d"}, nil)...)
	p := mustCompile(t, rules...)
	for _, name := range strings.Fields(".newagent .newagent/settings.json .a .zrc .Zrc ..x .1 .newtool.config .newtool.2 .venvtool .x.tmpl .newtool2024 .new_tool .\xc3\xa9 .hg .jj .svn .config/new .config/new/x .direnv .mytool.json .foo.d .settings .factorypath " +
		".merlin .hie-bios .clangd .lsp .ropeproject home/ann/.newagent home/ann/.config/x") {
		for _, dir := range []bool{false, true} {
			if got := p.Level(name, dir); got != Read {
				t.Errorf("%s is %v", name, got)
			}
		}
		if got := p.Explain(name, false); got.Rule.Reason() == "" || got.Remedy(Write) != "--reveal '/"+Quote(name)+"=write'" {
			t.Errorf("%s: %v, %q", name, got, got.Remedy(Write))
		}
		if deep := "sub/" + name; !strings.HasPrefix(name, "home/") && p.Level(deep, false) != Write {
			t.Errorf("%s is guarded", deep)
		}
	}
	for _, name := range strings.Fields(".owntool .owntool/x .odd,{name}\xff .Upper .config/own .config/own/x .config .config/dotnet-tools.json .git .git/config .gitignore .dockerignore .github/workflows/ci.yml " +
		".eslintrc.json .prettierrc .editorconfig .env.example .cache/x .venv/bin/python .mypy_cache .pytest_cache .next .nuxt .turbo .vite .tox .nox .ruff_cache .gradle .idea/x.iml .vscode/extensions.json " +
		".main.go.swp .#main.go .main.go~ .tmpAb12Cd .README.md.Xy12Zz .LICENSE.M30mLj .run.abcdeF .depend .built .stamp-a .terraform.tfstate.lock.info .x.yaml123456789 .irb_history .testmondata-wal .venv-test .venv312 .x.json.tmp-1 .x.json.tmp.12.34 .Rhistory .goutputstream-ABC .DS_Store .python-version .mvn/wrapper/x .terraform .yarn/cache/x .pnp.cjs home/ann/.profile.d main.go") {
		if got := p.Level(name, false); got != Write {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// TestNewNamesOfRows: no row of executed is about a name that the list leaves alone as a whole.
func TestNewNamesOfRows(t *testing.T) {
	p := mustCompile(t, append(append(NewNameRules(".", nil, nil), ExecutedRules([]string{"."})...), Rule{Pattern: "**", Level: Write})...)
	for pattern, ex := range habits {
		for _, name := range strings.Fields(ex.guarded) {
			if got := p.Level(name, false); got != Read {
				t.Errorf("%s: %s is %v", pattern, name, got)
			}
		}
	}
}

// TestNewNamesFit: with more names than a rule has room for, the rules are sound, and what did not
// fit is guarded.
func TestNewNamesFit(t *testing.T) {
	var names []string
	for i := range 2000 {
		names = append(names, ".x"+strings.Repeat("\xff", i%200)+string(rune('a'+i%26)))
	}
	p := mustCompile(t, append(NewNameRules(".", names, names), Rule{Pattern: "**", Level: Write})...)
	if got := p.Level(names[0], false); got != Write {
		t.Errorf("the first is %v", got)
	}
	if got := p.Level(names[1999], false); got != Read {
		t.Errorf("the last is %v", got)
	}
	if got := p.Level(".cache", true); got != Write {
		t.Errorf(".cache is %v", got)
	}
}
