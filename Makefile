# Every target does all the set-up that it needs: a Python (3.11 or newer) and a C compiler are enough.
# Another interpreter: make PYTHON=python3.13 test

VENV := .venv
BIN := $(VENV)/bin
LONG := slow or shared
STAMP := $(VENV)/.installed
DEMO_STAMP := $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/.installed-report)
BUILD_FILES := pyproject.toml setup.py ci/setup.sh ci/requirements.py ci/find_python.sh
CORE := $(wildcard fastcep/_core/*/*.pyx fastcep/_core/*/*.pxd fastcep/_core/*/*.h)
export PYTHON
# Set, every process would compile again what it imports, because pip installs no bytecode (ci/setup.sh).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test unit-tests ci check bench peers compare figures site lint types clean help

help:
	@echo "make demo     hot paths in a year of bike trips"
	@echo "make test     set up, lint, and all unit tests; a few minutes"
	@echo "make ci       what else must hold for every change: more examples, kills, clusters, the wheel, a checked build"
	@echo "make check    the tests with full counts, mutants, the slow ones and those on shared data; hours"
	@echo "make bench    the benchmarks, and one table of them"
	@echo "make peers    fastcep and its peers on the limit queries (downloads them)"
	@echo "make compare BEFORE=commit  the limit queries before and now"
	@echo "make figures  the pictures of the README and docs; runs the papers' figures (about an hour)"
	@echo "make site     the documentation as a site, in build/site"
	@echo "make lint     ruff and mypy"
	@echo "make types    pyright: the examples, and the types of the public interface"
	@echo "make clean    remove what was built"

$(STAMP): $(BUILD_FILES) $(CORE)
	@ci/setup.sh $(VENV) dev
	@touch $@

$(VENV)/.installed-report: $(BUILD_FILES) $(CORE)
	@ci/setup.sh $(VENV) report
	@touch $@

demo: $(DEMO_STAMP)
	@mkdir -p build
	@$(BIN)/fastcep demo --picture build/hot_paths.png

figures: $(STAMP)
	@mkdir -p docs/images build
	$(BIN)/fastcep demo --picture docs/images/hot_paths.png
	sed -n '/^```cep/,/^```$$/{/^```/!p}' docs/explain.md > build/explain.cep
	$(BIN)/fastcep explain build/explain.cep --output docs/images/explain.svg
	$(BIN)/python -m bench.plots
	$(BIN)/python -m bench.degree
	$(BIN)/python -m bench.migration
	$(BIN)/python -m bench.papers --seeds 3 --jobs 2 --reports build/papers

# The site reads the sources: nothing is compiled for it.
$(VENV)/.installed-docs: pyproject.toml ci/requirements.py
	@test -x $(BIN)/python || "$$(ci/find_python.sh)" -m venv $(VENV)
	@$(BIN)/python ci/requirements.py run docs | $(BIN)/python -m pip install -qq --disable-pip-version-check -r /dev/stdin
	@touch $@

site: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# basedpyright is pyright in wheels, with Node.js; it downloads nothing when it runs.
$(VENV)/.installed-types: $(STAMP) pyproject.toml ci/requirements.py
	@$(BIN)/python ci/requirements.py run types | $(BIN)/python -m pip install -qq --disable-pip-version-check -r /dev/stdin
	@touch $@

types: $(VENV)/.installed-types
	$(BIN)/python ci/check_types.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy --strict fastcep examples/*.py
	$(BIN)/python ci/check_prose.py
	$(BIN)/python ci/mutations.py --list > /dev/null

# Lint runs beside the tests; both run to their end, even if one fails.
test: $(STAMP)
	@$(MAKE) --no-print-directory -j 2 --keep-going lint unit-tests

unit-tests: $(STAMP)
	FASTCEP_EXAMPLES=5 ci/tests.sh $(BIN)/python "not ($(LONG) or thorough or spark)" "not (slow or thorough)"

ci: $(STAMP)
	FASTCEP_EXAMPLES=80 ci/tests.sh $(BIN)/python "(property or thorough) and not ($(LONG) or spark)" "thorough and not slow"
	ci/wheel_smoke.sh $(BIN)/python
	FASTCEP_EXAMPLES=60 ci/debug_build.sh $(BIN)/python

check: lint types
	FASTCEP_EXAMPLES=5000 $(BIN)/python -m pytest -q -n 2 -m "not spark"
	PYTHONPATH=.:tests $(BIN)/python -m matrix
	FASTCEP_EXAMPLES=200 $(BIN)/python ci/mutations.py
	FASTCEP_KILLS=50 ci/spark_tests.sh $(BIN)/python
	ci/wheel_smoke.sh $(BIN)/python
	FASTCEP_EXAMPLES=500 ci/debug_build.sh $(BIN)/python

bench: $(STAMP)
	$(BIN)/python -m pytest -q bench --benchmark-enable -m ""
	$(BIN)/python -m bench

peers: $(STAMP)
	$(BIN)/python -m bench.peers --setup

compare: $(STAMP)
	$(BIN)/python -m bench.compare_versions $(BEFORE)

clean:
	rm -rf $(VENV) build dist *.egg-info fastcep/_core/*/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
