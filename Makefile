# Relative paths only, and `python -m TOOL` for every tool: a script in .venv/bin starts with the
# interpreter's full path, which breaks in a folder with a space in its name.

PYTHON ?= python3
ARGS ?=
PY := .venv/bin/python
STAMP := .venv/.installed

# The stamp holds the folder it was made in: a venv that was moved, copied or half made is installed again.
$(shell { test -x $(PY) && test "$$(cat $(STAMP) 2>/dev/null)" = "$$(pwd)"; } || rm -f $(STAMP))

# JupyterLab refuses to start as root unless told that this is meant.
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.DEFAULT_GOAL := help
.PHONY: help setup lab test lint figures notebooks

help:
	@echo "make lab       open the notebooks in JupyterLab (the first time: install into .venv, a few minutes)"
	@echo "               make lab ARGS=\"--no-browser --port 8899\" passes options on"
	@echo "make test      check everything: lint, unit tests, notebooks, browser, links"
	@echo "make figures   run every study in full and draw figures/ (hours; ARGS=\"--workers 2\")"
	@echo "make notebooks run notebooks/text/*.py into notebooks/*.ipynb, outputs in"
	@echo "make setup     install, and nothing else"
	@echo "make lint      ruff alone"
	@echo "another Python: make PYTHON=python3.12 lab"

setup: $(STAMP)

# torch==2.13.0 admits any build of that release. On Linux without an NVIDIA GPU, PyTorch's site says how to
# choose the CPU build; install that into .venv first and it stays.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "labkit needs Python 3.11 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || true)"; \
	  echo "Install one:  Debian, Ubuntu   sudo apt-get install python3.11 python3.11-venv"; \
	  echo "              Fedora           sudo dnf install python3.11"; \
	  echo "              macOS            brew install python@3.11"; \
	  echo "              conda            conda env create -f environment.yml"; \
	  echo "Then name it: make PYTHON=python3.11 lab"; exit 1; }
	@$(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "making .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing into .venv (a few minutes the first time)"
	@$(PY) -m pip install --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@$(PY) -m ipykernel install --sys-prefix --name labkit --display-name "Python (labkit)"
	@pwd > $(STAMP)

# The server's root is the repository, so that notebooks reach ../figures and ../labkit.
lab: $(STAMP)
	@mkdir -p notebooks
	$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/notebooks $(ALLOW_ROOT) $(ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

# nbmake runs each notebook from a fresh kernel, in its own folder.
test: lint
	LABKIT_PROFILE=smoke $(PY) -m pytest --nbmake --nbmake-timeout=600 tests $(wildcard notebooks) $(ARGS)

# What is already there is not run again, and an interrupted run goes on where it stopped.
figures: $(STAMP)
	@for study in $$($(PY) -c 'from labkit.studies import STUDIES; print(*STUDIES)'); do \
	  echo "$(PY) -m labkit run $$study --profile full $(ARGS)"; \
	  $(PY) -m labkit run $$study --profile full $(ARGS) || exit; \
	done
	$(PY) -m labkit figures

notebooks: $(STAMP)
	$(PY) -m labkit.workshop.build $(ARGS)
