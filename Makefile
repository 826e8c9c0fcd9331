# Every target does its own set-up in .venv: a fresh clone needs only Python 3.10+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test lint bench generated clean
.DEFAULT_GOAL := test

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

# Set on some machines; then each of the processes that the tests start, hundreds, would compile the package anew.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --cov --cov-report=term

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy

# A part: make bench BENCH="--sizes 10k --peers ours,numpy" CHECKS="--sizes 10k" MESH="--seconds 5 --chunks 20000" SCALE="--most 300"
bench: $(VENV)/.ready
	$(BIN)/python bench/run.py $(BENCH); peers=$$?; $(BIN)/python bench/checks.py $(CHECKS); checks=$$?; \
	$(BIN)/python bench/core.py; core=$$?; $(BIN)/python bench/tracing.py; tracing=$$?; \
	$(BIN)/python bench/contract.py; contract=$$?; $(BIN)/python bench/mesh.py $(MESH); mesh=$$?; \
	$(BIN)/python bench/log.py; log=$$?; $(BIN)/python bench/answers.py; answers=$$?; $(BIN)/python bench/attacks.py; attacks=$$?; \
	$(BIN)/python bench/scale.py $(SCALE) && $(BIN)/python bench/quality.py && \
	exit $$((peers | checks | core | tracing | contract | mesh | log | answers | attacks))

generated: $(VENV)/.ready
	$(BIN)/python -c 'import rag_stdlib.errors as errors; print(errors.errors_markdown(), end="")' > docs/errors.md
	$(BIN)/python vectors/make.py

clean:
	rm -rf $(VENV) demo-data build *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache
