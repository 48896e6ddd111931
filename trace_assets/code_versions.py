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
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import trace_assets
from trace_assets.code_graph import CodeGraph

ROOT = Path(trace_assets.__file__).resolve().parent
KEPT = ROOT / "code_versions.json"
"""Name to the hash of its code, and to the version of the earlier code that gave the same results."""

PASSED = (
    *("allotment", "assets", "blocking", "cli", "code_graph", "code_versions", "definitions", "errors"),
    *("lifeline", "ports", "progress", "proxies", "records", "report", "sandbox", "serving", "settings"),
    *("release", "rollout.journal", "rollout.parallel", "routing.proxy", "store", "study", "variables"),
    *(f"diagnosis.model.{name}" for name in ("account", "answers", "server")),
    *(f"policies.{name}" for name in ("openai_connection", "openai_faults", "openai_servers")),
    *(
        f"stages.{name}"
        for name in ("base_model", "environment_exports", "finished", "inbox_files", "ingest")
    ),
    *(f"stages.{name}" for name in ("ingested_files", "lineage", "live", "made_with", "model_files")),
    *(f"stages.{name}" for name in ("recomputation", "result", "synthesis", "task_inbox")),
)
"""What only shows, moves, opens or waits; records and settings count by their content."""

_PLAYED = ("policies", "rollout.episode", "rollout.runner")
_SEEDED = ("targets.sandboxed", "targets.seed_permutation", "targets.seeds")
_WORKER = ("__main__", "leaf", "machine", "modules", "supervisor", "vdso", "wire", "zygote")
_PROMPTS = "diagnosis/model/prompts"
_SHARED = (
    *(f"diagnosis.model.{name}" for name in ("prompt:render", "question", "redaction", "view")),
    f"{_PROMPTS}/repair.md",
    f"{_PROMPTS}/transcript.md",
)
_DETECTORS = ("diagnosis.detector_analyst", "diagnosis.detectors", "diagnosis.pool")
_DISCOVERY = (
    *(*_SHARED, *(f"diagnosis.model.{name}" for name in ("batches", "discovery", "merge", "recognise"))),
    *(f"{_PROMPTS}/{name}.md" for name in ("discover", "discover_batch", "merge", "recognise")),
)
_LABELLING = (*_SHARED, "diagnosis.model.labelling", f"{_PROMPTS}/label.md")
_WRITERS = "synthesis/writers/prompts"

DECIDED_BY: Mapping[str, tuple[str, ...]] = {
    "tasks": ("stages.tasks:tasks_of", "targets"),
    "base_model": ("training.base_model:train_base", "targets.embedded"),
    "trajectories": (*_PLAYED, "targets"),
    "triage": ("stages.trajectories:triage_batch", f"{_PROMPTS}/triage.md"),
    "capability_dictionary": ("stages.discovery:discover", *_DETECTORS, *_DISCOVERY),
    "suspect_tasks": ("stages.suspect_tasks:write_suspects",),
    "batch_capabilities": ("stages.batch_capabilities:write_batch_capabilities",),
    "labels": ("stages.labels:label_batch", *_DETECTORS, *_LABELLING),
    "label_leak": ("stages.leak:write_leak",),
    "contrast": ("stages.diagnosis:estimate_contrast",),
    "policy_contrast": ("stages.policy_contrast:contrast_policies",),
    "stability": ("stages.stability:estimate_stability", "diagnosis.detectors"),
    "selected_capabilities": ("stages.diagnosis:select_capabilities",),
    "drift": ("stages.drift:write_drift",),
    "capability_spec": ("stages.diagnosis:write_spec",),
    "target_contract": ("stages.contract:write_contracts",),
    "environment": (
        *("synthesis.recipes", "synthesis.writers", "diagnosis.model.redaction", "diagnosis.model.view"),
    ),
    "environment_audit": (
        *(f"sandbox.{name}" for name in ("conditions", "flags", "protocol", "session", "shapes")),
        *("synthesis.audit", *_SEEDED, *(f"../sandboxes/{name}" for name in ("seccomp.json", "Dockerfile"))),
        *(f"../sandboxes/worker/{name}.py" for name in _WORKER),
    ),
    "environment_verdict": ("stages.curriculum:write_verdict",),
    "pilot": (
        *("training.pilot", "stages.pilot:write_pilot", "diagnosis.detectors", "targets.embedded"),
        *(*_PLAYED, *_SEEDED),
    ),
    "learnability": ("stages.learnability:write_learnability",),
    "curriculum": ("stages.curriculum:write_curriculum",),
    "adapter": (*_PLAYED, "training.grpo:train_adapter", *_SEEDED),
    "mixed_adapter": (*_PLAYED, "training.grpo:train_adapter", "targets.embedded"),
    "routing_trials": ("stages.routing:write_trials",),
    "routing": ("stages.routing:write_routing", "routing"),
    "adapter_validation": (*_PLAYED, "stages.evaluation:validate_adapters", "evaluation"),
    "evaluation": (*_PLAYED, "stages.evaluation:write_evaluation", "evaluation"),
    "report": ("stages.report", "report"),
}
"""Asset to functions (`module:name`), modules and packages, and files, all below `trace_assets`."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "detectors": _DETECTORS,
    "discovery by a model": _DISCOVERY,
    "labelling by a model": _LABELLING,
    "importers": ("importers", "untrusted.json_text", "untrusted.lines", "untrusted.parquet_rows"),
    "order desk": ("targets.embedded",),
    "prompts of the writer": (
        *(f"{_WRITERS}/{name}.md" for name in ("write", "capability", "mend", "continue")),
        *("synthesis.writers.excerpts", "synthesis.writers.model_writer", "synthesis.writers.self_test"),
        *("diagnosis.model.redaction", "diagnosis.model.view"),
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
    module, _, definition = name.partition(":")
    if definition:
        return graph().hash(module, definition)
    if (file := ROOT / name).is_file():
        return _file_hash(file)
    folder = ROOT.joinpath(*module.split("."))
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")]
    beside = sorted(_file_hash(file) for file in files if "/." not in file.as_posix())
    return hashlib.sha256(graph().hash_all(module) + b"".join(beside)).digest()


def _file_hash(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


@cache
def graph() -> CodeGraph:
    """Return the program's definitions."""
    return CodeGraph(ROOT, PASSED)


@cache
def _kept() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found
