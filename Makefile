# make run    sets everything up in .venv and starts the bot (the console, without a token)
# make test   sets everything up and runs the whole test suite
# make check  lint and types        make bench  the benchmarks, side by side
# make lock   the locks of all packages, with hashes        make licences  their licences, in docs/dependencies.md
# make proof  long random walks, kill loops and attacks, up to PROOF_MINUTES

PYTHON ?= python3
PROOF_MINUTES ?= 60
VENV := .venv
BIN := $(VENV)/bin
LOCK := $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --no-header
LISTS := $(basename $(wildcard requirements*.txt))

# Without bytecode files (as in some images) each process would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test proof check bench format lock licences clean

run: $(VENV)/.installed
	@$(BIN)/python bot.py run

test: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python -m tests

proof: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python -m pytest -m proof -n 2 -rfEs --durations 0 --proof-minutes $(PROOF_MINUTES)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The versions are chosen for all files together, then each gets its own. Those that are locked stay where they
# can; delete the locks before it to take the newest.
lock: $(VENV)/.installed-dev
	-cat requirements*.lock > $(VENV)/all.lock
	$(LOCK) $(LISTS:%=%.txt) -o $(VENV)/all.lock
	for each in $(LISTS); do $(LOCK) -c $(VENV)/all.lock $$each.txt -o $$each.lock || exit 1; done

licences: $(VENV)/.installed-dev
	$(BIN)/python -m deploy.licences

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Pomni needs Python 3.11 or newer: make run PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "The venv module is missing: on Debian and Ubuntu, apt install python3-venv" >&2; exit 2; }

$(VENV)/.installed: $(wildcard requirements*.lock) | $(VENV)/bin/python
	@echo "Installing the packages of requirements.lock into $(VENV) (once)" >&2
	@$(BIN)/python deploy/install.py
	@touch $@

# Tests of the pages use Debian's headless Chromium, tests of poolers its PgBouncer; without them those
# tests are skipped.
$(VENV)/.browser: | $(VENV)/bin/python
	@{ command -v chromium-headless-shell && command -v pgbouncer; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && echo "Installing chromium and pgbouncer for the tests (once)" >&2 \
	  && timeout 300 sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq \
	     install --no-install-recommends --yes chromium-headless-shell fonts-dejavu-core fonts-noto-color-emoji pgbouncer' >/dev/null 2>&1; } \
	  || echo "No chromium or pgbouncer: tests that need them are skipped" >&2
	@touch $@

$(VENV)/.installed-dev: $(wildcard requirements*.lock) | $(VENV)/bin/python
	@echo "Installing the packages of all requirements*.lock into $(VENV) (once)" >&2
	@$(BIN)/python deploy/install.py dev
	@touch $@ $(VENV)/.installed
