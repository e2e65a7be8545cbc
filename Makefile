# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later

.DEFAULT_GOAL := help
.PHONY: help setup debian core219 lint unit integration molecule test e2e nightly demo \
	testbed-up testbed-down testbed-status fast_path_proof.py clean
MAKEFLAGS += --no-print-directory
PYTHON := .venv/bin/python
BENCHMARKS := $(patsubst tests/benchmarks/%.py,bench-%,$(wildcard tests/benchmarks/*.py))

help: ## this list
	@sed -n 's/^\([a-z0-9._-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 30
	@for name in $(BENCHMARKS); do echo "  make $$name"; done

setup: ## the pinned tools in .venv (a second run is instant)
	@tools/setup.sh python

core219: setup
	@tools/setup.sh core219

debian: ## the Debian packages that the testbed needs
	@tools/setup.sh debian

demo: setup debian ## provision container 200 of a node in a box, for real (5 minutes, and downloads)
	@tools/demo.sh

test: setup core219 debian ## everything below but e2e, counted
	@$(PYTHON) tools/stages.py lint unit integration molecule

lint: setup ## ruff, mypy, ansible-lint, ansible-test sanity, roles' arguments, licences
	@$(PYTHON) tools/stages.py lint

unit: setup core219 ## unit tests on ansible-core 2.21 and 2.19
	@$(PYTHON) tools/stages.py unit

integration: setup debian ## tests on the node in a box
	@$(PYTHON) tools/stages.py integration

molecule: setup debian ## molecule scenarios on the node in a box
	@$(PYTHON) tools/stages.py molecule

e2e: setup debian ## the whole chain with the long builds
	@$(PYTHON) tools/stages.py e2e

nightly: setup ## try the newest transformers, whatever it is today
	@$(PYTHON) tools/stages.py nightly

fast_path_proof.py: setup ## the proof of a fast path as one file, to run anywhere: build/fast_path_proof.py
	@$(PYTHON) tools/fast_path_proof.py build/fast_path_proof.py

testbed-up: setup debian ## start the node in a box
	@$(PYTHON) -m testbed up

testbed-down: setup ## remove the node in a box
	@$(PYTHON) -m testbed down

testbed-status: setup ## what the node in a box is doing
	@$(PYTHON) -m testbed status

bench-%: setup debian
	@$(PYTHON) tests/benchmarks/$*.py $(ARGUMENTS)

clean: ## remove what was made here (the testbed first)
	@if [ -x $(PYTHON) ]; then for name in box tests; do TESTBED_NAME=$$name $(PYTHON) -m testbed down; done; fi
	rm -rf .venv .venv-core219 build
