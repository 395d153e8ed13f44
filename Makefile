# Each target makes its own .venv and installs what it needs; only Python >= 3.10 and
# pip are taken for granted. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# make test LOCK=locks/linux-cp311.txt installs those very files, by their SHA-256, and
# torch by its version. It is for a fresh clone: what is installed is not looked at.

# Processes that the files of tests are spread over; JOBS=0 is this process alone.
JOBS ?= 2

# make quick: the rooms that are NumPy only, by their tests and by their doctests.
MATHEMATICS := $(addprefix tests/test_, $(addsuffix .py, \
    mixture paper_equations types shapes geometry epipolar camera significance calibrate \
    estimators refit location covariance pose relative fundamental metrics)) \
  $(addprefix src/semisure/, \
    law types geometry refit metrics.py synthetic.py)

# make fuzz: seconds for all campaigns together, and the number that begins the cases.
SECONDS ?= 60
SEED ?= 0

.PHONY: demo quick test test-web fuzz lint bench docs release clean

demo: $(VENV)/installed
	$(BIN)/semisure demo

# While you edit, in half a minute: style and the mathematics. No network, no torch, no
# browser; tests marked slow wait for make test.
quick: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q -m "not slow" -n $(JOBS) --dist loadfile $(MATHEMATICS)

# Before you push: everything. The tests of one file stay in one process, in order.
test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# The page in a real browser: chromium with its driver.
test-web: $(VENV)/installed-dev
	@SUDO=$$(command -v sudo || true); \
	command -v chromedriver >/dev/null && command -v chromium >/dev/null || { \
	  $$SUDO apt-get update -q && $$SUDO apt-get install -y -q chromium chromium-driver; }
	$(PIP) selenium
	$(BIN)/python -m pytest tests/test_web*.py

# Hostile input at random: what breaks is printed with the number that repeats it.
fuzz: $(VENV)/installed-dev
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Types are judged by the stubs of one NumPy, which Python 3.10 cannot have.
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
	  then echo $(BIN)/mypy; $(BIN)/mypy; \
	  else echo "mypy: skipped, it needs Python >= 3.11 here"; fi
	$(BIN)/lint-imports

bench: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/speed.py

docs: $(VENV)/bin/python
	$(PIP) --editable '.[docs]'
	$(BIN)/mkdocs build --strict --site-dir site
	@echo "Open site/index.html in a browser."

# dist/ gets an sdist and a wheel. Both are checked, then the wheel is tried where the
# clone is not: an empty environment, a temporary folder, the demo.
release: $(VENV)/bin/python
	$(PIP) build twine
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python scripts/try_wheel.py dist
	@echo "Built and tried:" && ls -l dist

clean:
	rm -rf $(VENV) dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "semisure needs Python >= 3.10; try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@# Some distributions ship Python without venv; virtualenv does the same.
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
	  || { $(PYTHON) -m pip install --quiet --user virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV); }

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[demo]'
	@touch $@

ifdef LOCK
$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt $(LOCK)
	$(PIP) torch
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement $(LOCK)
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/installed
else
$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/installed
endif
