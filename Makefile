# The two commands: `make lab` and `make test`. Needs Python 3.11+, pip and make; everything else goes into .venv.
#   make lab [ARGS="--port 8890"]      install, then JupyterLab on the quickstart
#   make report [FAST=1] [NAMES=...]   run the notebooks headless into reports/
#   make test                          lint, types, tests (under 10 minutes on 2 cores)
#   make test-all                      the same, then browser, real llama.cpp server, notebooks, soak
#   make bench                         speed and memory, as ratios in one run

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
NAMES ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# two workers for two cores; PYTEST_WORKERS=0 runs in one process
PYTEST_WORKERS ?= 2
HEAVY := browser or llama or notebooks or soak

.PHONY: lab report install install-all test lint types unit test-all heavy bench ledger clean
.DEFAULT_GOAL := lab

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "clairvoyant-lab needs Python 3.11 to 3.13; '$(PYTHON)' is another. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp a kind of install: a second run costs nothing until pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-all: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev,browser,local,cluster]'
	$(BIN)/clairvoyant-lab backend install-model
	@touch $@ $(VENV)/.installed-dev $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev,bench,local]'
	$(BIN)/clairvoyant-lab backend install-model
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed

# every extra that the whole test suite uses
install-all: $(VENV)/.installed-all

lab: $(VENV)/.installed
	$(BIN)/clairvoyant-lab lab $(ARGS)

report: $(VENV)/.installed
	$(BIN)/clairvoyant-lab report $(NAMES) $(if $(FAST),--fast) $(ARGS)

ledger: $(VENV)/.installed
	$(BIN)/clairvoyant-lab ledger $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

unit: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -n $(PYTEST_WORKERS) --dist loadfile -m "not ($(HEAVY))" $(ARGS)

test: lint types unit

# One after another: these start browsers, servers and kernels, and two cores are soon full.
heavy: $(VENV)/.installed-all
	$(BIN)/python -m pytest -q -m "$(HEAVY)" $(ARGS)

test-all: test heavy

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py $(ARGS)

clean:
	rm -rf $(VENV) reports bench-results .mypy_cache .ruff_cache .pytest_cache .hypothesis
