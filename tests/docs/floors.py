"""The floors of the house: what rests on what."""

from __future__ import annotations

ROOMS = (
    *("stats", "records", "formats", "diagnosis", "environments", "sandbox", "rollouts", "training"),
    *("routing", "targets", "policies", "store", "evaluation", "system", "untrusted"),
)
"""Folders that take records and give records."""

FREE_OF_DAGSTER = (
    *ROOMS,
    "assets",
    "report",
    "resources",
    "serving",
    "settings",
    "study",
    "tournament",
    "workflows",
)

FLOORS = (
    (
        "errors",
        "system",
        "untrusted",
        "conformance",
        "code_graph",
        "shipped",
        "code_versions",
        "stats",
        "described",
    ),
    ("records", "settings"),
    ("store",),
    ("sandbox", "targets", "formats", "policies"),
    ("rollouts", "diagnosis", "routing", "environments", "training"),
    ("evaluation", "serving", "report"),
    ("study",),
    ("resources",),
    ("assets", "workflows", "tournament"),
    ("orchestration", "definitions"),
    ("cli", "__main__", "pytest_plugin"),
)
"""From the ground up: a room imports of its own floor and of lower ones."""

UPWARD = {
    ("policies.vllm_engine", "training.checkpoints"): "reads which files make up an adapter's folder",
    ("training.sampler", "serving.server"): "starts a vLLM server for the time of a training",
    ("resources.analysts", "assets.asset"): "the type of a figure",
    ("resources.sandbox", "assets.asset"): "the type of a check",
}
"""Imports of a higher floor that there are today, each with its reason. None of them closes a circle."""
