# `make demo` and `make test` set everything up by themselves and are quick when run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-ray browser lint types tests bench docs dist experiments mutants fuzz chaos soak lock audit trace clean

help:
	@echo "make demo          match, adapt and report; A=one.jpg B=two.jpg matches your own images too"
	@echo "make test          formatter, linter, type checker and all tests"
	@echo "make test-ray      bulk matching on a real Ray of two workers"
	@echo "make experiments   every experiment of the paper in its quick form"
	@echo "make bench         speed as ratios"
	@echo "make docs          the documentation site, in site/"
	@echo "make dist          wheel and source distribution in dist/, checked, and tried in an empty environment"
	@echo "make fuzz          20,000 damaged files and requests; make chaos: kills and full disks; make soak: 50 clients"
	@echo "make lock          requirements.lock: every package with its SHA-256; make audit: known holes in them"
	@echo "make mutants       wrong changes that the tests must notice, one by one"

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/simsc demo --out demo $(if $(A),--source $(A)) $(if $(B),--target $(B))

test: $(STAMP) lint types tests

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

# The page is tested in a real browser: Debian's Chromium, where it can be installed; otherwise those tests are skipped.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
	  || echo "no Chromium: browser tests will be skipped"

tests: $(STAMP) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

# A part of the tests, by itself.
test-ray: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/bulk/test_ray.py

bench: $(STAMP)
	$(BIN)/simsc bench

# Damaged files and requests, each in a process of its own with limits; kills, full disks, shared outputs; many clients.
fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py
	OMP_NUM_THREADS=1 SIMSC_FUZZ_EXAMPLES=300 $(BIN)/python -m pytest tests/web/test_schema.py

chaos: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/chaos.py

soak: $(STAMP)
	$(BIN)/python tests/soak.py

# Every package with the SHA-256 of its file; whether one of them has a known hole (needs a network).
lock: $(STAMP)
	$(BIN)/python tests/lock.py

audit: $(STAMP)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --disable-pip --require-hashes -r requirements.lock

mutants: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants.py

# How many files and functions a command walks through.
trace: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/trace_files.py

experiments: $(STAMP)
	$(BIN)/simsc experiment all --quick --out runs/quick

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dist]'
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/dist.py dist

clean:
	rm -rf $(VENV) demo site dist fuzz-found .pytest_cache .mypy_cache .ruff_cache .hypothesis
