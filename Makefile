# Each target makes its own .venv and installs what it needs; only Python >= 3.10 and
# pip are taken for granted. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test test-web lint bench docs clean

demo: $(VENV)/installed
	$(BIN)/semisure demo

test: lint
	$(BIN)/python -m pytest

# The page in real browsers: chromium with its driver and, where apt has it, firefox,
# which needs none; tests of what is missing skip.
test-web: $(VENV)/installed-dev
	@SUDO=$$(command -v sudo || true); \
	command -v chromedriver >/dev/null && command -v chromium >/dev/null || { \
	  $$SUDO apt-get update -q && $$SUDO apt-get install -y -q chromium chromium-driver; }; \
	command -v firefox-esr >/dev/null || command -v firefox >/dev/null || \
	  $$SUDO apt-get install -y -q firefox-esr || echo "firefox: not to be had here"
	$(PIP) selenium
	$(BIN)/python -m pytest tests/test_web*.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Types are judged by the stubs of one NumPy, which Python 3.10 cannot have.
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
	  then echo $(BIN)/mypy; $(BIN)/mypy; \
	  else echo "mypy: skipped, it needs Python >= 3.11 here"; fi
	$(BIN)/lint-imports

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/speed.py

docs: $(VENV)/bin/python
	$(PIP) --editable '.[docs]'
	$(BIN)/mkdocs build --strict --site-dir site
	@echo "Open site/index.html in a browser."

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "semisure needs Python >= 3.10; try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@# Some distributions ship Python without venv; virtualenv does the same.
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
	  || { $(PYTHON) -m pip install --quiet --user virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV); }

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@# Has wheels for one Python on one platform; its tests skip where it is missing.
	@$(PIP) --only-binary :all: pysuperansac 2>/dev/null || true
	@touch $@ $(VENV)/installed
