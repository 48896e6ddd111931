"""Versions of the program's own code: an asset is due when code that decides its result has changed.

What decides a result is named here by functions; what these call, in turn, is found (`code_graph`). So a
version does not depend on where code lies or what it is called. Left out is what only shows a result, moves
data about or opens something. Cheap assets name the function of the whole stage; those that take an
accelerator or money name what their numbers rest on.

A change that is known to leave every result as it was need not make anything due: then the new code goes on
under the version of the old (`code_versions.json`, written by `make keep-versions`).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import trace_assets
from trace_assets.code_graph import CodeGraph
from trace_assets.shipped import shipped

ROOT = Path(trace_assets.__file__).resolve().parent
KEPT = ROOT / "code_versions.json"
"""Name to the hash of its code, and to the version of the earlier code that gave the same results."""
REMEMBERED = Path("__pycache__", "code_versions.hashes")
"""Below the package: hashes that another process has found of the same source files."""

PASSED = (
    *("assets.asset", "cli", "code_graph", "code_versions", "definitions", "errors"),
    *("orchestration", "records", "report", "resources", "sandbox", "serving", "settings", "store", "study"),
    *("rollouts.parallel", "shipped", "system", "workflows"),
    *(
        "diagnosis.llm.budget",
        "diagnosis.llm.client",
        "diagnosis.llm.recording",
        "diagnosis.llm.prices",
    ),
    *("policies.openai_connection", "policies.openai_faults"),
)
"""What only shows, moves, opens or waits; records and settings count by their content."""

_PLAYED = ("policies", "rollouts.episode", "rollouts.runner:run_rollouts")
_SEEDED = ("targets.sandboxed", "targets.seeds")
_WORKER = ("__main__", "leaf", "machine", "modules", "supervisor", "vdso", "wire", "zygote")
_PROMPTS = "diagnosis/llm/prompts"
_SHARED = (
    *("diagnosis.llm.request", "diagnosis.llm.transcript"),
    *(
        "diagnosis.llm.request",
        "diagnosis.llm.reading",
        "diagnosis.llm.json_reply",
        "diagnosis.llm.json_reply",
    ),
    *(f"{_PROMPTS}/{name}.md" for name in ("repair", "transcript", "context")),
)
_DETECTORS = ("diagnosis.detector_analyst", "diagnosis.detectors", "diagnosis.candidates")
_DISCOVERY = (
    *_SHARED,
    *(f"diagnosis.llm.{name}" for name in ("discovery", "batches", "merging", "found_again")),
    *(f"{_PROMPTS}/{name}.md" for name in ("discover", "discover_batch", "merge", "recognise")),
)
_LABELLING = (
    *_SHARED,
    "diagnosis.llm.labelling:ModelLabeller",
    *(f"{_PROMPTS}/{name}.md" for name in ("label", "label_ask", "blind")),
)
_WRITERS = "environments/writers/prompts"

DECIDED_BY: Mapping[str, tuple[str, ...]] = {
    "tasks": ("assets.trajectories:tasks_of", "targets"),
    "base_model": ("training.demo_agent.pretraining:train_base", "targets.embedded"),
    "trajectories": (*_PLAYED, "targets"),
    "triage": (
        "assets.triage:triage_batch",
        *(f"{_PROMPTS}/{name}.md" for name in ("triage", "triage_ask", "context", "transcript")),
    ),
    "suspect_tasks": ("assets.triage:write_suspects",),
    "lucky_passes": ("assets.triage:write_lucky",),
    "capability_dictionary": ("assets.capability_dictionary:discover", *_DETECTORS, *_DISCOVERY),
    "batch_capabilities": ("assets.labels:write_batch_capabilities",),
    "labels": ("assets.labels:label_batch", *_DETECTORS, *_LABELLING),
    "lack_causes": (
        *(*_SHARED, "assets.failure_causes:judge_batch", "diagnosis.llm.causes"),
        *(f"{_PROMPTS}/{name}.md" for name in ("cause", "cause_ask")),
    ),
    "label_leak": ("assets.selected_capabilities:write_leak",),
    "repairs": ("assets.failure_causes:write_repairs", "targets"),
    "contrast": ("assets.contrast:estimate_contrast",),
    "selected_capabilities": ("assets.selected_capabilities:select_capabilities",),
    "capability_spec": ("assets.selected_capabilities:write_spec",),
    "failure_causes": ("assets.failure_causes:write_causes",),
    "stability": ("assets.selected_capabilities:estimate_stability", "diagnosis.detectors"),
    "policy_contrast": ("assets.contrast:contrast_policies",),
    "drift": ("assets.contrast:write_drift",),
    "target_contract": ("assets.target_contract:write_contracts", "environments.contract"),
    "decision_patterns": ("assets.target_contract:write_decision_patterns",),
    "environment": ("environments.templates", "environments.writers", "diagnosis.llm.transcript"),
    "environment_audit": (
        *(f"sandbox.{name}" for name in ("config", "protocol", "session")),
        *("environments.audit", *_SEEDED),
        *(f"sandboxes/{name}" for name in ("seccomp.json", "Dockerfile")),
        *(f"sandboxes/worker/{name}.py" for name in _WORKER),
    ),
    "environment_verdict": ("assets.environment_audit:write_verdict",),
    "pilot": (
        *("training.pilot", "assets.pilot:write_pilot", "diagnosis.detectors", "targets.embedded"),
        *(*_PLAYED, *_SEEDED),
    ),
    "adapter": (*_PLAYED, "training.grpo:train_adapter", *_SEEDED),
    "mixed_adapter": (*_PLAYED, "training.grpo:train_adapter", "targets.embedded"),
    "joint_adapters": (
        *(f"training.joint:train_{name}" for name in ("joint", "sequential", "joining")),
        *(*_PLAYED, "training.grpo:train_adapter", *_SEEDED),
        *("assets.joint_adapters:environment_of_all", "environments.templates"),
    ),
    "consolidated": (
        *("training.joint:train_consolidated", "training.distillation", "training.grpo:train_adapter"),
        *(*_PLAYED, "assets.consolidated:write_consolidated", "routing", "evaluation", *_SEEDED),
    ),
    "interference": (*_PLAYED, "training.interference", *_SEEDED),
    "learnability": ("assets.learnability:write_learnability",),
    "curriculum": ("assets.environment_audit:write_curriculum",),
    "routing_trials": ("assets.routing:write_trials",),
    "routing": ("assets.routing:write_routing", "routing"),
    "adapter_validation": (*_PLAYED, "assets.adapter_validation:validate_adapters", "evaluation"),
    "round_agent": ("assets.rounds:write_round_agent", "training.composition:merge_agent"),
    "rounds": ("assets.rounds:write_rounds", "evaluation.choice:why_last"),
    "evaluation": (*_PLAYED, "assets.evaluation:write_evaluation", "evaluation"),
    "composition_choice": ("assets.evaluation:write_choice",),
    "report": ("assets.report", "report"),
}
"""Asset to functions (`module:name`), modules and packages, and files, below `trace_assets` or shipped."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "detectors": _DETECTORS,
    "discovery by a model": _DISCOVERY,
    "labelling by a model": _LABELLING,
    "importers": ("formats.load:load", "untrusted.json_text", "untrusted.parquet_rows"),
    "order desk": ("targets.embedded",),
    "demo agent": (
        *("training.demo_agent", "training/chat_template.jinja", "targets.embedded.demonstrations"),
    ),
    "prompts of the writer": (
        *(f"{_WRITERS}/{name}.md" for name in ("write", "capability", "mend", "continue")),
        *(
            "environments.writers.drafting",
            "environments.writers.prompt",
            "environments.writers.self_test",
            "diagnosis.llm.transcript",
        ),
    ),
}
"""Likewise for what is known by its version beside the assets: paid answers, ingested files, targets."""


@cache
def code_version(name: str) -> str:
    """Return the version of the code that decides an asset, or another thing that this module names.

    Raises:
        KeyError: Nothing of that name is known.
        LookupError: A function, module or file that it names is not there.

    >>> len(code_version("contrast"))
    16
    """
    content = content_hash(*(DECIDED_BY.get(name) or OTHERS[name]))
    kept = _kept().get(name)
    return kept["version"] if kept and kept["content"] == content else content


def content_hash(*names: str) -> str:
    """Return one hash for functions, modules, packages and files, see `DECIDED_BY`.

    Returns:
        16 hexadecimal digits of a SHA-256.
    """
    digest = hashlib.sha256()
    for one in sorted(_hash(name) for name in set(names)):
        digest.update(one)
    return digest.hexdigest()[:16]


def _hash(name: str) -> bytes:
    if ":" in name:
        return _syntax_hash(name)
    if (file := shipped(name, ROOT)).is_file():
        return _file_hash(file)
    folder = ROOT.joinpath(*name.split("."))
    # What Python is just compiling lies in __pycache__ under other names than *.pyc.
    shown = [file for file in folder.rglob("*") if "__pycache__" not in file.parts and "/." not in str(file)]
    beside = sorted(_file_hash(file) for file in shown if file.is_file() and file.suffix != ".py")
    return hashlib.sha256(_syntax_hash(name) + b"".join(beside)).digest()


def _syntax_hash(name: str) -> bytes:
    known = _remembered().hashes
    if name not in known:
        module, _, definition = name.partition(":")
        found = graph().hash(module, definition) if definition else graph().hash_all(module)
        known[name] = found.hex()
    return bytes.fromhex(known[name])


def _file_hash(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


@cache
def graph() -> CodeGraph:
    """Return the program's definitions."""
    return CodeGraph(ROOT, PASSED)


# To parse the whole program takes seconds, which every process that builds the graph of assets would spend.


@dataclass
class _Remembered:
    """Hashes of definitions, modules and packages, as long as no source file is another.

    Attributes:
        of: Hash of all source files and of what decides how they are read.
        hashes: By their names in `DECIDED_BY`, in hexadecimal digits.
        stored: How many of them lie on disk.
    """

    of: str
    hashes: dict[str, str]
    stored: int


@cache
def _remembered() -> _Remembered:
    digest = hashlib.sha256(repr((sys.version, sorted(PASSED))).encode())
    for file in sorted(ROOT.rglob("*.py")):
        digest.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    try:
        found = json.loads((ROOT / REMEMBERED).read_text(encoding="utf-8"))
        hashes = dict(found["hashes"]) if found["of"] == digest.hexdigest() else {}
    except (OSError, ValueError, TypeError, KeyError):
        hashes = {}
    return _Remembered(digest.hexdigest(), hashes, len(hashes))


def remember() -> None:
    """Keep the hashes that were found for the next process, where Python keeps its bytecode.

    A process that is told to write none makes no folder for it, and uses the one that an installation made.
    """
    known, file = _remembered(), ROOT / REMEMBERED
    if known.stored == len(known.hashes) or (sys.dont_write_bytecode and not file.parent.is_dir()):
        return
    if _keep(file, {"hashes": known.hashes}):
        known.stored = len(known.hashes)


def noted(name: str) -> Any:
    """Return what another process has noted down of this very source under a name; None where none has."""
    try:
        found = json.loads((ROOT / REMEMBERED.with_name(name)).read_text(encoding="utf-8"))
        return found["noted"] if found["of"] == _remembered().of else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def note(name: str, value: object) -> None:
    """Note something down that follows from the source alone, as `remember` does."""
    file = ROOT / REMEMBERED.with_name(name)
    if not sys.dont_write_bytecode or file.parent.is_dir():
        _keep(file, {"noted": value})


def _keep(file: Path, content: Mapping[str, object]) -> bool:
    written = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):  # as where it was installed by somebody else
        file.parent.mkdir(exist_ok=True)
        written.write_text(json.dumps({"of": _remembered().of, **content}), encoding="utf-8")
        written.replace(file)
        return True
    return False


@cache
def _kept() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found
