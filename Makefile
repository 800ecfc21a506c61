# `make demo` and `make test` need nothing before them: both make the
# environment first. PYTHON, TORCH, ... : see tools/env/make_env.py.
PYTHON ?= python3

.PHONY: env demo test test-quick test-gpu lint docs pages recipes release check \
    clean

env:
	@$(PYTHON) tools/env/make_env.py

demo: env
	.venv/bin/python tools/demo/run_demo.py

# Workers of one thread use the cores better than one process of several.
test: env
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest tests -n auto \
	    --maxprocesses 4 --dist loadfile

# Before every commit: what needs neither data nor a whole run.
QUICK = tests/models tests/annotations tests/datasets \
    tests/docs/test_pages.py \
    tests/test_architecture.py \
    tests/cli/test_options.py

test-quick: lint
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest $(QUICK) -q -n auto \
	    --maxprocesses 4 --dist loadfile

# What only a GPU can show; skipped without one.
test-gpu: env
	.venv/bin/python -m pytest tests/gpu tests/datasets/test_decoding.py \
	    tests/configs/test_mixed_precision.py tests/models/test_mobile_former.py

lint: env
	.venv/bin/python -m ruff check .

# The site, in docs/_build/html; a warning, as of a dead link, is an error.
docs: env
	.venv/bin/python -m sphinx -W --keep-going -n -q -b html docs \
	    docs/_build/html
	@echo 'docs/_build/html/index.html'

# The pages that are made of the code. The sizes take some minutes.
pages: env
	.venv/bin/python tools/docs/configs_page.py
	.venv/bin/python tools/analysis/complexity.py --markdown \
	    > docs/model_sizes.md

# What the configurations resolve to, for the test that notices changes.
recipes: env
	cd tests && ../.venv/bin/python -m configs.reference

# sdist and wheel in dist/, the wheel tried in an environment of its own.
release: env
	.venv/bin/python tools/release/build.py

check:
	.venv/bin/python -m qbheat_mm.check_env

# Caches and builds only: neither .venv nor work_dirs nor the built mmcv.
clean:
	rm -rf build dist docs/_build *.egg-info .pytest_cache .ruff_cache
	find configs qbheat_mm tests tools -name __pycache__ -prune \
	    -exec rm -rf {} +
