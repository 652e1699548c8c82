# Every target sets up what it needs in .venv, once; nothing needs root or a prepared machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
SAMPLE ?=
ONLY ?=
UPGRADE ?=
DOCS_PORT ?= 8001
COMPILE := $(BIN)/uv pip compile --quiet --system-certs --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links

CHECKED := $(foreach folder,service migrations tests benchmarks docs docker,$(if $(shell find $(folder) -name '*.py' 2>/dev/null | head -n 1),$(folder)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo serve docs docs-build test test-long test-deployment bench evidence utility lint lock setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/ready ## the whole job over HTTP on made-up patients: upload, plan, train, decide, audit (half a minute)
	$(BIN)/discretion demo --out build/demo

serve: $(VENV)/ready ## run the service on http://127.0.0.1:8000, with its data in ./discretion-data
	$(BIN)/discretion serve

docs: docs-build ## build the documentation and show it on http://127.0.0.1:8001
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs $(DOCS_PORT)

docs-build: $(VENV)/ready ## build the documentation in build/docs; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet --doctree-dir build/doctrees docs build/docs

# Two processes more than a small machine has cores: tests of services wait half of their time. tests/rota.py says who
# runs what, and which of the trials on either database are long. Linear algebra has one thread in each of them: more would
# only wait for each other, and busily.
test test-long: export OPENBLAS_NUM_THREADS := 1
# Compiled once: they start Python some thousand times.
test test-long: export PYTHONDONTWRITEBYTECODE :=
test: lint ## lint, then run the tests
	$(BIN)/pytest -n 4 --dist loadscope -m "not long"

test-long: $(VENV)/ready ## run the tests that keep a machine busy: trials on PostgreSQL, clusters and hosts that fail, pages' commands, every page's looks, memory
	$(BIN)/pytest -n 4 --dist loadscope -m long

# Under a name, port and secrets of its own, so that a deployment on this machine is left alone; in a reader's folder.
test-deployment: export COMPOSE_PROJECT_NAME := discretion-test
test-deployment: export HTTPS_PORT := 18443
test-deployment: export SUBNET := 172.30.214.0/28
test-deployment: READER := build/deployment
test-deployment: ## build the images and do what docker/README.md says, command by command, with Docker or COMPOSE_UP=COMMAND (ten minutes)
	$(PYTHON) -m tests.walk --lay-out $(READER)
ifdef COMPOSE_UP
	$(READER)/docker/make-secrets
	$(COMPOSE_UP) $(READER)/docker/compose.yaml -- $(PYTHON) -m tests.walk $(READER)
else
	trap 'docker compose --file $(READER)/docker/compose.yaml --profile cluster down --volumes' EXIT; $(PYTHON) -m tests.walk $(READER)
endif

bench: $(VENV)/ready ## measure speed and memory; ONLY="scale noise" for some parts. Fails if something has become slower by 30 %, at once or in steps, or misses its goal
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

evidence: $(VENV)/ready ## rebuild the evidence behind the claims; SAMPLE=1 for a small sample of it
	$(BIN)/python -m benchmarks.evidence $(if $(SAMPLE),--sample)

utility: $(VENV)/ready ## measure what the policies are worth on public problems; SAMPLE=1 for a small sample of it
	$(BIN)/python -m benchmarks.utility $(if $(SAMPLE),--sample)

lint: $(VENV)/ready ## check style, formatting, types, the direction of imports and the Dockerfiles
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports
	$(BIN)/hadolint docker/Dockerfile docker/proxy/Dockerfile

lock: $(VENV)/ready ## pin every dependency by hash in requirements.lock, and the image's in docker/requirements.lock; UPGRADE=1 for the newest versions
	$(COMPILE) --all-extras --group dev $(if $(UPGRADE),--upgrade) --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra cluster --group image --constraint requirements.lock --no-annotate --output-file docker/requirements.lock pyproject.toml
	$(MAKE) setup

setup: $(VENV)/ready ## only prepare .venv

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Both stamps are written last, and the first step removes them: a set-up that was interrupted starts anew.
$(VENV)/locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Discretion needs Python 3.11 or newer, and '$(PYTHON)' is not. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-deps --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/ready: $(VENV)/locked pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
