# Targets do their own set-up. They need Go, make, git and a network for packages; those that drive other clients fetch
# with apt-get what NEEDS says, where it is missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
T ?= 30s
CLIENT ?=
ONLY ?=
RUNS ?=
SEED ?=
PACKAGES := $(GO) list ./...

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: build
build: ## build bin/understudy
	$(GO) build -o bin/understudy ./cmd/understudy

.PHONY: run
run: build ## a node on port 5672 with its data in ./understudy-data
	exec bin/understudy serve

.PHONY: demo
demo: build ## the whole story on this machine: a cluster dies, its standby takes over, a session goes on
	bin/understudy demo

.PHONY: lint
lint: ## format, vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) vet -tags powerloss ./cmd/understudy
	$(GO) tool staticcheck -tags powerloss ./cmd/understudy
	$(GO) vet -tags interop ./interop/...
	$(GO) tool staticcheck -tags interop ./interop/...

.PHONY: check
check: lint ## the fast loop: lint and the tests beside the code
	$(GO) run ./cmd/internal/tidy/runtests -timeout 3m $$($(PACKAGES) | grep -v /interop)

# Black-box tests run one package at a time: they share the machine's disk and two cores with the nodes that they start.
.PHONY: test
test: lint clients ## everything that CI runs; a skipped test fails it
	$(GO) run ./cmd/internal/tidy/runtests -timeout 12m $$($(PACKAGES) | grep -v /interop)
	$(GO) run ./cmd/internal/tidy/runtests -timeout 15m -p 1 ./interop/...

.PHONY: race
race: ## the tests beside the code under the race detector
	$(GO) test -race -timeout 20m $$($(PACKAGES) | grep -v /interop)

.PHONY: fuzz
fuzz: ## every fuzz target for T (default 30s) each
	@grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do \
	  for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]*' "$$file" | cut -d' ' -f2); do \
	    echo "== $$file $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(T) "$$(dirname "$$file")"; \
	  done; \
	done

# Client families under interop/ that `make test` runs too, and those that need more of a machine.
QUICK := amqp091go pika amqplib
MORE := java aiopika kombu php bunny librabbitmq lapin tools differential

.PHONY: interop
interop: ## real clients against one node and against three; CLIENT=name for one of them; of CLIENT=differential RUNS=n SEED=n
	@$(MAKE) --no-print-directory clients FOR="$(or $(CLIENT),$(QUICK) $(MORE))"
	$(GO) test -tags interop -count=1 -p 1 -timeout 20m -v $(patsubst %,./interop/%,$(or $(CLIENT),$(QUICK) $(MORE))) \
	  $(if $(filter differential,$(CLIENT)),-args $(if $(RUNS),-runs=$(RUNS)) $(if $(SEED),-seed=$(SEED)))

.PHONY: failover
failover: clients ## three nodes under load, one fault a round, cut sessions, standbys; ONLY=fault, cuts, helper, helper-standby, return, nodes, planned, crash, crash-cut or sync; RUNS=n SEED=n
ifeq ($(filter $(ONLY),cuts helper helper-standby return nodes planned crash crash-cut sync),)
	$(GO) test ./interop/failover -count=1 -timeout 40m -v -args -long \
	  $(if $(ONLY),-only=$(ONLY)) $(if $(RUNS),-runs=$(RUNS)) $(if $(SEED),-seed=$(SEED))
endif
ifneq ($(filter $(or $(ONLY),cuts),cuts),)
	$(GO) test ./interop/sessions -run TestACutConversation -count=1 -timeout 40m -v -args -long $(if $(SEED),-seed=$(SEED))
endif
ifneq ($(filter $(or $(ONLY),helper),helper),)
	$(GO) test ./interop/sessions -run TestHelperPublishes -count=1 -timeout 40m -v -args -long $(if $(SEED),-seed=$(SEED))
endif
ifneq ($(filter $(or $(ONLY),helper-standby),helper-standby),)
	$(GO) test ./interop/sessions -run TestHelperLoses -count=1 -timeout 40m -v -args -long $(if $(SEED),-seed=$(SEED))
endif
ifneq ($(filter $(or $(ONLY),return),return),)
	$(GO) test ./interop/sessions -run TestHelperGoes -count=1 -timeout 40m -v -args -long $(if $(SEED),-seed=$(SEED))
endif
ifneq ($(filter $(or $(ONLY),nodes),nodes),)
	$(GO) test ./interop/sessions -run WhatBecomesOfItsNode -count=1 -timeout 40m -v -args -long $(if $(SEED),-seed=$(SEED))
endif
ifneq ($(filter planned crash crash-cut sync,$(or $(ONLY),planned)),)
	$(GO) test ./interop/standby -run TakesOver -count=1 -timeout 40m -v -args -long \
	  $(if $(ONLY),-only=$(ONLY)) $(if $(RUNS),-runs=$(RUNS)) $(if $(SEED),-seed=$(SEED))
endif

.PHONY: long
long: ## backlog, reclamation, catching up and member replacement at full size
	$(GO) test ./interop/long -count=1 -timeout 40m -v -args -long

.PHONY: bench
bench: ## what the broker spends per message
	$(GO) test ./interop/bench -count=1 -timeout 40m -v -args -measure

# What the black-box tests need beside Go, by client family: a command or a file, and the Debian package that brings it.
FOR ?= $(QUICK)
NEEDS_all := strace:strace
NEEDS_pika := python3:python3 ensurepip:python3-venv
NEEDS_amqplib := node:nodejs npm:npm
NEEDS_aiopika := $(NEEDS_pika)
NEEDS_kombu := $(NEEDS_pika)
NEEDS_php := php:php-cli /usr/share/php/PhpAmqpLib/autoload.php:php-amqplib
NEEDS_bunny := ruby:ruby /usr/share/doc/ruby-bunny:ruby-bunny
NEEDS_librabbitmq := gcc:gcc /usr/include/stdio.h:libc6-dev /usr/include/amqp.h:librabbitmq-dev
# Debian's own cargo is too old for lapin; the one that it builds browsers with is not.
NEEDS_lapin := cargo:cargo-web
NEEDS_java := javac:default-jdk-headless mvn:maven
NEEDS_differential := /usr/lib/rabbitmq:rabbitmq-server
NEEDS_tools := rabbitmqadmin:rabbitmq-server /usr/lib/rabbitmq:rabbitmq-server python3:python3 java:default-jre-headless mvn:maven

.PHONY: clients
clients:
	@missing=; \
	for need in $(NEEDS_all) $(foreach family,$(FOR),$(NEEDS_$(family))); do \
	  what=$${need%%:*}; \
	  case $$what in \
	    /*) [ -e $$what ] ;; \
	    ensurepip) python3 -c 'import ensurepip, venv' 2>/dev/null ;; \
	    *) command -v $$what >/dev/null ;; \
	  esac || missing="$$missing $${need##*:}"; \
	done; \
	if [ -n "$$missing" ]; then $(MAKE) --no-print-directory apt APT="$$missing"; fi

.PHONY: apt
apt:
	@as=; if [ "$$(id -u)" != 0 ]; then as=sudo; fi; \
	$$as apt-get -o Acquire::Retries=3 update -q && DEBIAN_FRONTEND=noninteractive $$as apt-get -o Acquire::Retries=3 install -qy --no-install-recommends $(APT)
