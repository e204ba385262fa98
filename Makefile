# `make run` and `make test` each work as the first command on a fresh machine with Python 3.11 and make.
PYTHON ?= python3.11
PYTEST_ARGS ?= -n auto
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test lint bench clean

run: $(STAMP)
	$(BIN)/bench run suite=minigrid_doorkey task=5x5 method=uer,per,vlm_rb profile=quick seeds=3 output=runs/doorkey

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
