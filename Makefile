# make demo: the dashboard on an embedded host · make test: the tests · make lint · make clean
# make faults: every fault scenario, also the slow ones · make test-engine: against a real SGLang, as root
# make test-gpu: against a real SGLang on this machine's GPU · make matrix: adoption in every form
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test test-engine test-gpu faults matrix gate-table lint clean

demo: $(VENV)/.demo
	@$(BIN)/ddtune demo

test: $(VENV)/.packages lint
	@PYTHON="$(PYTHON)" tests/run $(PYTEST_ARGS)

test-engine: $(VENV)/.packages $(VENV)/.test
	@PYTHON="$(PYTHON)" tests/engine/run $(PYTEST_ARGS)

# No prerequisite: a GPU machine need not reach a package index.
test-gpu:
	@tests/gpu/run $(ARGS)

faults: $(VENV)/.packages $(VENV)/.test
	@DDTUNE_TEST_BREAK="$(BREAK)" JOBS=2 SUITES=faults tests/run --faults --dist load --maxschedchunk 1 $(PYTEST_ARGS)
ifeq ($(BREAK),)
	@SUITES="e2e tui unit" JOBS=2 tests/run -m slow
	@DDTUNE_TEST_LONG=1 $(BIN)/python -m pytest tests/unit/onhost_crash tests/unit/onhost_races/test_operators.py \
		tests/unit/onhost_helper/test_shaped_requests.py
endif

matrix: $(VENV)/.packages $(VENV)/.test
	@DDTUNE_MATRIX=1 $(BIN)/python -m pytest -rP tests/e2e/test_adopt_cycle.py tests/e2e/test_adopt_interrupted.py $(PYTEST_ARGS)

gate-table: $(VENV)/.packages $(VENV)/.test
	@$(BIN)/python -m tests.benchmarks.detectors
	@$(BIN)/python -m tests.benchmarks.gate_table
	@$(BIN)/python -m tests.benchmarks.gate_product

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

$(BIN)/python:
	@tests/setup/venv "$(PYTHON)" $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable ".[test]"
	@touch $@ $(VENV)/.demo

$(VENV)/.packages: tests/setup/packages | $(BIN)/python
	@tests/setup/packages
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.engine -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
