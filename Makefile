# `make run` and `make test` set up everything they need; see scripts/set-up.
VENV := .venv
VLLM_VENV := .venv-vllm
# Separate environment for tools that inspect .venv, so that they are not part of what they list.
TOOLS := .venv-tools
TEST_PROCESSES ?= 3
TESTS = $(VENV)/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadfile
SITE = NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict --quiet
PIP_FILES := setup.cfg pyproject.toml constraints.txt constraints-cpu.txt scripts/set-up

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-oldest test-adapters test-vllm lint docs bench train audit sbom wheel licences pins hashes setup clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/ready-run $(VENV)/view3d ## set up, then answer the questions about the bundled rooms and write the report
	$(VENV)/bin/render-agent --batch --benchmark rooms --model small --image-size 320x240
	$(VENV)/bin/render-agent report recent

test: $(VENV)/ready-test $(VENV)/browser $(VENV)/view3d ## set up, then run the tests except slow ones
	$(TESTS) -m "not slow"

test-all: $(VENV)/ready-test $(VENV)/browser $(VENV)/view3d ## set up, then run all tests
	$(TESTS)

test-oldest: $(VENV)/ready-test ## set up, then run the engine's tests with the oldest supported transformers
	@scripts/test-oldest

test-adapters: $(VENV)/ready-test ## set up .venv-adapters, then run the tests of the environments for verifiers and OpenEnv
	@scripts/test-adapters

test-vllm: $(VLLM_VENV)/ready ## set up .venv-vllm, then run the tests of --engine vllm
	$(VLLM_VENV)/bin/python -m pytest tests/with_vllm

lint: $(VENV)/ready-lint ## set up, then check style and types, and build the documentation
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@# From another folder, so that mypy finds the package as users do: as it is installed.
	cd tests/api && $(CURDIR)/$(VENV)/bin/mypy --config-file $(CURDIR)/setup.cfg \
		--cache-dir $(CURDIR)/.mypy_cache/installed typed_keywords.py
	$(SITE)

docs: $(VENV)/ready-lint ## set up, then build the documentation into build/docs
	$(SITE)
	@echo build/docs/index.html

bench: $(VENV)/ready-run ## set up, then time the renderers
	$(VENV)/bin/python -m render_agent_lab.bench.render

train: $(VENV)/ready-test ## set up, then train the small model from scratch (hours on a CPU); resumes if interrupted
	$(MAKE) -f training/Makefile PYTHON=$(VENV)/bin/python

audit: $(TOOLS)/ready ## check every pinned package for known vulnerabilities; needs network access
	$(TOOLS)/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt -r constraints-cpu.txt

licences: $(TOOLS)/ready $(VENV)/ready-run ## list the licences of the installed packages
	$(TOOLS)/bin/pip-licenses --python $(VENV)/bin/python --with-urls

sbom: $(TOOLS)/ready $(VENV)/ready-run ## write a software bill of materials of .venv to build/sbom.cdx.json (CycloneDX)
	@mkdir -p build
	$(TOOLS)/bin/cyclonedx-py environment --output-reproducible --spec-version 1.6 --output-file build/sbom.cdx.json $(VENV)/bin/python

hashes: $(TOOLS)/ready ## write all pins with SHA-256 to build/requirements.txt, for pip --require-hashes
	@mkdir -p build
	$(TOOLS)/bin/uv pip compile --quiet --no-deps --no-annotate --generate-hashes --output-file build/requirements.txt constraints.txt constraints-cpu.txt

wheel: $(VENV)/ready-run $(VENV)/view3d ## set up, then build a reproducible wheel into dist/
	@scripts/wheel

pins: ## upgrade to the newest packages that setup.cfg allows, and pin them in constraints.txt
	@UNPINNED=1 scripts/set-up test,lint,docs
	@{ sed '/^[^#]/,$$d' constraints.txt; $(VENV)/bin/python -m pip freeze --exclude-editable \
		--exclude torch --exclude torchvision; } >constraints.new
	@mv constraints.new constraints.txt

setup: $(VENV)/ready-lint $(VENV)/view3d ## set up only: .venv, packages, system libraries, compiled kernels, ruff, mypy

clean: ## remove all environments and caches; keeps runs
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-adapters $(TOOLS) $(VLLM_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/ready-run: EXTRAS := report
$(VENV)/ready-test: EXTRAS := test
$(VENV)/ready-lint: EXTRAS := test,lint,docs

# The stamp is written last, so an interrupted set-up starts again. All extras share one environment and include what a
# run needs, so after any of them `make run` has nothing left to set up.
$(VENV)/ready-%: $(PIP_FILES)
	@scripts/set-up $(EXTRAS)
	@touch $@ $(VENV)/ready-run

# The 3D view of report pages needs three.js, installed with npm; without npm the pages say what is missing.
$(VENV)/view3d: | $(VENV)/ready-run
$(VENV)/view3d: scripts/view3d/build scripts/view3d/view3d.js scripts/view3d/package-lock.json
	@scripts/view3d/build
	@touch $@

# Only the tests of pages need a browser.
$(VENV)/browser: $(VENV)/ready-test scripts/set-up-browser
	@scripts/set-up-browser
	@touch $@

$(TOOLS)/ready:
	$(or $(PYTHON),python3) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit pip-licenses cyclonedx-bom uv
	@touch $@

$(VLLM_VENV)/ready: setup.cfg pyproject.toml scripts/set-up-vllm scripts/cure_before_torchvision.py
	@scripts/set-up-vllm
	@touch $@
