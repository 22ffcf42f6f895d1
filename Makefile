# Everything a fresh machine needs: Python >= 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The Agent SDK brings a claude of 360 MB: only types and tests need it.
CLAUDE := $(VENV)/.claude-installed
WORKERS ?= auto
# What tests need beside Python packages; the only part of the test run that needs a network.
FETCHED := $(VENV)/sdists/.fetched $(VENV)/git-lfs/.fetched

.PHONY: demo test soak bench check schemas format clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $(STAMP)

$(CLAUDE): pyproject.toml $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,claude]'
	touch $(CLAUDE)

demo: $(STAMP)  ## the main job, for real, in a temporary folder
	$(BIN)/git-swarm demo

check: $(CLAUDE)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/sdists/.fetched: tests/fetch_sdists.py $(STAMP)
	$(BIN)/python tests/fetch_sdists.py $(VENV)/sdists
	touch $@

$(VENV)/git-lfs/.fetched: tests/fetch_git_lfs.sh $(STAMP)
	sh tests/fetch_git_lfs.sh $(VENV)/git-lfs
	touch $@

test: check $(FETCHED)  ## the checks and the tests; long suites as a seeded sample
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not soak'

soak: check $(FETCHED)  ## the checks and all tests, long suites whole
	$(BIN)/python -m pytest -n $(WORKERS)

bench: $(CLAUDE)  ## milliseconds against plain git in the same run; about 20 minutes on a quiet machine
	$(BIN)/python -m benchmarks.step_cost
	$(BIN)/python -m benchmarks.command_cost
	$(BIN)/python -m benchmarks.decision_cost
	$(BIN)/python -m benchmarks.guard_cost
	$(BIN)/python -m benchmarks.redaction_cost
	$(BIN)/python -m benchmarks.session_cost

schemas: $(STAMP)  ## docs/schemas anew
	$(BIN)/git-swarm schemas docs/schemas

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
