# Needs Python 3.11 or newer, make and a package index. Everything else is installed into .venv,
# in the versions that constraints.txt pins. Another Python: make PYTHON=/path/to/python clean test

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
BACKEND ?= memory:conformance
PROVE_MINUTES ?= 60

PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

.PHONY: help demo test long probes runtimes check format conform conform-postgres conform-redis conform-redis-cluster conform-template contract kill-matrix mutants bench prove soak clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

demo: $(STAMP)  ## an agent's conversation: kept, resumed, forked, recalled; then a verdict
	$(PY) examples/demo.py

test: $(STAMP)  ## the conformance suite on every backend (all of it in memory, else quick), then our own tests
	$(PY) -m conformance_tests --url memory:conformance -n 2
	$(PY) -m conformance_tests --url sqlite:$(VENV)/conformance.db -n 2 --quick
	$(PY) -m conformance_tests --url file:$(VENV)/conformance -n 2 --quick
	$(PY) -m tests.redis_server -- $(PY) -m conformance_tests --url '{url}' -n 2 --quick
	$(PY) -m tests.postgres_server -- $(PY) -m conformance_tests --url '{url}' -n 2 --quick
	$(PY) -m pytest -n 2 --ignore=tests/test_postgres_costs.py
	$(PY) -m pytest tests/test_postgres_costs.py  # alone: it counts what a whole server writes

long: $(STAMP)  ## what takes minutes: the whole suite everywhere, 100,000 power cuts, failovers
	$(PY) -m conformance_tests --url sqlite:$(VENV)/conformance.db -n 2
	$(PY) -m conformance_tests --url file:$(VENV)/conformance -n 2
	$(PY) -m tests.redis_server -- $(PY) -m conformance_tests --url '{url}' -n 2
	$(PY) -m tests.postgres_server -- $(PY) -m conformance_tests --url '{url}' -n 2
	$(PY) -m tests.redis_cluster -- $(PY) -m conformance_tests --url '{url}' -n 2 --quick
	$(PY) -m pytest -n 2 -m long

probes: $(STAMP)  ## other projects' own tests with our adapters in place
	$(PY) -m pytest -m probe

runtimes: $(STAMP)  ## the tests of every adapter, and the README's table of runtimes from them
	$(PY) -m tests.runtimes

check: $(STAMP)  ## style, types, import contracts, generated pages
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports
	$(PY) -m conformance_tests.contract --check
	$(PY) -m tests.tally --check
	$(PY) -m tests.runtimes --check

format: $(STAMP)  ## let ruff lay out and mend what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

conform: $(STAMP)  ## the suite on one backend: make conform BACKEND=memory:conformance
	$(PY) -m conformance_tests --url '$(BACKEND)'

conform-postgres: $(STAMP)  ## the whole suite on the Postgres of the tests
	$(PY) -m tests.postgres_server -- $(PY) -m conformance_tests --url '{url}' -n 2

conform-redis-cluster: $(STAMP)  ## the whole suite on six nodes, then its forks while slots move
	$(PY) -m tests.redis_cluster -- $(PY) -m conformance_tests --url '{url}' -n 2
	$(PY) -m tests.redis_slots -- $(PY) -m conformance_tests --url '{url}' -n 2 \
		-k 'test_fork or test_forest or test_racing' || test $$? = 3  # which is: a part, and sound

conform-redis: $(STAMP)  ## the whole suite on Redis 6.2, and on 8.2 where a vector set is always asked
	$(PY) -m tests.redis_server --version 6.2 -- $(PY) -m conformance_tests --url '{url}' -n 2
	$(PY) -m tests.redis_server -- $(PY) -m conformance_tests tests.redis_indexed:open_backend -n 2

conform-template: $(STAMP)  ## the whole suite on the stranger's backend of examples/, from wheels
	$(PY) -m tests.wheels

mutants: $(STAMP)  ## small changes to our code that the suite has to notice, into docs/mutants.md
	$(PY) -m tests.mutants memory
	$(PY) -m tests.mutants sqlite

contract: $(STAMP)  ## write docs/contract.md and docs/command-line.md anew, from docstrings and help
	$(PY) -m conformance_tests.contract --write
	$(PY) -m stores_cli.reference > docs/command-line.md

kill-matrix: $(STAMP)  ## the suite against every broken store, into docs/kill-matrix.md
	$(PY) -m conformance_tests.broken --jobs 2 --first --write docs/kill-matrix.json
	$(PY) -m conformance_tests.broken --jobs 2 --named --write docs/kill-matrix.json \
		--url 'sqlite:{folder}/{name}.db?durability=client'
	$(PY) -m tests.redis_server -- $(PY) -m conformance_tests.broken --jobs 2 --faults \
		--server-url '{url}' --write docs/kill-matrix.json

bench: $(STAMP)  ## what the operations cost
	$(PY) -m benchmarks

prove: $(STAMP)  ## repeat all checks for PROVE_MINUTES (60), tallied in docs/proof.json
	$(PY) -m tests.prove --minutes $(PROVE_MINUTES)

soak: $(STAMP)  ## as prove, until interrupted
	$(PY) -m tests.prove

clean:  ## forget the venv and everything that was made
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one: make PYTHON=..." >&2; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt hatchling editables
	$(PY) -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@
