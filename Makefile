# Each target does its own set-up in a fresh clone: only Python 3.11 and make are needed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
DEMO := .venv-demo/bin
INSTALL := pip install --quiet --disable-pip-version-check
HASHED := --require-hashes --no-deps --no-build-isolation --use-pep517

# Tests start hundreds of processes. Each would compile all modules anew where none may be kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long check docs bench lock pytest bench-all gpu soak fuzz clean

demo: .venv-demo/ready  ## Build the shipped samples, and show rows of one under joint masking.
	$(DEMO)/mslm-data build --source blurb --sample --out out/demo
	$(DEMO)/mslm-data mask-stats out/demo/bc5cdr-chem
	$(DEMO)/mslm-data inspect out/demo/bc5cdr-chem --start 38 --rows 2
	$(DEMO)/mslm-data look out/demo/bc5cdr-chem --out out/demo/page.html

# Tests wait for a fifth of their time: for servers, killed processes, the disk.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

PYTEST = $(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal

test: .venv/ready  ## Style, types, layers, and the tests of every promise, on all cores: minutes.
	$(MAKE) --no-print-directory --jobs=2 --output-sync=line check pytest

test-long: .venv/compiled  ## The rest, and all properties on many examples: half an hour.
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile long

# Byte code of 7,000 modules, and kernels: by one process, while types are checked. All workers would
# compile the same modules at the same time.
.venv/compiled: .venv/ready
	$(BIN)/pytest -qq -k test_slips
	touch $@

check: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: .venv-docs/ready  ## Build the manual into out/manual; its references are made from the code.
	.venv-docs/bin/python -m sphinx --fail-on-warning --keep-going -b html docs out/manual

bench: .venv-bench/ready  ## Measure beside what a user would pick instead: docs/results/speed.md.
	-@$(MAKE) --no-print-directory .venv-peers/ready
	.venv-bench/bin/python -m benchmarks

lock: .venv-release/ready  ## Pin what tests and releases need, with hashes: tools/requirements/README.md.
	$(LOCK) --group build --output-file tools/requirements/build.txt
	$(LOCK) --group release --output-file tools/requirements/release.txt
	$(LOCK) --extra test $(addprefix --no-emit-package ,$(OF_TORCH)) \
		--output-file tools/requirements/test.txt pyproject.toml

# torch's files differ between indexes, and so does what it needs on graphics cards.
OF_TORCH := torch triton cuda-bindings cuda-pathfinder cuda-toolkit \
	$(addprefix nvidia-,cublas cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand \
	cusolver cusparse cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
LOCK := UV_CUSTOM_COMPILE_COMMAND='make lock, see tools/requirements/README.md' \
	.venv-release/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--constraint tools/constraints.txt

# Needed less often --------------------------------------------------------------------------------

pytest: .venv/compiled
	$(PYTEST)

bench-all: bench  ## Also growth, and builds that are killed: an hour or more.
	.venv-bench/bin/python -m benchmarks growth faults

# On a machine with a card nothing is fetched: its own Python has torch, and a folder may hold wheels.
gpu: PYTHON := python3
gpu:  ## Test and measure on an NVIDIA card in eight minutes: benchmarks/gpu/README.md.
	test ! -d wheels || $(PYTHON) -m $(INSTALL) --no-index --no-deps --upgrade --target out/wheels wheels/*.whl
	PYTHONPATH=$(CURDIR)/out/wheels:$$PYTHONPATH $(PYTHON) -m benchmarks.gpu $(if $(OUT),--out $(OUT))

soak: .venv-bench/ready  ## Build, load, kill and damage in a loop for two hours: docs/results/soak.md.
	.venv-bench/bin/python -m benchmarks soak

fuzz: .venv-fuzz/ready  ## Read damaged files with every reader, a minute each; see out/fuzz.
	.venv-fuzz/bin/python -m tests.fuzz

# A requirements file names all that is needed, so nothing else is resolved or fetched. Most modules
# are never imported, so they are compiled when they are.
.venv/ready: pyproject.toml tools/constraints.txt tools/requirements/build.txt \
		tools/requirements/test.txt
	$(PYTHON) -m venv .venv
	$(BIN)/$(INSTALL) $(HASHED) --requirement tools/requirements/build.txt
	$(BIN)/$(INSTALL) --no-compile $(HASHED) --requirement tools/requirements/test.txt
	$(BIN)/$(INSTALL) --no-compile --constraint tools/constraints.txt torch
	$(BIN)/$(INSTALL) --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
	touch $@

.venv-release/ready: tools/requirements/release.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/$(INSTALL) $(HASHED) --requirement tools/requirements/release.txt
	.venv-release/bin/pip check
	touch $@

# The package alone, a fifth of what its tests need.
.venv-demo/ready: pyproject.toml tools/constraints.txt
	$(PYTHON) -m venv .venv-demo
	$(DEMO)/$(INSTALL) --constraint tools/constraints.txt --editable .
	touch $@

.venv-bench/ready: pyproject.toml tools/constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/$(INSTALL) --constraint tools/constraints.txt --editable '.[bench]'
	.venv-bench/bin/$(INSTALL) --no-deps nemo-automodel==0.7.0  # its masks need torch alone
	touch $@

.venv-docs/ready: pyproject.toml tools/constraints.txt
	@echo "installing Sphinx and torch into .venv-docs: 1.4 GB, or about 6 GB where torch brings CUDA's libraries"
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/$(INSTALL) --constraint tools/constraints.txt --editable '.[docs]'
	touch $@

.venv-fuzz/ready: pyproject.toml tools/constraints.txt
	$(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/$(INSTALL) --constraint tools/constraints.txt --editable '.[fuzz]'
	touch $@

# Peers that need older packages than ours. Where they do not install, `make bench` says so in
# their rows.
.venv-peers/ready: tools/constraints-peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/$(INSTALL) --constraint tools/constraints-peers.txt \
		torch litdata mosaicml-streaming webdataset
	touch $@

clean:
	rm -rf .venv .venv-demo .venv-docs docs/reference .venv-bench .venv-fuzz .venv-peers .venv-release out dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
