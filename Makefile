# Every target makes and reuses .venv; what a fresh machine needs is python3, make and the network.

PYTHON ?= python3
# More than there are cores: tests often wait for the control plane.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 3)')
ARGS ?=
BASE ?= HEAD
SEED ?= 1
MINUTES ?= 10
# The image, what it is built from (a tag gets its digest), and the program that builds it.
IMAGE ?= gpu-admission:0.2.0
BASE_IMAGE ?= python:3.11.14-slim-bookworm
DOCKER ?= docker
PICTURES_KEPT := small-overview-1280-light.png small-overview-1280-dark.png small-overview-360-light.png \
  small-gpus-1280-light.png small-gpus-a100-1-1280-light.png small-queues-speech-1280-light.png \
  small-namespaces-speech-1280-light.png empty-overview-1280-light.png hostile-overview-1280-light.png \
  large-overview-1920-light.png large-gpus-group-1280-dark.png
KREW_URL ?= https://downloads.example.com
RELEASE_URL ?= https://downloads.example.com
RELEASE_SOURCE ?=

VENV := .venv
# Packages of the program alone: a third of those that tests need.
RUNTIME := build/demo
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
COMPILE := $(BIN)/uv pip compile --quiet --universal --no-emit-index-url --generate-hashes

define CHECK_PYTHON
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo 'make: $(PYTHON) is not Python 3.11 or newer; install one and run make PYTHON=/path/to/it' >&2; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
  echo 'make: $(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv' >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-again test-changed test-nightly test-fast lint docs reference bench chaos fuzz interop upgrade crds manifests controlplane browser lock clean image krew release alerts mutants matrix planted pictures

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## watch GPU pods being admitted: a cluster in memory, no Kubernetes needed (ARGS=--keep)
	@test -e $(READY) || $(MAKE) --no-print-directory $(RUNTIME)/.ready
	@if test -e $(READY); then $(BIN)/gpu-admission demo $(ARGS); \
	  else PYTHONPATH=$(CURDIR) $(RUNTIME)/bin/python -m admission demo $(ARGS); fi

test: $(READY) controlplane browser ## run the tests of a landing, against a real control plane too (ARGS for pytest)
	$(PYTEST) $(ARGS)

test-again: $(READY) ## run the few tests that failed in the last run five times more
	$(BIN)/python -m tests.repeat

test-changed: $(READY) ## run the tests closest to what changed, without a control plane (BASE=HEAD)
	$(BIN)/python -m tests.changed --base $(BASE) | xargs -r $(BIN)/pytest -n0 --no-controlplane

test-nightly: $(READY) controlplane browser ## run everything in other orders and beside busy loops: hours
	$(BIN)/python -m tests.nightly --workers $(WORKERS) $(ARGS)

test-fast: $(READY) browser ## run the tests that need no control plane (ARGS for pytest)
	$(PYTEST) --no-controlplane $(ARGS)

lint: $(READY) ## check style, format, types, the layers of the packages and the site of the guides
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --quiet --strict

docs: $(READY) ## make the site of the guides in build/site
	$(BIN)/mkdocs build --quiet --strict
	@echo build/site/index.html

reference: $(READY) ## write the pages of docs/reference from the code
	$(BIN)/python -m tests.guides.reference

bench: $(READY) controlplane ## measure throughput and latency on a real API server (ARGS=--json)
	$(BIN)/python -m tests.bench $(ARGS)

chaos: $(READY) controlplane ## rage over a whole cluster and judge quota from outside (SEED=1 MINUTES=10 ARGS=--json)
	$(BIN)/python -m tests.chaos.storm --seed $(SEED) --minutes $(MINUTES) $(ARGS)

planted: $(READY) controlplane ## plant faults and show which of them a storm finds (ARGS="--only NAME --minutes 2")
	$(BIN)/python -m tests.chaos.planted $(ARGS)

fuzz: $(READY) ## draw new examples for reviews, conversions and all laws (ARGS for pytest)
	$(BIN)/pytest -n $(WORKERS) --no-controlplane --hypothesis-profile=search tests/webhook/test_fuzz.py \
	  tests/objects tests/properties tests/gpu tests/base $(ARGS)

interop: $(READY) controlplane ## run the real operators of other frameworks (ARGS="--only JobSet" or --record)
	$(BIN)/python -m tests.interop $(ARGS)

upgrade: $(READY) controlplane ## upgrade from the version before under load, and go back (needs the git history)
	$(BIN)/python -m tests.upgrade

alerts: $(READY) controlplane ## compile Prometheus if needed and test alerts and boards with it
	$(BIN)/python -m tests.observability.programs
	$(BIN)/pytest -n0 tests/observability $(ARGS)
	$(BIN)/python -m tests.chaos.storm --seed 16 --minutes 1 --alerts

mutants: $(READY) ## plant small faults and show which no test notices (ARGS="--package gpu --sample 40 --seed 1")
	$(BIN)/python -m tests.mutants $(ARGS)

crds: $(READY) ## write the CustomResourceDefinitions of admission.objects to crds/
	$(BIN)/python -m admission.objects.crds --out crds

manifests: $(READY) ## write deploy/base and deploy/chart, and what is made in deploy/observability
	$(BIN)/python -m tests.observability.files
	$(BIN)/gpu-admission manifests --out deploy/base --chart deploy/chart

image: ## build the image (IMAGE=REGISTRY/gpu-admission:TAG; DOCKER=podman with BASE_IMAGE=NAME@sha256:DIGEST)
	@base='$(BASE_IMAGE)'; \
	case "$$base" in *@sha256:*) ;; *) \
	  digest=$$($(DOCKER) buildx imagetools inspect "$$base" --format '{{.Manifest.Digest}}') || { \
	    echo "make: $(DOCKER) does not say which digest $$base has; pass BASE_IMAGE=NAME@sha256:DIGEST" >&2; exit 1; }; \
	  base="$$base@$$digest";; esac; \
	$(DOCKER) build -f deploy/Dockerfile -t '$(IMAGE)' --build-arg BASE="$$base" .
	@echo 'next: $(DOCKER) push $(IMAGE), then gpu-admission install --image $(IMAGE)'

krew: $(READY) ## pack kubectl gpu for krew in build/krew (KREW_URL: where the archives will be)
	$(BIN)/python -m deploy.krew.pack --url $(KREW_URL)

release: $(READY) ## build all that people download in build/release, equal for equal commits (RELEASE_URL)
	$(BIN)/python -m deploy.release --url $(RELEASE_URL) --source '$(RELEASE_SOURCE)'

matrix: $(READY) ## run contract, integration tests and a storm on each Kubernetes version (ARGS="--version 1.35")
	$(BIN)/python -m tests.matrix --workers $(WORKERS) $(ARGS)

controlplane: ## compile the control plane for tests if needed; the last line is its folder
	@$(PYTHON) -m tests.controlplane.build

pictures: $(READY) browser ## draw the pages of the dashboard into docs/pictures
	PICTURES=$(CURDIR)/build/pictures $(BIN)/pytest -q -n0 tests/serve/test_layout.py -k scene
	mkdir -p docs/pictures
	cd build/pictures && cp $(PICTURES_KEPT) $(CURDIR)/docs/pictures

browser: ## install Chromium for tests of pages if needed (Debian, as root); the last line is its path
	@$(PYTHON) -m tests.browser.install

lock: $(READY) ## pin the newest allowed packages in requirements.lock
	$(COMPILE) --upgrade --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --upgrade --constraint requirements.lock --excludes deploy/excludes.in pyproject.toml -o deploy/requirements.lock
	$(COMPILE) --upgrade --constraint requirements.lock deploy/build.in -o deploy/build.lock
	$(COMPILE) --upgrade --constraint requirements.lock deploy/krew/requirements.in -o deploy/krew/requirements.lock
	$(COMPILE) --upgrade tests/controlplane/toolchain.in -o tests/controlplane/toolchain.lock

clean: ## remove .venv and caches; the compiled control plane stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME)/.ready: deploy/requirements.lock
	@$(CHECK_PYTHON)
	@test -x $(RUNTIME)/bin/pip || $(PYTHON) -m venv --clear $(RUNTIME)
	@echo 'make: installing the packages of deploy/requirements.lock into $(RUNTIME)' >&2
	@$(RUNTIME)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/requirements.lock
	@touch $@

$(READY): requirements.lock pyproject.toml
	@$(CHECK_PYTHON)
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@echo 'make: installing the packages of requirements.lock into $(VENV)' >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
