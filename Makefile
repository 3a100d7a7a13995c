# Targets do their own set-up. They need Go, make, git and a network for packages; `make test` also fetches python3-venv
# and strace with apt-get where they are missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
T ?= 30s
CLIENT ?=
ONLY ?=
RUNS ?=
SEED ?=
PIKA := 1.3.2
VENV := bin/venv

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: build
build: ## build bin/understudy
	$(GO) build -o bin/understudy ./cmd/understudy

.PHONY: run
run: build ## a node on port 5672 with its data in ./understudy-data
	exec bin/understudy serve

.PHONY: lint
lint: ## format, vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: check
check: lint ## the fast loop: lint and the tests beside the code
	$(GO) run ./cmd/internal/tidy/runtests -timeout 3m $$($(GO) list ./... | grep -v /interop)

.PHONY: test
test: lint clients ## everything that CI runs; a skipped test fails it
	$(GO) run ./cmd/internal/tidy/runtests -timeout 12m ./...

.PHONY: race
race: ## the tests beside the code under the race detector
	$(GO) test -race -timeout 20m $$($(GO) list ./... | grep -v /interop)

.PHONY: fuzz
fuzz: ## every fuzz target for T (default 30s) each
	@grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do \
	  for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]*' "$$file" | cut -d' ' -f2); do \
	    echo "== $$file $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(T) "$$(dirname "$$file")"; \
	  done; \
	done

# What the black-box tests need beside Go.
.PHONY: clients
clients: $(VENV)/pika-$(PIKA)
	@command -v strace >/dev/null || $(MAKE) --no-print-directory apt PACKAGES=strace

$(VENV)/pika-$(PIKA):
	@python3 -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory apt PACKAGES="python3 python3-venv"
	rm -rf $(VENV)
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check pika==$(PIKA)
	touch $@

.PHONY: apt
apt:
	@as=; if [ "$$(id -u)" != 0 ]; then as=sudo; fi; \
	$$as apt-get update -q && DEBIAN_FRONTEND=noninteractive $$as apt-get install -qy --no-install-recommends $(PACKAGES)
