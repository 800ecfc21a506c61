# `make demo` and `make test` need nothing before them: both make the
# environment first. PYTHON, TORCH, ... : see tools/env/make_env.py.
PYTHON ?= python3

.PHONY: env demo test lint recipes check clean

env:
	@$(PYTHON) tools/env/make_env.py

demo: env
	.venv/bin/python tools/demo/run_demo.py

# Workers of one thread use the cores better than one process of several.
test: env
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest tests -n auto \
	    --maxprocesses 4 --dist loadfile

lint: env
	.venv/bin/python -m ruff check .

# What the configurations resolve to, for the test that notices changes.
recipes: env
	cd tests && ../.venv/bin/python -m configs.reference

check:
	.venv/bin/python -m qbheat_mm.check_env

# Caches and builds only: neither .venv nor work_dirs nor the built mmcv.
clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
	find configs qbheat_mm tests tools -name __pycache__ -prune \
	    -exec rm -rf {} +
