"""Which target a configuration names."""

from __future__ import annotations

from trace_assets.errors import InputError
from trace_assets.settings import Targets
from trace_assets.targets.embedded.target import EmbeddedTarget

LIVE_TARGETS = ("embedded",)
"""Targets in which an agent can be rolled out here; others arrive as trajectories that were ingested."""


def open_target(section: Targets) -> EmbeddedTarget:
    """Return the live target that the section `targets` names.

    Raises:
        InputError: There is no live target of that name.
    """
    if section.name == "embedded":
        return EmbeddedTarget(section)
    raise InputError(
        f"targets.name is '{section.name}', but the only live target is {', '.join(LIVE_TARGETS)}; "
        "trajectories of other environments come in with `trace ingest`."
    )
