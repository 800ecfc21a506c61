# Most targets make the environment first; for PYTHON, TORCH, ... see
# tools/env/make_env.py. `lint` and `test-quick` need neither it nor a compiler.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export VENV

.PHONY: env demo test test-quick test-pythons test-gpu rehearsal lint docs \
    pages recipes release check clean

env:
	@$(PYTHON) tools/env/make_env.py

demo: env
	$(BIN)/python projects/drawn_world/demo.py

# Several workers with one thread each are fastest.
test: env
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests -n auto \
	    --maxprocesses 4 --dist loadfile

# Before every commit: no data sets, no full runs.
QUICK = tests/models tests/datasets tests/test_architecture.py \
    tests/docs/test_pages.py

# In the environment, or in the active one with the extras pretrain and tests.
test-quick: lint
	OMP_NUM_THREADS=1 $(firstword $(wildcard $(BIN)/python) python) \
	    -m pytest $(QUICK) -q -n auto --maxprocesses 4 --dist loadfile

# The quick tests, the import and a first training, on every supported Python
# found on the PATH or in pyenv. Keeps the environments.
SUPPORTED = python3.10 python3.11 python3.12 python3.13

test-pythons: export PYENV_VERSION := \
    $(shell pyenv versions --bare 2>/dev/null | paste -sd : -)
test-pythons: QUICK += tests/test_import.py tests/test_check_env.py \
    tests/tools/test_newcomer.py
test-pythons:
	@for python in $(SUPPORTED); do \
	    $$python -c '' 2>/dev/null || { echo "no $$python"; continue; }; \
	    $(MAKE) env PYTHON=$$python VENV=.venv-$$python && \
	    $(MAKE) test-quick VENV=.venv-$$python QUICK='$(QUICK)' \
	        || exit 1; done

# Tests that differ on a GPU.
test-gpu: env
	$(BIN)/python -m pytest $(wildcard tests/gpu \
	    tests/configs/test_mixed_precision.py \
	    tests/models/test_mobile_former.py)

# Every recipe, on drawn data with the shape of ImageNet and COCO.
rehearsal: env
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m rehearsal $(ARGS)

# The environment's ruff, that on the PATH, or the lock's in a place of its own.
RUFF = $(firstword $(wildcard $(BIN)/ruff) $(shell command -v ruff) \
    .venv-lint/bin/ruff)

lint: $(RUFF)
	$(RUFF) check .

.venv-lint/bin/ruff:
	$(PYTHON) -m venv .venv-lint
	.venv-lint/bin/python -m pip -q install $$(grep ^ruff requirements/lock.txt)

# The site, in docs/_build/html; warnings (dead links) are errors.
docs: env
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs \
	    docs/_build/html
	@echo 'docs/_build/html/index.html'

# The generated pages. The sizes take some minutes.
pages: env
	$(BIN)/python tools/analysis/complexity.py --configs > docs/configs.md
	$(BIN)/python tools/analysis/complexity.py > docs/model_sizes.md

# The resolved configs that a test compares.
recipes: env
	$(BIN)/python -m pytest -q tests/configs/reference.py

# dist/: the sdist, and the wheel built from it, tried in an empty folder.
WHEEL = $(CURDIR)/build/wheel
PIP = $(BIN)/python -m pip -q

release: env
	rm -rf build dist
	mkdir -p build/empty
	$(BIN)/python -c 'import setuptools.build_meta as backend; \
	    backend.build_sdist("dist")'
	$(PIP) wheel --no-deps --no-build-isolation -w dist dist/*.tar.gz
	$(PIP) install --no-deps --no-index --target $(WHEEL) dist/*.whl
	cd build/empty && PYTHONPATH=$(WHEEL) ../../$(BIN)/python \
	    -m qbheat_mm.check_env

check:
	$(BIN)/python -m qbheat_mm.check_env

# Keeps .venv, work_dirs and the built mmcv.
clean:
	rm -rf build dist docs/_build *.egg-info .pytest_cache .ruff_cache
	find configs projects qbheat_mm tests tools -name __pycache__ -prune \
	    -exec rm -rf {} +
