# Everything here works on a fresh machine with Go, make and root or sudo.
# What is built goes to bin/ and .cache/ of the checkout; gVisor to ~/.cache/wolffia.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN     := bin
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools.mod
# Pure Go: the guest must be static, and the tree server drops capabilities on
# all threads, which needs a program without cgo.
export CGO_ENABLED ?= 0
export GOTOOLCHAIN ?= local

.PHONY: help build runsc setup run test test-user test-root lint bare soak fuzz bench cover clean

help: ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

build: ## build bin/wolffia, and the programs that belong beside it
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags='$(LDFLAGS)' -o $(BIN)/ ./cmd/wolffia ./cmd/wolffia-guest ./cmd/wolffia-image ./cmd/wolffia-docker

runsc: ## build the pinned gVisor for --runtime gvisor, into ~/.cache/wolffia
	@scripts/runsc

setup: ## install what the host lacks to run sandboxes (bubblewrap), as root or with sudo
	@scripts/setup run

run: setup build ## set up, build, and show the main job on this checkout
	@scripts/demo

test: ## set up and run every test: the linters, as an unprivileged user, and as root; in CI make bare too
	@scripts/setup test
	@$(MAKE) --no-print-directory lint
	@scripts/test
	@[ -z "$$CI" ] || scripts/bare

bare: ## try the set-up where nothing is installed: in a bare root of this host's distribution, as root
	@scripts/bare

lint: ## check form: gofumpt, vet, staticcheck, go.mod
	@out=$$($(TOOL) gofumpt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
		[ -z "$$out" ] || { echo "not gofumpt-ed: $$out" >&2; exit 1; }
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) mod tidy -diff

soak: ## kill everybody at every step of everything, for ROUNDS (default all there are, some 1500)
	@scripts/setup test
	@scripts/soak $(ROUNDS)

fuzz: ## fuzz each target for FUZZTIME (default 30s)
	@scripts/fuzz $${FUZZTIME:-30s}

bench: build runsc ## measure, with peers beside us in the same run
	@scripts/bench

cover: ## coverage of the unit tests
	$(GO) test -coverprofile=.cache/cover.out ./... && $(GO) tool cover -func=.cache/cover.out | tail -1

clean: ## delete what was built
	rm -rf $(BIN) .cache
