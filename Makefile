# nogoo9: `make run` starts everything on this machine, `make test` passes the tests.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
# Where and how `make run` serves; see `nogoo9 up --help`.
ARGS ?=

.PHONY: help
help: ## Show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: deps-build ## Start local mode: API server, kubelet, sign-in, edge and control on this machine
	$(CARGO) build --workspace --bins
	exec target/debug/nogoo9 up $(ARGS)

.PHONY: build
build: deps-build ## Build optimised binaries into target/release
	$(CARGO) build --release --workspace --bins

.PHONY: test
test: deps-test ## Unit, property and black-box tests over real processes, browsers and MCP clients
	$(CARGO) build --workspace --bins
	$(CARGO) test --workspace

.PHONY: lint
lint: deps-build ## Formatting, lints, and who may depend on whom
	$(CARGO) fmt --all --check
	scripts/check-layers.sh
	$(CARGO) clippy --workspace --all-targets -- -D warnings

.PHONY: demo
demo: build ## Upgrade a workspace 20 times under load and print what its users saw
	target/release/nogoo9 demo $(ARGS)

.PHONY: deps-build
deps-build:
	@scripts/deps.sh build

.PHONY: deps-test
deps-test:
	@scripts/deps.sh test
