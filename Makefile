# Each target does its own set-up in .venv and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml
TEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-slow lint format bench build clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.base: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip maturin
	@touch $@

$(VENV)/.core: $(VENV)/.base $(CORE_SOURCES)
	@. $(BIN)/activate && maturin develop --release --quiet
	@touch $@

$(VENV)/.test: $(VENV)/.core pyproject.toml
	@$(BIN)/python -m pip install --quiet --group test
	@touch $@

build: $(VENV)/.core  ## Build the Rust core and install the package into .venv.

quickstart: $(VENV)/.core  ## Train, prepare, open and report on the bundled sample.
	@$(BIN)/tokenmill quickstart --output quickstart

test: $(VENV)/.test  ## Run the tests of both languages.
	@cargo test --quiet --release -p tokenmill-core
	@$(BIN)/python -m pytest -m "not slow and not deep" $(TEST_ARGS)

test-slow: $(VENV)/.test  ## Run the minutes-long tests too.
	@HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -m "not deep" $(TEST_ARGS)

test-deep: miri asan fuzz aarch64 campaign  ## All of the five below: hours.

campaign: $(VENV)/.test  ## Kills, faults, rot, hostile files, ranks and load; one table at the end.
	@HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest tests/deep -m deep $(TEST_ARGS)

lint: $(VENV)/.test  ## Check style, types and stubs; change nothing.
	@cargo fmt --all --check
	@cargo clippy --quiet --all-targets -- -D warnings
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m mypy.stubtest tokenmill._core

format: $(VENV)/.test  ## Format both languages.
	@cargo fmt --all
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet . || true

$(VENV)/.bench: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --group bench
	@touch $@

bench: $(VENV)/.bench  ## Run every benchmark beside its peers and print the ratios.
	@$(BIN)/python benchmarks/run.py --charts docs/images

clean:  ## Remove what the targets above made.
	@rm -rf $(VENV) .venv-torch target quickstart outputs
