package perm

import (
	"slices"
	"strings"
)

// harmlessDots are patterns of names with a dot at the top of a project that a sandbox may make
// although no row of executed is about them: nothing on the host executes or trusts them by itself.
// A program that is not known yet keeps its settings under another name, so what is not here
// cannot be made.
//
// Names that only the commands which build, test, format or publish the project read are here, as
// such files have no row of executed; so are directories of which rows guard a part. What a hook, a
// prompt, a shell at a cd, or an editor's server reads is not.
var harmlessDots = strings.Fields(`
	.git .gitattributes .gitmodules .mailmap .git-blame-ignore-revs .gitpod* .*ignore .*keep .placeholder .empty
	.nomedia

	.vscode .idea .claude .cursor .gemini .windsurf .kiro .roo .junie .amazonq .kilocode .kilo .trae .clinerules
	.github .cargo .yarn .wolffia .wolffia-* .config .env* .npmrc .cursorrules .windsurfrules .roorules* .rules .goosehints
	.augment-guidelines .continuerules .aider.*

	.editorconfig .eslintrc* .prettierrc* .stylelintrc* .oxlintrc* .oxfmtrc* .dprint.json* .jshintrc .jscsrc
	.htmlhintrc .csslintrc .tslint.json .sass-lint.yml .babelrc* .swcrc .browserslistrc .postcssrc* .mocharc* .nycrc*
	.c8rc* .jestrc* .taprc .remarkrc* .textlintrc* .puppeteerrc* .graphqlrc .graphqlrc.{json,yml,yaml,toml}
	.markdownlint* .lighthouserc* .pa11yci* .size-limit* .releaserc* .release-it* .versionrc* .changeset
	.all-contributorsrc .depcheckrc* .ncurc* .syncpackrc* .madgerc .cspell* .codespellrc .typos.toml .vale.ini
	.lychee* .proselintrc .flake8 .pylintrc .pydocstyle* .isort.cfg .style.yapf .bandit* .coveragerc .ruff.toml
	.mypy.ini .pep8 .pycodestyle .yamllint* .yamlfmt* .rspec .rubocop* .standard.yml .erb-lint.yml .erb_lint.yml
	.haml-lint.yml .slim-lint.yml .reek.yml .yardopts .rdoc_options .document .simplecov .rustfmt.toml .clippy.toml
	.clang-format .clang-tidy .cmake-format* .cmakelintrc .astylerc .uncrustify.cfg .indent.pro .php-cs-fixer*
	.php_cs* .phpcs.xml* .phpunit* .styleci.yml .scrutinizer.yml .phpstan* .formatter.exs .credo.exs .scalafmt.conf
	.scalafix.conf .csharpierrc* .globalconfig .swiftlint.yml .swift-format .swiftformat .ocamlformat .ocp-indent
	.hlint.yaml .fourmolu.yaml .stylish-haskell.yaml .JuliaFormatter.toml .luacheckrc .stylua.toml .busted
	.perltidyrc .perlcriticrc .proverc .golangci.* .mockery.y*ml .tflint.hcl .terraform-docs.yml .ansible-lint*
	.hadolint.y*ml .checkov.y*ml .trivy* .gitleaks.toml .secrets.baseline .talismanrc .buckconfig .buckroot .bazelrc
	.mvn

	.*-version .version .nvmrc .sdkmanrc .ruby-gemset .pdm-python .gitlab* .gitea .forgejo .circleci .travis.yml
	.drone.y*ml .woodpecker* .buildkite .azure-pipelines* .azuredevops .cirrus.y*ml .appveyor.yml .semaphore
	.build.yml .builds .tekton .dependabot .renovaterc* .mergify.yml .codecov.y*ml .coveralls.yml .codeclimate.yml
	.codacy* .sonar* .snyk .fossa.yml .licenserc* .reuse .readthedocs.y*ml .goreleaser.y*ml .spi.yml .firebaserc
	.kamal .metadata .packages .flutter-plugins* .nojekyll .well-known .hidden .template.config .streamlit .storybook
	.openapi-generator

	.cache .*cache .venv .venv-* .venv[0-9]* .virtualenv .mypy_cache .pytest_cache .ruff_cache .hypothesis .pytype .pyre
	.ipynb_checkpoints .virtual_documents .tox .nox .eggs .pybuild .pdm-build .coverage .coverage.* .nyc_output
	.benchmarks .next .nuxt .output .svelte-kit .astro .vite .vitest .vitepress .vuepress .docusaurus .turbo .nx
	.angular .parcel-cache .expo .expo-shared .react-router .react-email .tanstack .vinxi .vercel .netlify .wrangler
	.firebase .open-next .sst .swc .contentlayer .velite .wireit .rsbuild .rslib .rspack* .umi* .deno .pnpm-store
	.pnpm-debug.log* .npm .pnp.cjs .pnp.loader.mjs .tsbuildinfo .gradle .kotlin .konan .attach_pid* .cpcache
	.shadow-cljs .clj-kondo .scala-build .stack-work .dart_tool .pub-cache .pub .build .zig-cache .shards .terraform
	.terraform.lock.hcl .terragrunt-cache .serverless .jekyll-metadata .bundle .deps .libs .cmake .ninja_* .sconsign*
	.lock-waf* .missing-syscalls.d .*.cmd .depend .depends .dep .obj .objs .built .installed .configured .prepared
	.stamps .stamp-* .Makefile.coq.d .*.lock.info .pants.d .pids .lake .dub .spago .hpc .quarto .yardoc .lein-* .eunit
	.scannerwork .testmondata* .report.json .stryker-tmp .playwright-mcp .aws-sam .Rhistory .*_history

	.tmp .tmp* .temp .scratch .trash .Trash* .backup .backups .data .db .dist .out .gen .generated .artifacts
	.reports .test-results .snapshots .state .log .logs .lock .pid .stamp .timestamp .done .DS_Store .localized .nfs*
	.fuse_hidden* .goutputstream-* .merge_file_* .~lock.* .#* ._* .*~ .*.sw[a-px] .*.un~
	.*.{tmp,temp,lock,log,pid,bak,orig,rej,old,backup,stamp,timestamp,done,md,txt,csv}
	.*.*.[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]
	.*.tmp[-._]* .*[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]
` + renamed())

// renamed returns the patterns of what rsync writes and renames to a name without an extension: six
// letters and digits that are no word, since one at least is a capital or a digit.
func renamed() (patterns string) {
	const letter = "[A-Za-z0-9]"
	for i := range 6 {
		patterns += " .*." + strings.Repeat(letter, i) + "[A-Z0-9]" + strings.Repeat(letter, 5-i)
	}
	return patterns
}

// harmlessConfigs is harmlessDots for names in .config.
var harmlessConfigs = []string{"dotnet-tools.json"}

// newDotName is the Source of NewNameRules.
const newDotName = "new names with a dot"

// dotSets are sets of bytes of which each begins one part of all names, after the dot: a rule for
// each of them has less to except. The last one has the bytes that the others lack.
var dotSets = []string{"a-c", "d-g", "h-o", "p-s", "t-z", "!a-z"}

// dotSet returns the index in dotSets of the set with a byte.
func dotSet(c byte) int {
	last := len(dotSets) - 1
	if i := slices.IndexFunc(dotSets[:last], func(set string) bool { return set[0] <= c && c <= set[2] }); i >= 0 {
		return i
	}
	return last
}

// NewNameRules returns the rules, for a directory at or below the root, by which names that begin
// with a dot, and names in .config, are at most Read: a sandbox cannot make them. They leave alone
// what ordinary tools write and nothing on the host executes by itself, and the names that exist:
// dots in dir, which is "." for the root, and configs in its .config. Names for which there is no
// room in a rule are not left alone.
func NewNameRules(dir string, dots, configs []string) (rules []Rule) {
	prefix := "/"
	if dir = strings.Trim(dir, "/"); dir != "." && dir != "" {
		prefix += Quote(dir) + "/"
	}
	rule := Rule{Level: Read, AtMost: true, Priority: PrioritySecret, Source: newDotName}
	excepts := make([]exceptText, len(dotSets))
	for _, pattern := range harmlessDots {
		if pattern[1] != '*' {
			excepts[dotSet(pattern[1])].add(pattern)
			continue
		}
		for i := range excepts {
			excepts[i].add(pattern)
		}
	}
	for _, name := range dots {
		if len(name) > 1 {
			excepts[dotSet(name[1])].addName(name)
		}
	}
	for i, set := range dotSets {
		rule.Pattern, rule.Except = prefix+".["+set+"]*", excepts[i].pattern()
		rules = append(rules, rule)
	}
	var except exceptText
	for _, pattern := range harmlessConfigs {
		except.add(pattern)
	}
	for _, name := range configs {
		except.addName(name)
	}
	rule.Pattern, rule.Except = prefix+".config/*", except.pattern()
	return append(rules, rule)
}

// An exceptText is the pattern of what a rule is not about, as far as there is room.
type exceptText struct {
	text []byte
	n    int // alternatives
}

// add adds a pattern.
func (e *exceptText) add(pattern string) {
	all, err := expand(pattern)
	if err == nil && e.n+len(all) <= maxAlternatives && len(e.text)+len(pattern)+2 < maxPattern {
		e.n += len(all)
		e.text = append(append(e.text, ','), pattern...)
	}
}

// addName adds a name.
func (e *exceptText) addName(name string) {
	if validName(name) {
		e.add(strings.ReplaceAll(Quote(name), ",", `\,`))
	}
}

// pattern returns the pattern of all that was added.
func (e *exceptText) pattern() string {
	text := strings.TrimPrefix(string(e.text), ",")
	if e.n == 1 {
		return text // braces need a comma
	}
	return "{" + text + "}"
}
