# Everything here works on a fresh machine with Go, make and root or sudo.
# What is built goes to bin/ and .cache/ of the checkout; gVisor to ~/.cache/wolffia.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PREFIX  ?= /usr/local
export GO VERSION PREFIX DESTDIR
BIN     := bin
TOOL    := $(GO) tool -modfile=tools.mod
# Pure Go: the guest must be static, and the tree server drops capabilities on
# all threads, which needs a program without cgo.
export CGO_ENABLED ?= 0
export GOTOOLCHAIN ?= local

.PHONY: help build install uninstall dist runsc kube guest-image service-image chart setup run check test soak lint bare arm64 fuzz bench cover clean

help: ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

build: .cache/share ## build bin/wolffia, one file that carries the programs it needs
	@scripts/build $(BIN)/wolffia

.cache/share: $(wildcard cmd/wolffia/*.go cmd/wolffia/internal/*/*.go)
	@scripts/share $@
	@touch $@

install: ## install what build has built: wolffia, its manual pages and completions below PREFIX (default /usr/local), in DESTDIR
	@[ -e $(BIN)/wolffia ] || $(MAKE) --no-print-directory build
	@scripts/install $(BIN)/wolffia

uninstall: ## remove what install has installed
	@scripts/install --remove

dist: ## make what is released, in dist/: tarballs, .deb, .rpm, packages for npm, install.sh, checksums, for amd64 and arm64; signed with the key of WOLFFIA_SIGN_KEY
	@scripts/dist

runsc: ## build the pinned gVisor for --runtime gvisor, into ~/.cache/wolffia
	@scripts/runsc

kube: ## build the pinned Kubernetes for the tests of --runtime kubernetes, into ~/.cache/wolffia
	@scripts/kube

guest-image: build ## write bin/wolffia-guest.tar, the image with the guest for --runtime kubernetes, as docker save does
	@scripts/kube guest $(BIN)/wolffia-guest.tar

service-image: build ## write bin/wolffia-service.tar, the image with wolffia serve for a cluster
	@scripts/kube service $(BIN)/wolffia-service.tar

chart: ## write packaging/kubernetes.yaml from the chart in packaging/helm
	@scripts/chart

setup: ## install what the host lacks to run sandboxes (bubblewrap), as root or with sudo
	@scripts/setup run

run: setup build ## set up, build, and show the main job: wolffia tour
	@scripts/demo

check: lint ## a minute: the linters, the pure packages, sandboxes with bubblewrap, the command line; installs nothing
	@scripts/test check

test: ## install what the tests lack (it says what; SETUP=none: nothing), and run every test: as an unprivileged user, and as root what differs; in CI make bare too
	@scripts/setup test
	@$(MAKE) --no-print-directory lint
	@scripts/test
	@[ -z "$$CI" ] || { scripts/bare && scripts/recipes git; }

soak: ## hours: every test with all its cases, with the race detector, with programs that have it, as root; all ROUNDS of the crash tests; each fuzz target for FUZZTIME; the release; the arm64 build
	@scripts/setup soak
	@$(MAKE) --no-print-directory lint
	@[ "$$(id -u)" != 0 ] || scripts/kube >/dev/null
	@scripts/test soak
	@scripts/bwraps
	@scripts/chart --check
	@scripts/fuzz $${FUZZTIME:-30s}
	@scripts/release
	@scripts/arm64
	@scripts/vm
	@scripts/recipes
	@WOLFFIA_BARE_SUITE=trixie scripts/bare
	@$(MAKE) --no-print-directory build runsc && scripts/root

arm64: ## try the arm64 build: pure tests by qemu-user, the main job in a virtual machine
	@scripts/arm64

bare: ## try the set-up where nothing is installed: in a bare root of this host's distribution, as root
	@scripts/bare

lint: ## check form: gofumpt, spelling, vet, staticcheck, workflows, go.mod; and known vulnerabilities, where their database can be reached
	@out=$$($(TOOL) gofumpt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
		[ -z "$$out" ] || { echo "not gofumpt-ed: $$out" >&2; exit 1; }
	@$(TOOL) misspell -error -i netwrok,somtimes,exportfs $$(git ls-files --cached --others --exclude-standard '*.go' '*.md' '*.txtar' scripts Makefile)
	$(GO) vet ./...
	$(GO) vet -tags generate ./cmd/wolffia
	$(GO) vet -tags small ./cmd/wolffia/...
	$(TOOL) staticcheck ./...
	@$(TOOL) actionlint .github/workflows/*.yml
	$(GO) mod tidy -diff
	@scripts/vuln

fuzz: ## fuzz each target for FUZZTIME (default 30s)
	@scripts/fuzz $${FUZZTIME:-30s}

bench: build runsc ## measure, with peers beside us in the same run
	-@scripts/setup bench
	@scripts/bench

cover: ## coverage of the unit tests
	@mkdir -p .cache
	$(GO) test -coverprofile=.cache/cover.out ./... && $(GO) tool cover -func=.cache/cover.out | tail -1

clean: ## delete what was built
	rm -rf $(BIN) .cache dist
