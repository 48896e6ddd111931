"""Versions of what writes and what audits, for stages that must run again when these change.

Cheap to import: hashes of sources, nothing else.
"""

from __future__ import annotations

from trace_assets.sources import source_version

_READ = ("diagnosis.detectors.mutation", "diagnosis.detectors.values", "diagnosis.detectors.wording")
_WORKER = ("__main__", "leaf", "machine", "modules", "supervisor", "vdso", "wire", "zygote")
CONTRACT_VERSION = source_version("stages.contract", "synthesis.contract", *_READ)
WRITER_VERSION = source_version(
    "diagnosis.model.redaction", "diagnosis.model.view", "synthesis.recipes", "synthesis.writers"
)
"""Prompts are files of `synthesis.writers`: a reworded one writes again."""
AUDIT_VERSION = source_version(
    *(f"sandbox.{name}" for name in ("conditions", "flags", "protocol", "session", "shapes")),
    *(f"../sandboxes/{name}" for name in ("seccomp.json", "Dockerfile")),
    *(f"../sandboxes/worker/{name}.py" for name in _WORKER),
    *(f"targets.{name}" for name in ("sandboxed", "seed_permutation", "seeds")),
    "synthesis.audit",
    *(f"synthesis.contract.{name}" for name in ("answers", "json_schema", "protocol", "reference", "shapes")),
    "diagnosis.leak.classifier",
    "statistics.ranking",
)
