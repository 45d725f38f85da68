# Every target does its own set-up: on a fresh machine `make test` needs python3 (3.11 or newer), make and a package index.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench claims clean

PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench/bin
PIP := -m pip install -qq --disable-pip-version-check

help:  ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/.stamp  ## train an MLP on MNIST-1D and leave a run folder with its report
	$(BIN)/leadline train mnist1d --model MLP --hidden 100 100

test: lint types  ## everything that must hold before a change is taken: lint, types, all quick tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/.stamp  ## style, formatting, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/.stamp  ## the type checker over the package
	$(BIN)/python -m mypy

bench: .venv-bench/.stamp  ## Leadline beside its peers on this machine's CPU, as ratios
	$(BENCH)/python -m benchmarks.mlp

claims: .venv/.stamp  ## every claim at its full setting: figures in claims/, and the ledger (many minutes)
	$(BIN)/leadline claims --all --full --folder claims --log src/leadline/claims/LOG.md

clean:  ## remove the environments and every cache
	rm -rf .venv .venv-bench .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# The build tools come from the constraints too, and building without isolation keeps pip from resolving any of this
# a second time outside of them.
.venv/.stamp: pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a few minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Leadline needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) -c constraints.txt hatchling editables
	@$(BIN)/python $(PIP) -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

.venv-bench/.stamp: pyproject.toml constraints.txt benchmarks/requirements.txt
	@echo "Setting up .venv-bench (once; a few minutes)"
	@$(PYTHON) -m venv .venv-bench
	@$(BENCH)/python $(PIP) -c constraints.txt hatchling editables
	@$(BENCH)/python $(PIP) -c constraints.txt --no-build-isolation -e . -r benchmarks/requirements.txt
	@touch $@
