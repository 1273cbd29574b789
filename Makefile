# The two commands: make demo, make test. Also: make lab, make lint.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lab lint rules notebooks clean

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lab: $(VENV)/.notebook
	$(BIN)/jupyter lab

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

rules: $(VENV)/.test
	$(BIN)/python tests/break_rules.py

notebooks: $(VENV)/.test
	$(BIN)/python notebooks/run.py

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; say which one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.base: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(VENV)/.test: $(VENV)/.base
	$(PIP) -e '.[test]'
	touch $@

$(VENV)/.notebook: $(VENV)/.base
	$(PIP) -e '.[notebook]'
	touch $@
