# All targets make the environment first; for PYTHON, TORCH, ... see
# tools/env/make_env.py.
PYTHON ?= python3

.PHONY: env demo test test-quick test-gpu lint docs pages recipes release check \
    clean

env:
	@$(PYTHON) tools/env/make_env.py

demo: env
	.venv/bin/python projects/drawn_world/demo.py

# Several workers with one thread each are fastest.
test: env
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest tests -n auto \
	    --maxprocesses 4 --dist loadfile

# Before every commit: no data sets, no full runs.
QUICK = tests/models tests/datasets tests/test_architecture.py \
    tests/docs/test_pages.py

test-quick: lint
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest $(QUICK) -q -n auto \
	    --maxprocesses 4 --dist loadfile

# Tests that differ on a GPU.
test-gpu: env
	.venv/bin/python -m pytest $(wildcard tests/gpu \
	    tests/configs/test_mixed_precision.py \
	    tests/models/test_mobile_former.py)

lint: env
	.venv/bin/python -m ruff check .

# The site, in docs/_build/html; warnings (dead links) are errors.
docs: env
	.venv/bin/python -m sphinx -W --keep-going -n -q -b html docs \
	    docs/_build/html
	@echo 'docs/_build/html/index.html'

# The generated pages. The sizes take some minutes.
pages: env
	.venv/bin/python tools/docs/configs_page.py
	.venv/bin/python tools/analysis/complexity.py > docs/model_sizes.md

# The resolved configs that a test compares.
recipes: env
	cd tests && ../.venv/bin/python -m configs.reference

# dist/: the sdist, and the wheel built from it, tried in an empty folder.
WHEEL = $(CURDIR)/build/wheel
PIP = .venv/bin/python -m pip -q

release: env
	rm -rf build dist
	mkdir -p build/empty
	.venv/bin/python -c 'import setuptools.build_meta as backend; \
	    backend.build_sdist("dist")'
	$(PIP) wheel --no-deps --no-build-isolation -w dist dist/*.tar.gz
	$(PIP) install --no-deps --no-index --target $(WHEEL) dist/*.whl
	cd build/empty && PYTHONPATH=$(WHEEL) ../../.venv/bin/python \
	    ../../tools/release/smoke.py $(WHEEL)

check:
	.venv/bin/python -m qbheat_mm.check_env

# Keeps .venv, work_dirs and the built mmcv.
clean:
	rm -rf build dist docs/_build *.egg-info .pytest_cache .ruff_cache
	find configs projects qbheat_mm tests tools -name __pycache__ -prune \
	    -exec rm -rf {} +
