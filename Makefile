# Each target makes .venv and installs what it needs by itself; a second run reuses it.

PYTHON  ?= python3
WORKERS ?= 2

VENV   := .venv
BIN    := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt Makefile
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

# uv reads none of pip's settings: hand over those that name where packages come from.
comma := ,
space := $(subst ,, )
export UV_COMPILE_BYTECODE := 1
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(subst $(space),$(comma),$(strip $(PIP_FIND_LINKS)))
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

.PHONY: help demo tour examples paper docs screenshots test test-full test-slow fuzz fuzz-proofs bench gpu-test gpu-bench lint types clean

help:
	@echo "make demo       compares losses on real visits to a shop, and writes a report"
	@echo "make tour       a short tour of a loss in the terminal, with one picture"
	@echo "make examples   five applications, each with a table against the usual loss"
	@echo "make paper      every figure, table and claim of the paper, in paper_output"
	@echo "make docs       the documentation, in docs/_build/html"
	@echo "make screenshots  pictures of the report, the paper and the documentation (needs chromium)"
	@echo "make test       the test suite"
	@echo "make test-full  the same with 2,000 random examples per property"
	@echo "make test-slow  integrations that take minutes"
	@echo "make fuzz       100,000 random formulas and spec files (COUNT=..., SEED=...)"
	@echo "make fuzz-proofs 20,000 certificates against 60 digits (COUNT=..., SEED=...)"
	@echo "make bench      the measurements behind the documentation"
	@echo "make gpu-test   the checks of the GPU kernels, on a machine with a GPU"
	@echo "make gpu-bench  the measurements of docs/performance.md, on a machine with a GPU"
	@echo "make lint       ruff"
	@echo "make types      pyright"
	@echo "make clean      remove everything that make has made, .venv included"

# what the demo needs is a part of what the tests need
DEMO := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)

demo: $(DEMO)
	@$(BIN)/selmatch compare src/selmatch/data/dwell_shoppers.csv.gz --target ProductRelated_Duration \
	  --focus high --top 0.1 --scale log --drop Revenue --drop split --out demo_output

tour: $(DEMO)
	@$(BIN)/python examples/tour.py

examples: $(VENV)/.dev
	@for name in ranking retrieval distillation preferences dwell_time; do $(BIN)/python examples/$$name.py || exit 1; done

paper: $(DEMO)
	@$(BIN)/selmatch paper paper_output

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

screenshots: $(VENV)/.screenshots demo paper docs
	$(BIN)/python tools/screenshots.py demo_output/report.html paper_output/index.html docs/_build/html/index.html \
	  --out screenshots

test: $(VENV)/.dev
	$(PYTEST) -n $(WORKERS) --dist worksteal

test-full: $(VENV)/.dev
	SELMATCH_HYPOTHESIS_PROFILE=full $(PYTEST) -n $(WORKERS) --dist worksteal

# pytest's status 5 says that no test is marked slow.
test-slow: $(VENV)/.dev
	$(PYTEST) -m slow || [ $$? -eq 5 ]

COUNT ?= $(if $(filter fuzz-proofs,$(MAKECMDGOALS)),20000,100000)
SEED  ?= 0
fuzz: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m fuzzing --count $(COUNT) --seed $(SEED)

fuzz-proofs: $(VENV)/.dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzzing --what proofs --count $(COUNT) --seed $(SEED)

bench: $(VENV)/.dev
	@for script in $(filter-out benchmarks/gpu.py benchmarks/distillation.py,$(wildcard benchmarks/[a-z]*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Both need Python, NumPy, PyTorch and Triton, and nothing else: those of the machine with the GPU.
GPU_PYTHON ?= $(PYTHON)
gpu-test:
	PYTHONPATH=src $(GPU_PYTHON) -m selmatch.kernels.selftest --jobs 12 --sanitize

gpu-bench:
	PYTHONPATH=src $(GPU_PYTHON) benchmarks/gpu.py --out gpu.json

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# pyright fetches itself from the npm registry the first time.
types: $(VENV)/.dev
	$(BIN)/pyright

clean:
	rm -rf $(VENV) build dist demo_output paper_output screenshots docs/_build docs/generated .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv || echo "No uv: pip will do, slowly."
	@touch $@

$(VENV)/.demo: $(INPUTS) | $(VENV)/.base
	$(call install,compare$(comma)proofs)
	@touch $@

$(VENV)/.dev: $(INPUTS) | $(VENV)/.base
	$(call install,dev)
	@touch $@

$(VENV)/.docs $(VENV)/.screenshots: $(VENV)/.%: $(INPUTS) | $(VENV)/.base
	$(call install,$*)
	@touch $@

# $(call install,EXTRA): uv, else pip. Where there is no GPU the CPU build of torch must come out: it does from a wheel in
# PIP_FIND_LINKS, and otherwise on Linux uv picks the build that fits the machine. pip cannot: it must be told where to look.
define install
	@tag=$$($(BIN)/python -c 'import sys; print("cp%d%d" % sys.version_info[:2])'); \
	backend=; [ "$$(uname)" != Linux ] || backend=--torch-backend=auto; \
	for wheel in $(addsuffix /torch-*-"$$tag"-*.whl,$(PIP_FIND_LINKS)); do [ ! -e "$$wheel" ] || backend=; done; \
	if [ -x $(BIN)/uv ] && $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
	    --build-constraints constraints.txt $$backend --editable '.[$(1)]'; then exit 0; fi; \
	if [ "$(1)$$backend$(PIP_EXTRA_INDEX_URL)" = dev--torch-backend=auto ] && ! command -v nvidia-smi >/dev/null; then \
	  echo "pip alone would fetch the CUDA build of torch. Put a CPU wheel of torch into a folder and name it in"; \
	  echo "PIP_FIND_LINKS, or name an index that has one in PIP_EXTRA_INDEX_URL, and run make again."; exit 1; fi; \
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[$(1)]'
endef
