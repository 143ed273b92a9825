# Everything that is done with this repository. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .build

# Tests and checks build without link-time optimisation, which takes minutes and changes no result.
TEST_PROFILE ?= ci
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

# Real tokenizers and corpora, where there are any.
DATA ?= $(abspath ../shared/data)

export HF_HUB_OFFLINE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The many processes of the tests compile no module again that another has compiled.
unexport PYTHONDONTWRITEBYTECODE
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

# A command whose output is shown only if it fails.
logged = mkdir -p $(STAMPS); $(1) > $(STAMPS)/log 2>&1 || { cat $(STAMPS)/log; exit 1; }

# A link that leads nowhere is an error; the theme would also print a word about the next version of mkdocs.
site = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

.DEFAULT_GOAL := help
.PHONY: help setup demo check test campaign test-torch soak bench bench-append bench-containers bench-cores bench-many-cores bench-objectives bench-pack bench-pictures bench-remote bench-remote-rows bench-templates bench-texts bench-tokenize bench-torch bench-training profile publish chart conformance conformance-templates docs licences memcheck repeat-tests screenshots sdist wheel clean fmt help-pages bench-steps bench-stream bench-turns test-cluster turns-table

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 20

setup: $(STAMPS)/python $(STAMPS)/extension  ## make .venv with everything in it, and build the extension

demo: $(STAMPS)/extension  ## build what packing needs, pack examples/ and show a packed row
	@rm -rf $(STAMPS)/demo
	@echo "packing examples/ into $(STAMPS)/demo"
	@$(BIN)/fastpack pack -i examples/*.jsonl -o $(STAMPS)/demo -t examples/tokenizer -m 512 -f arrow
	@$(BIN)/fastpack inspect $(STAMPS)/demo/train-00000.arrow --row 0 -t examples/tokenizer
	@echo
	@echo "look at your files:  $(BIN)/fastpack scan FILES -t MODEL_FOLDER -m 4096"
	@echo "pack them:           $(BIN)/fastpack pack FILES -o packed -t MODEL_FOLDER -m 4096"

check: setup  ## format, lints, types, stubs, docs and structure
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --profile $(TEST_PROFILE) -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --profile $(TEST_PROFILE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest fastpack._fastpack --mypy-config-file pyproject.toml
	$(BIN)/pytest -q tests/python/house/test_house.py
	$(site)

soak: setup  ## spoil files at random for SOAK_SECONDS (600) each, and say the seed of what fails
	SOAK_SECONDS=$(or $(SOAK_SECONDS),600) $(BIN)/pytest -q --timeout 0 -m soak tests/python

# On all cores, and one more for what waits; then, one by one, the tests that measure the machine. Examples are the same in every
# run, so a change passes or fails by itself; `make campaign` tries others.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

test: setup  ## run all tests
	PROPTEST_RNG_SEED=1 cargo test --locked --workspace --profile $(TEST_PROFILE)
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal -m "not alone"
	$(BIN)/pytest -m alone

# The laws of `make test` over many more cases, which are drawn at random; what measures the machine is not among them.
campaign: setup $(STAMPS)/torch  ## run the tests that can try more, at length
	FASTPACK_CAMPAIGN=1 $(BIN)/pytest --timeout 7200 --numprocesses $(WORKERS) --dist worksteal -m "not alone"
	cargo test --locked --workspace --profile $(TEST_PROFILE)
	FASTPACK_CAMPAIGN=1 $(VENV)-torch/bin/pytest --timeout 7200 -c tests/torch/pytest.ini --rootdir . --numprocesses $(WORKERS) --dist worksteal

repeat-tests: setup  ## run the tests with processes, sockets, clocks or limits TIMES (30) times beside a load on all cores
	$(BIN)/python scripts/repeat_tests.py --times $(or $(TIMES),30) $(TESTS)

# Trainers bring a training stack, so they have an environment of their own, which borrows the built extension.
test-torch: $(STAMPS)/extension $(STAMPS)/torch  ## run the tests of fastpack.torch and fastpack.hf, with trainers
	$(VENV)-torch/bin/pytest -c tests/torch/pytest.ini --rootdir . --numprocesses auto --dist worksteal

# Ray, Spark and their like bring much, so they have an environment of their own, which borrows the built extension.
test-cluster: $(STAMPS)/extension $(STAMPS)/cluster $(STAMPS)/mosaic  ## run the tests of fastpack.ray, the examples of docs/how-to/clusters.md, and those of MDS
	$(VENV)-cluster/bin/pytest -c tests/cluster/pytest.ini --rootdir .

bench: $(STAMPS)/release  ## measure fastpack against its peers, in one run
	$(BIN)/python benches/python/run.py

bench-remote: $(STAMPS)/release  ## measure reading from an S3 server and a web server beside local files
	$(BIN)/python benches/python/remote.py

bench-remote-rows: $(STAMPS)/release $(STAMPS)/torch  ## measure training on rows behind 20 ms of latency beside a folder
	PYTHONPATH=python $(VENV)-torch/bin/python benches/python/training/remote_rows.py

bench-tokenize: $(STAMPS)/release  ## measure the engine against its peers, in one run
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python benches/python/tokenizer/tokenize_texts.py

bench-stream: $(STAMPS)/release $(STAMPS)/torch $(STAMPS)/mosaic  ## measure streams beside those of Grain, datasets, Epochraft and MosaicML, in one run
	@$(VENV)-torch/bin/python -m pip install --quiet --group streams
	PYTHONPATH=python $(VENV)-torch/bin/python benches/python/streaming.py

bench-containers: $(STAMPS)/release  ## measure the same records in every container
	$(BIN)/python benches/python/containers.py

bench-torch: $(STAMPS)/release $(STAMPS)/torch  ## measure how fast packed rows become tensors
	PYTHONPATH=python $(VENV)-torch/bin/python benches/python/training/batches.py

bench-training: $(STAMPS)/release $(STAMPS)/torch  ## measure what packing buys in training, and draw the plot in docs/images
	@$(VENV)-torch/bin/python -m pip install --quiet --group plot
	PYTHONPATH=python $(VENV)-torch/bin/python benches/python/training/training.py --plot docs/images/packed-training.svg

bench-texts: $(STAMPS)/release  ## measure how much of the engine's speed is left from lines of text to rows
	$(BIN)/python benches/python/texts.py

bench-objectives: $(STAMPS)/release  ## measure the objectives beside the causal one, and beside datasets.map with a collator
	$(BIN)/python benches/python/objectives.py

bench-templates: $(STAMPS)/release  ## measure templates beside jinja2
	$(BIN)/python benches/python/templates/templates.py

bench-turns: $(STAMPS)/release  ## measure conversations of tools and reasoning beside TRL and a loop, in one run
	$(BIN)/python benches/python/templates/turns.py

profile: $(STAMPS)/release  ## count the instructions of a run by function, with valgrind
	$(BIN)/python benches/python/instructions.py

bench-steps: $(STAMPS)/release $(STAMPS)/torch  ## measure plans of a training step beside what frameworks do
	@$(VENV)-torch/bin/python -m pip install --quiet --no-deps --upgrade --target $(STAMPS)/verl "verl==0.9.*"
	PYTHONPATH=python $(VENV)-torch/bin/python benches/python/training/steps.py

bench-pictures: $(STAMPS)/release $(STAMPS)/torch  ## measure conversations with pictures beside datasets.map, and training on them beside padding
	PYTHONPATH=python $(VENV)-torch/bin/python benches/python/training/pictures.py

bench-append: $(STAMPS)/release  ## measure new files appended to a packed folder beside the whole job
	$(BIN)/python benches/python/jobs/append.py

bench-cores: $(STAMPS)/release  ## measure whole jobs on one core and on all of the machine
	$(BIN)/python benches/python/cores.py

bench-many-cores: $(STAMPS)/release  ## simulate a job on up to 64 cores, which takes half an hour, and draw the plot in docs/images
	@$(BIN)/python -m pip install --quiet --group plot
	$(BIN)/python benches/python/jobs/many_cores.py --plot docs/images/many-cores.svg

bench-pack: $(STAMPS)/release  ## measure packing alone, and TRL beside it
	$(BIN)/python benches/python/pack.py

conformance: $(STAMPS)/python  ## compare the engine with the Hugging Face crate, at length
	FASTPACK_DATA=$(DATA) cargo test --locked --profile $(TEST_PROFILE) -p fastpack-tokenize --lib --test conformance -- --include-ignored

conformance-templates: setup  ## compare every chat template in public wheels with transformers
	$(BIN)/python benches/python/tokenizer/wheels.py

memcheck:  ## run the engine's unit tests under valgrind, on both of its paths
	cargo test --locked --profile $(TEST_PROFILE) -p fastpack-tokenize --lib --no-run
	PROPTEST_CASES=15 CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --error-exitcode=9" \
		cargo test --locked --profile $(TEST_PROFILE) -p fastpack-tokenize --lib -- --test-threads=1 --skip the_tables_are

# zig links against the C library of 2014, so the wheel runs on any Linux since. It holds the licences of all that is
# linked in, and a bill of materials, which maturin writes. With TARGET=aarch64-unknown-linux-gnu zig builds for arm64; the
# trial is skipped where the machine cannot run the wheel.
wheel: $(STAMPS)/build-tools  ## build a manylinux2014 wheel into dist/ (of TARGET, if given), and look it over
	$(BIN)/python -m pip install --quiet --group wheel
	$(if $(TARGET),rustup target add $(TARGET))
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --locked --zig --compatibility manylinux2014 $(if $(TARGET),--target $(TARGET)) --out dist
	$(BIN)/twine check --strict dist/*.whl
	$(if $(TARGET),,$(BIN)/auditwheel show "$$(ls -t dist/*.whl | head -n 1)")
	$(BIN)/python scripts/try_built.py dist/*.whl

publish: $(STAMPS)/build-tools  ## upload dist/ to the package index with the token in TWINE_PASSWORD, after checks
	@$(BIN)/python -m pip install --quiet --group wheel
	@$(BIN)/python scripts/publish.py dist

sdist: $(STAMPS)/build-tools  ## build the sdist into dist/, and fastpack from it in a clean environment
	$(BIN)/maturin sdist --out dist
	$(BIN)/python scripts/try_built.py dist/*.tar.gz

licences: $(STAMPS)/build-tools  ## write the licences of the crates that are linked in
	$(BIN)/python scripts/licences.py

docs: setup  ## build the site into .build/site; a link that leads nowhere is an error
	$(site)

chart: $(STAMPS)/python  ## write the chart of README from the tables of benches/results
	$(BIN)/python scripts/chart.py

screenshots: setup  ## leave screenshots of reports, notebook and site in .build/screenshots, by Chromium
	$(site)
	$(BIN)/python scripts/screenshots.py

turns-table: setup  ## write the table of docs/how-to/turns.md from the templates in TEMPLATES
	$(BIN)/python benches/python/templates/turn_table.py $(or $(TEMPLATES),$(DATA)/templates)

help-pages: setup  ## write the golden help pages of the command line anew
	FASTPACK_WRITE_HELP=1 $(BIN)/pytest -q tests/python/options/help/test_help.py

fmt:  ## format everything
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove everything that was made here
	rm -rf $(VENV) $(VENV)-torch $(VENV)-cluster $(VENV)-mosaic $(STAMPS) dist target python/fastpack/*.so

$(BIN)/python:
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# What building and running the extension needs, and no more: `make demo` waits for it.
$(STAMPS)/build-tools: pyproject.toml | $(BIN)/python
	@echo "installing maturin"
	@mkdir -p $(STAMPS)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --group build
	@touch $@

# TRL is only compared with: its own dependencies would bring a training stack, so it comes without them. It needs
# Python 3.11, as transformers does; on 3.10 the tests that compare with either are skipped.
$(STAMPS)/python: $(STAMPS)/build-tools
	@echo "installing the libraries of the tests and checks"
	@$(BIN)/python -m pip install --quiet --group check
	@if $(BIN)/python -c "import sys; sys.exit(sys.version_info < (3, 11))"; then \
		$(BIN)/python -m pip install --quiet --no-deps "trl==1.16.*"; fi
	@touch $@

# Their modules are compiled when they are imported: compiling all of them here takes longer than the tests need.
$(STAMPS)/torch: pyproject.toml
	@echo "installing torch and its trainers"
	@mkdir -p $(STAMPS)
	@test -x $(VENV)-torch/bin/python || $(PYTHON) -m venv $(VENV)-torch
	@$(VENV)-torch/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(VENV)-torch/bin/python -m pip install --quiet --no-compile --group torch
	@touch $@

$(STAMPS)/cluster: pyproject.toml
	@echo "installing Ray, Spark and datatrove"
	@mkdir -p $(STAMPS)
	@test -x $(VENV)-cluster/bin/python || $(PYTHON) -m venv $(VENV)-cluster
	@$(VENV)-cluster/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(VENV)-cluster/bin/python -m pip install --quiet --no-compile --group cluster
	@touch $@

# The writer of MDS shards refuses today's transformers, so it has an environment of its own.
$(STAMPS)/mosaic: pyproject.toml
	@echo "installing mosaicml-streaming, which takes minutes"
	@mkdir -p $(STAMPS)
	@test -x $(VENV)-mosaic/bin/python || $(PYTHON) -m venv $(VENV)-mosaic
	@$(VENV)-mosaic/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(VENV)-mosaic/bin/python -m pip install --quiet --no-compile --group mds
	@touch $@

$(STAMPS)/extension: $(STAMPS)/build-tools $(RUST_SOURCES) $(wildcard python/fastpack/*.py python/fastpack/*/*.py)
	@echo "building the extension"
	@$(call logged,$(BIN)/maturin develop --quiet --locked --profile $(TEST_PROFILE))
	@rm -f $(STAMPS)/release
	@touch $@

$(STAMPS)/release: $(STAMPS)/python $(RUST_SOURCES) $(wildcard python/fastpack/*.py python/fastpack/*/*.py)
	@echo "building the extension for release, which takes minutes"
	@$(call logged,$(BIN)/maturin develop --quiet --locked --release)
	@rm -f $(STAMPS)/extension
	@touch $@
