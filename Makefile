# nogoo9: `make run` starts everything on this machine, `make test` passes the tests.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
# Where and how `make run` serves; see `nogoo9 up --help`.
ARGS ?=
# Folder of the cluster of `make cluster`.
CLUSTER ?= target/cluster
# Binaries that images are made of: release or debug. By default `make image` takes release, and
# `make cluster-test` debug, which are quick to build. `make crash` takes release: it runs more.
PROFILE ?=

.PHONY: help
help: ## Show this help
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

# Which providers `make login` signs in at.
PROVIDERS ?= dev,oidc-provider,zitadel

.PHONY: login
login: deps-login ## Sign in with a browser at three providers in turn: ours, oidc-provider, zitadel/oidc's example
	$(CARGO) build --workspace --bins
	tests/providers/zitadel/build.sh
	NOGOO9_TEST_PROVIDER=$(PROVIDERS) $(CARGO) test --workspace --test login

.PHONY: h2spec
h2spec: deps-go ## The conformance suite for HTTP/2 (h2spec, built with Go) against the proxy, in clear and over TLS
	$(CARGO) build --workspace --bins
	tests/h2spec/build.sh
	NOGOO9_H2SPEC=$(abspath target/h2spec/h2spec) \
	  $(CARGO) test -p nogoo9-proxy --test edge h2spec:: -- --ignored

.PHONY: kill
kill: deps-test ## kill -9 of control at every call of an upgrade, before and after it, with traffic all along
	$(CARGO) build --workspace --bins
	NOGOO9_TEST_KILL=all $(CARGO) test --workspace --test kill

.PHONY: noon
noon: deps-test ## Upgrade 200 workspaces at once, in use, while control is killed; results in target/results/noon
	$(CARGO) build --workspace --bins
	NOGOO9_TEST_NOON=200 $(CARGO) test --workspace --test noon

.PHONY: edge
edge: deps-test ## The edge at full size: 1 GiB each way and thousands of sockets through upgrades
	$(CARGO) build --workspace --bins
	NOGOO9_TEST_EDGE=all $(CARGO) test --workspace --test edge --test smooth --test watch

# How long `make soak` takes, in seconds.
SOAK ?= 1200

.PHONY: soak
soak: deps-test ## 20 minutes of mixed traffic, upgrades and restarts: nothing leaks; results in target/results/soak
	$(CARGO) build --workspace --bins
	NOGOO9_TEST_SOAK=$(SOAK) $(CARGO) test --workspace --test soak

.PHONY: crash
crash: deps-build ## 200,000 crash schedules of the upgrade engine, each from its seed, in 10 minutes at most
	NOGOO9_CRASH_SCHEDULES=200000 NOGOO9_CRASH_SECONDS=$${NOGOO9_CRASH_SECONDS:-600} \
	  $(CARGO) test $(if $(filter debug,$(PROFILE)),,--release) --workspace --test schedules -- --nocapture

# How long `make fuzz` takes over each of its targets.
SECONDS_EACH ?= 60

.PHONY: fuzz
fuzz: deps-build ## Mutated tokens, cookies, headers, heads and key sets for a minute each: no panic, none accepted
	NOGOO9_FUZZ_SECONDS=$(SECONDS_EACH) \
	  $(CARGO) test -p nogoo9-identity --test it fuzz:: -- --nocapture --test-threads=2
	NOGOO9_FUZZ_SECONDS=$(SECONDS_EACH) \
	  $(CARGO) test -p nogoo9-proxy --test edge fuzz:: -- --nocapture

# Python 2.7, which Autobahn's testsuite is written in.
PYTHON2 ?= python2.7

.PHONY: autobahn
autobahn: deps-build ## Autobahn's WebSocket testsuite, directly and through the edge; needs PYTHON2=python2.7 and pip
	test -d target/autobahn/autobahntestsuite || \
	  $(PYTHON2) -m pip install --target target/autobahn autobahntestsuite==0.8.2
	touch target/autobahn/zope/__init__.py
	NOGOO9_TEST_AUTOBAHN=$(abspath target/autobahn) NOGOO9_TEST_PYTHON2=$(PYTHON2) \
	  $(CARGO) test -p nogoo9-proxy --test edge autobahn:: -- --nocapture

.PHONY: lint
lint: deps-build deps-lint ## Formatting, lints, and who may depend on whom
	$(CARGO) fmt --all --check
	scripts/check-layers.sh
	shellcheck -x $$(git ls-files '*.sh') .ci/run
	scripts/ui.sh check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

.PHONY: image
image: deps-build ## Pack the binaries into images in target/image, without a registry or a daemon
	PROFILE=$(or $(PROFILE),release) scripts/image.sh

.PHONY: demo
demo: build ## Upgrade workspaces under load, one by one and at once, and print what users saw
	target/release/nogoo9 demo $(ARGS)

.PHONY: bench
bench: build ## Measure what users see during upgrades and what calls cost; write benches/REPORT.md
	rm -rf target/bench
	NOGOO9_TEST_EDGE=all $(CARGO) test --release --workspace --test smooth -- hostile
	CRITERION_HOME=$(abspath target/bench/micro) $(CARGO) bench -p nogoo9-benches --bench micro
	target/release/nogoo9-bench --micro target/bench/micro --neighbour target/results/neighbour/table.md $(ARGS)

.PHONY: bench-micro
bench-micro: deps-build ## The micro-benchmarks alone, compared with their last run
	$(CARGO) bench -p nogoo9-benches --bench micro $(if $(ARGS),-- $(ARGS))

.PHONY: cluster
cluster: deps-cluster ## A real Kubernetes with two nodes on this machine, of built parts (root; see tests/cluster)
	tests/cluster/up.sh $(CLUSTER)
	@echo "export KUBECONFIG=$(abspath $(CLUSTER))/admin.kubeconfig"

.PHONY: cluster-down
cluster-down: ## Take it down again
	tests/cluster/down.sh $(CLUSTER)

.PHONY: cluster-test
cluster-test: deps-test deps-cluster ## Install chart and image on such a cluster as README says, and pass the suites there
	PROFILE=$(PROFILE) tests/cluster/test.sh

.PHONY: ui
ui: ## Build the console, if it changed
	@scripts/ui.sh

.PHONY: deps-build
deps-build:
	@scripts/deps.sh build
	@scripts/ui.sh

.PHONY: deps-lint
deps-lint:
	@scripts/deps.sh lint
	@scripts/ui.sh

.PHONY: deps-test
deps-test:
	@scripts/deps.sh test
	@scripts/ui.sh

.PHONY: deps-go
deps-go:
	@scripts/deps.sh go
	@scripts/ui.sh

.PHONY: deps-login
deps-login:
	@scripts/deps.sh login
	@scripts/ui.sh

.PHONY: deps-cluster
deps-cluster:
	@scripts/deps.sh cluster
