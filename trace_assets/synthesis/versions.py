"""Versions of what writes and what audits, for stages that must run again when these change.

Cheap to import: hashes of sources, nothing else.
"""

from __future__ import annotations

from trace_assets.sources import source_version

CONTRACT_VERSION = source_version(
    *(
        f"synthesis.{name}"
        for name in ("closings", "contract", "guards", "phrasing", "shapes", "slots", "wrapping")
    )
)
WRITER_VERSION = source_version(
    "synthesis.plan", "synthesis.recipe_writer", "synthesis.writer", "synthesis.recipes"
)
AUDIT_VERSION = source_version(
    "sandbox.protocol",
    "targets.sandboxed",
    *(
        f"synthesis.{name}"
        for name in (
            "attackers",
            "audit",
            "checks",
            "checks_runtime",
            "checks_semantic",
            "checks_static",
            "checks_statistical",
            "probe",
            "severity",
        )
    ),
)
