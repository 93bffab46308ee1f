# make tune     set up, then tune a network and compare it with onnxruntime (about 5 minutes)
# make check    set up, then lint, types, imports and architecture tests (under 30 s)
# make test     set up, then check and test everything but the long tests (no GPU, no network access
#               after set-up)
# make test-slow  set up, then run the long tests, and those of random programs on more of them
# make wheel    set up, then build a wheel into dist; prints its size and what an import takes
# make docs     set up, then build the documentation as a site in out/docs; warnings are errors
# make campaign set up, then attack everything with random cases for MINUTES (docs/campaign.md)
# make bench    set up with the rivals, then run the benchmarks and regenerate the README's table
# Overridable: MODEL (a zoo name or an .onnx file), BUDGET, LOG, TARGET, PYTHON, VENV, ARGS, and
# NETWORKS (those that `make bench` compares, or all); of the campaign MINUTES, PART, SEED and JOBS.

VENV   ?= .venv
MODEL  ?= resnet-18
BUDGET ?= 5m
TARGET ?= cpu
NETWORKS ?= all
LOG    ?= out/$(basename $(notdir $(MODEL))).jsonl
ARGS   ?=
MINUTES ?= 60

BIN := $(VENV)/bin
# One process more than cores, at most four: some tests wait.  tests/support/scheduling.py says which
# tests run in one process.
PARALLEL := -n $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4))) --dist loadfile --no-loadscope-reorder
RUN_STAMP    := $(VENV)/.installed-onnx
DEV_STAMP    := $(VENV)/.installed-dev
RIVALS_STAMP := $(VENV)/.installed-rivals
DOCS_STAMP   := $(VENV)/.installed-docs
SETUP_INPUTS := pyproject.toml scripts/setup

.PHONY: help tune check test test-slow lint format wheel docs bench campaign clean

help:
	@sed -n 's/^# //p' Makefile

$(RUN_STAMP): $(SETUP_INPUTS)
	@scripts/setup $(VENV) onnx
	@touch $@

$(DEV_STAMP): $(SETUP_INPUTS)
	@scripts/setup $(VENV) dev
	@touch $@ $(RUN_STAMP)

$(RIVALS_STAMP): $(SETUP_INPUTS) benchmarks/requirements.txt
	@scripts/setup $(VENV) onnx
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

$(DOCS_STAMP): $(SETUP_INPUTS)
	@scripts/setup $(VENV) docs
	@touch $@

tune: $(RUN_STAMP)
	@mkdir -p $(dir $(LOG))
	@$(BIN)/autosched tune $(MODEL) --target $(TARGET) --budget $(BUDGET) --log $(LOG) $(ARGS)

lint: $(DEV_STAMP)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(DEV_STAMP)
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

# The checks run beside the tests of these two, which come first where a core is short.
define beside_lint
mkdir -p out; nice -n 5 $(MAKE) --no-print-directory lint >out/lint.txt 2>&1 & lint=$$!; \
$(BIN)/python -m pytest -q $(1) $(ARGS); tests=$$?; \
if wait $$lint; then exit $$tests; fi; cat out/lint.txt; echo 'make lint failed (above)'; exit 1
endef

check: $(DEV_STAMP)
	@$(call beside_lint,-n 0 tests/architecture)

test: $(DEV_STAMP)
	@$(call beside_lint,$(PARALLEL))

test-slow: $(DEV_STAMP)
	@$(BIN)/python -m pytest -q $(PARALLEL) -m "slow or drawn" \
		--hypothesis-profile long --timeout 1200 $(ARGS)

wheel: $(DEV_STAMP)
	@rm -rf dist
	@$(BIN)/python -m pip wheel -qq --disable-pip-version-check --no-deps --wheel-dir dist .
	@wc -c dist/*.whl
	@$(BIN)/python -X importtime -c 'import autosched' 2>&1 | sed -n '$$s/.*| *\([0-9]*\) |.*/import autosched: \1 us/p'

docs: $(DOCS_STAMP)
	@$(BIN)/python -m scripts.site out/docs out/docs-work

campaign: $(DEV_STAMP)
	@$(BIN)/python -m campaign --minutes $(MINUTES) --json out/campaign.json \
		$(PART:%=--part %) $(SEED:%=--seed %) $(JOBS:%=--jobs %) $(ARGS)

# Of the other networks the rows that are there stay.
COMPARED = $(if $(filter all,$(NETWORKS)),--all,--networks $(NETWORKS) --keep)

# bfloat16 needs a CPU that has it: on others that part says so, and the rest goes on.
bench: $(RIVALS_STAMP)
	@$(BIN)/python -m benchmarks.ops --json benchmarks/results/ops.json
	@$(BIN)/python -m benchmarks.layers --json benchmarks/results/layers.json
	@$(BIN)/python -m benchmarks.attention --json benchmarks/results/attention.json
	@$(BIN)/python -m benchmarks.int8 --json benchmarks/results/int8.json
	@$(BIN)/python -m benchmarks.narrow_weights --json benchmarks/results/narrow_weights.json
	@$(BIN)/python -m benchmarks.search --json benchmarks/results/search.json
	@$(BIN)/python -m benchmarks.policies --json benchmarks/results/policies.json
	@$(BIN)/python -m benchmarks.fleet --json benchmarks/results/fleet.json
	@$(BIN)/python -m benchmarks.compile_time --json benchmarks/results/compile_time.json
	@$(BIN)/python -m benchmarks.tuning_rate --json benchmarks/results/tuning_rate.json
	@$(BIN)/python -m benchmarks.onnx_nodes --json benchmarks/results/onnx_nodes.json
	@$(BIN)/python -m benchmarks.networks $(COMPARED) --budget 10m --skip-tuned \
		--logs benchmarks/logs --json benchmarks/results/networks.json
	@$(BIN)/python -m benchmarks.quantised --json benchmarks/results/quantised.json
	-@$(BIN)/python -m benchmarks.bf16 --json benchmarks/results/bf16.json
	@$(BIN)/python -m benchmarks.no_log $(COMPARED) --logs benchmarks/logs \
		--json benchmarks/results/no_log.json
	@rm -rf out/distilled
	@$(BIN)/autosched records distill benchmarks/logs/*.jsonl -o out/distilled
	@mv out/distilled/*.jsonl benchmarks/logs/
	@$(BIN)/python -m benchmarks.readme_table

clean:
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
