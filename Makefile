# Each target does its own set-up in .venv and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
CORE_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml
TEST_ARGS ?=
DOCS_VERSION ?= $(shell sed -n 's/^version = "\([0-9]*\.[0-9]*\).*/\1/p' Cargo.toml | head -1)
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := scan json_lines csv tokenizer_files utf8
WHEEL_TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
OTHER_SYSTEMS := x86_64-pc-windows-gnu aarch64-apple-darwin x86_64-apple-darwin aarch64-unknown-linux-gnu
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

.DEFAULT_GOAL := help
.PHONY: help quickstart browser budget test test-all test-slow test-oldest test-deep campaign miri asan fuzz aarch64 lint workflows other-systems \
  format bench bench-families bench-quick docs docs-version wheel wheels try-wheel try-sdist try-aarch64 image release-check release-tag build clean

help:  ## Show this list.
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.base: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip maturin
	@touch $@

$(VENV)/.core: $(VENV)/.base $(CORE_SOURCES)
	@rm -f python/tokenmill/_core.*.so  # one built for another Python would be loaded first
	@. $(BIN)/activate && PIP_QUIET=1 maturin develop --release --quiet
	@touch $@

$(VENV)/.test: $(VENV)/.core pyproject.toml
	@$(BIN)/python -m pip install --quiet --group test
	@touch $@

build: $(VENV)/.core  ## Build the Rust core and install the package into .venv.

quickstart: $(VENV)/.core  ## Train, prepare, open and report on the bundled sample.
	@$(BIN)/tokenmill quickstart --output quickstart

# Optimizing each of the core's test programs at link time took most of the time of building them.
test: $(VENV)/.test  ## Run the tests of both languages that need no browser, cluster or trainer.
	@CARGO_PROFILE_RELEASE_LTO=off cargo test --quiet --release -p tokenmill-core
	@$(BIN)/python -m compileall -q python/tokenmill  # hundreds of commands are started: 0.1 to 0.2 s less for each
	@$(BIN)/python -m pytest -n auto -m "not slow and not deep and not full" $(TEST_ARGS)

test-all: $(VENV)/.test  ## Run these and the tests with Ray, a browser, trainers and the docs.
	@CARGO_PROFILE_RELEASE_LTO=off cargo test --quiet --release -p tokenmill-core
	@$(BIN)/python -m compileall -q python/tokenmill
	@$(BIN)/python -m pytest -n auto -m "not slow and not deep" $(TEST_ARGS)

budget:  ## Print the lines of each package beside its ceiling, and fail above one.
	@$(PYTHON) packaging/budget.py

browser:  ## Install the browser that the tests of the playground use.
	@command -v chromium >/dev/null || (sudo apt-get update -qq && sudo apt-get install -y -qq chromium)

test-slow: $(VENV)/.test  ## Run the minutes-long tests too.
	@HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -m "not deep" $(TEST_ARGS)

$(VENV)-oldest/.test: pyproject.toml $(CORE_SOURCES)
	@test -x $(VENV)-oldest/bin/python || $(PYTHON) -m venv $(VENV)-oldest
	@$(VENV)-oldest/bin/python -m pip install --quiet --upgrade pip uv maturin
	@$(VENV)-oldest/bin/uv pip compile --quiet pyproject.toml --resolution lowest-direct --output-file $(VENV)-oldest/oldest.txt
	@. $(VENV)-oldest/bin/activate && uv pip install --quiet --constraint $(VENV)-oldest/oldest.txt --group test && \
	  uv pip install --quiet --requirement $(VENV)-oldest/oldest.txt && maturin develop --release --quiet
	@touch $@

test-oldest: $(VENV)-oldest/.test  ## Run the Python tests with the oldest dependencies that are allowed.
	@$(VENV)-oldest/bin/python -m pytest -m "not slow and not deep" $(TEST_ARGS)

test-deep: miri asan fuzz aarch64 campaign  ## Run the five below: hours.

campaign: $(VENV)/.test  ## Kill, fault, corrupt, fuzz and load the product; one table at the end.
	@$(BIN)/python -m pytest tests/deep tests/integration/test_ranks.py -m deep $(TEST_ARGS)

# Miri has the CPU features that the code is compiled with: it runs the AVX2 conversion to UTF-8, but no vector scanner.
miri:  ## Run all of the core's unsafe code in Miri, on small inputs.
	@rustup toolchain install nightly --profile minimal --component miri --component rust-src >/dev/null 2>&1
	@MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p tokenmill-core --test unsafe_small
	@test $(HOST:x86_64%=x86_64) != x86_64 || RUSTFLAGS="-Ctarget-feature=+avx2,+bmi1,+bmi2,+lzcnt,+popcnt" \
	  MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p tokenmill-core --test unsafe_small -- characters

asan:  ## Run all tests of the core under AddressSanitizer, with debug assertions.
	@rustup toolchain install nightly --profile minimal --component rust-src >/dev/null 2>&1
	@ASAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS="-Zsanitizer=address -Cdebug-assertions" cargo +nightly test --quiet --release -p tokenmill-core \
	  --lib --tests --target $(HOST)

fuzz:  ## Run each fuzz target for FUZZ_SECONDS (60).
	@rustup toolchain install nightly --profile minimal >/dev/null 2>&1
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
	@for target in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$target && \
	  cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS) \
	    -max_len=8192 -rss_limit_mb=1024 -timeout=25 -print_final_stats=1 || exit 1; \
	done

aarch64:  ## Run all tests of the core for AArch64, in an emulator.
	@rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1
	@command -v qemu-aarch64 aarch64-linux-gnu-gcc >/dev/null || apt-get install -y qemu-user gcc-aarch64-linux-gnu
	@CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	  cargo test --quiet --release -p tokenmill-core --lib --tests --target aarch64-unknown-linux-gnu

lint: $(VENV)/.test  ## Check style, types, stubs and wording; change nothing.
	@cargo fmt --all --check
	@cargo clippy --quiet --all-targets -- -D warnings
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m mypy.stubtest tokenmill._core
	@$(BIN)/python packaging/wording.py

workflows:  ## Check the GitHub workflows.
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

other-systems:  ## Check that the Rust code compiles for Windows, macOS and Linux on ARM.
	@rustup target add $(OTHER_SYSTEMS) >/dev/null 2>&1
	@for target in $(OTHER_SYSTEMS); do \
	  echo "$$target" && PYO3_NO_PYTHON=1 cargo check --quiet --target $$target || exit 1; \
	done

format: $(VENV)/.test  ## Format both languages.
	@cargo fmt --all
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet . || true

$(VENV)/.bench: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --group bench
	@touch $@

bench: $(VENV)/.bench $(VENV)-peers/.peers  ## Run every benchmark beside its peers and print the ratios.
	@$(BIN)/python benchmarks/run.py --charts docs/images

# It has Hugging Face's tokenizers 1.0 instead of 0.23, so it is an environment of its own.
$(VENV)-peers/.peers: $(VENV)/.core pyproject.toml
	@test -x $(VENV)-peers/bin/python || $(PYTHON) -m venv $(VENV)-peers
	@$(VENV)-peers/bin/python -m pip install --quiet --upgrade pip  # an older pip has no groups
	@$(VENV)-peers/bin/python -m pip install --quiet --group peers
	@touch $@

bench-families: $(VENV)-peers/.peers  ## Encode with every family beside every peer, on the CPU's best path and on AVX2.
	@$(VENV)-peers/bin/python benchmarks/all_families.py
	@$(VENV)-peers/bin/python benchmarks/all_families.py --cpu avx2

bench-quick: $(VENV)-peers/.peers  ## Run ten cells of bench-families, in a few minutes: for every change.
	@$(VENV)-peers/bin/python benchmarks/all_families.py --families gpt2,llama3 --languages en,code,fr,ru,zh \
	  --peers tokenmill,gigatoken,fastokens --megabytes 2 --turns 2 --scratch benchmarks/results/quick

$(VENV)/.docs: $(VENV)/.core pyproject.toml
	@$(BIN)/python -m pip install --quiet --group docs
	@touch $@

docs: $(VENV)/.docs  ## Build the docs site into site/, with warnings as errors, and check its links.
	@$(BIN)/python packaging/site_pages.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --config-file build/mkdocs.yml
	@DOCS_SITE=site $(BIN)/python -m pytest -q tests/docs/test_site.py

docs-version: $(VENV)/.docs  ## Put the site, as one of its versions, on the branch gh-pages.
	@$(BIN)/python packaging/site_pages.py versions
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mike deploy --config-file build/mkdocs.yml $(DOCS_ARGS) $(DOCS_VERSION) $(DOCS_ALIAS)

$(VENV)/.wheels: $(VENV)/.base
	@$(BIN)/python -m pip install --quiet --group wheels
	@touch $@

wheel: $(VENV)/.base  ## Build the wheel of this machine into dist/.
	@. $(BIN)/activate && maturin build --release --quiet --out dist

wheels: $(VENV)/.wheels  ## Build the wheels for Linux on x86-64 and ARM, and the sdist, into dist/.
	@rustup target add $(WHEEL_TARGETS) >/dev/null 2>&1
	@. $(BIN)/activate && for target in $(WHEEL_TARGETS); do \
	  maturin build --release --quiet --zig --compatibility manylinux_2_28 --target $$target --out dist || exit 1; \
	done
	@. $(BIN)/activate && maturin sdist --out dist >/dev/null

try-wheel: $(VENV)/.base  ## Install this machine's wheel without Rust, and do what the README says.
	@$(BIN)/python packaging/try_wheel.py

try-sdist: $(VENV)/.base  ## The same with the sdist, which is built with Rust.
	@$(BIN)/python packaging/try_wheel.py dist/*.tar.gz

try-aarch64: $(VENV)/.base  ## The ARM wheel in an emulator: quickstart and tokenizer tests; needs Debian's apt.
	@command -v qemu-aarch64 >/dev/null || apt-get install -y -qq qemu-user
	@$(BIN)/python packaging/try_aarch64.py

image:  ## Build the container image for clusters.
	@docker build --tag tokenmill .

release-check:  ## Check whether this commit can be a release.
	@$(PYTHON) packaging/release.py check

release-tag:  ## Make the tag and the page of the release, with its notes; needs gh.
	@$(PYTHON) packaging/release.py tag

clean:  ## Remove what the targets above made.
	@rm -rf $(VENV) $(VENV)-oldest $(VENV)-peers .venv-torch .venv-grain .venv-*.lock target dist site quickstart outputs
