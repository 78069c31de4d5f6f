# `make run` and `make test` do all the set-up themselves; see scripts/set-up.
VENV := .venv
VLLM_VENV := .venv-vllm
TEST_PROCESSES ?= 3
# What is compiled is kept: tests start the program again and again.
TESTS = PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
SITE = NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict --quiet
PIP_FILES := setup.cfg pyproject.toml constraints.txt constraints-cpu.txt $(wildcard hashes.txt) scripts/set-up

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-oldest test-vllm lint docs bench train audit sbom wheel licences pins hashes setup clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/ready-run $(VENV)/view3d ## set up, then explore the bundled rooms, answer their questions, write the report
	$(VENV)/bin/render-agent --batch --benchmark rooms --model small --image-size 320x240
	$(VENV)/bin/render-agent report recent

test: $(VENV)/ready-test $(VENV)/browser $(VENV)/view3d ## set up, then run the tests, without those marked slow
	$(TESTS) -m "not slow"

test-all: $(VENV)/ready-test $(VENV)/browser $(VENV)/view3d ## set up, then run all tests, also those marked slow
	$(TESTS)

test-oldest: $(VENV)/ready-test ## set up, then run the engine's tests with the oldest transformers that is supported
	@scripts/test-oldest

test-vllm: $(VLLM_VENV)/ready ## set up .venv-vllm, then run the tests of --engine vllm
	$(VLLM_VENV)/bin/python -m pytest tests/with_vllm

lint: $(VENV)/ready-lint ## set up, then check style and types, and build the documentation
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy tests/api/typed_keywords.py
	$(VENV)/bin/python scripts/reference.py --check
	$(SITE)

docs: $(VENV)/ready-lint ## set up, then build the documentation into build/docs, to open from disk
	$(VENV)/bin/python scripts/reference.py
	$(SITE)
	@echo build/docs/index.html

bench: $(VENV)/ready-bench ## set up, then time the renderers
	$(VENV)/bin/python benchmarks/render.py

train: $(VENV)/ready-test ## set up, then make the small model from nothing: hours on a processor; goes on where it stopped
	$(VENV)/bin/python -m training.make .training

audit: ## ask whether a pinned package has a known hole; needs a network, or AUDIT_COPY=all.zip
	@scripts/audit

sbom: $(VENV)/ready-run ## set up, then write what is installed as a bill of materials: build/sbom.cdx.json (CycloneDX)
	@scripts/sbom

wheel: $(VENV)/ready-run $(VENV)/view3d ## set up, then build the wheel into dist/: the same bytes from the same commit
	@scripts/wheel

licences: $(VENV)/ready-lint ## set up, then write docs/licences.md: the packages and their licences
	$(VENV)/bin/python scripts/licences.py

pins: ## take the newest packages that setup.cfg allows, and pin them in constraints.txt
	@UNPINNED=1 scripts/set-up test,lint,docs
	@{ sed '/^[^#]/,$$d' constraints.txt; $(VENV)/bin/python -m pip freeze --exclude-editable \
		--exclude torch --exclude torchvision; } >constraints.new
	@mv constraints.new constraints.txt

hashes: $(VENV)/ready-lint ## write the SHA-256 of every pinned package into hashes.txt
	@scripts/hashes

setup: $(VENV)/ready-test $(VENV)/view3d ## set up only: .venv, packages, system libraries, compiled kernels

clean: ## remove all environments and caches; runs are kept
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-audit $(VLLM_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/ready-run: EXTRAS := report
$(VENV)/ready-test: EXTRAS := test
$(VENV)/ready-lint: EXTRAS := test,lint,docs
$(VENV)/ready-bench: EXTRAS := test,bench

# The stamp is written last: a set-up that was interrupted begins again. All sets of extras lie in one environment and
# hold what a run needs: after any of them nothing is left to do for `make run`.
$(VENV)/ready-%: $(PIP_FILES)
	@scripts/set-up $(EXTRAS)
	@touch $@ $(VENV)/ready-run

# The pages of reports show scans in 3D with three.js, which npm brings; without npm a sentence says what is missing.
$(VENV)/view3d: | $(VENV)/ready-run
$(VENV)/view3d: scripts/view3d/build scripts/view3d/view3d.js scripts/view3d/package-lock.json
	@scripts/view3d/build
	@touch $@

# The tests of pages need a browser; nothing else does.
$(VENV)/browser: $(VENV)/ready-test scripts/set-up-browser
	@scripts/set-up-browser
	@touch $@

$(VLLM_VENV)/ready: setup.cfg pyproject.toml scripts/set-up-vllm scripts/cure_before_torchvision.py
	@scripts/set-up-vllm
	@touch $@
