"""Arms beside those of the evaluation, one protocol for all: a closed list, for every one is a claim."""

from __future__ import annotations

from collections.abc import Mapping

from trace_assets.tournament.arms.imitated import Rft, RftEnvironments
from trace_assets.tournament.arms.one_adapter import DirectBinary, GenericDesk, PlaceboEnvironment
from trace_assets.tournament.arms.placebo import (
    FailuresOnly,
    FewShot,
    Hints,
    RandomCapability,
    ShuffledLabels,
)
from trace_assets.tournament.arms.protocol import Arm
from trace_assets.tournament.arms.reflected import Gepa

EVERY: tuple[Arm, ...] = (
    DirectBinary(),
    Rft(),
    RftEnvironments(),
    Hints(),
    FewShot(),
    Gepa("score"),
    Gepa("checks"),
    RandomCapability(),
    FailuresOnly(),
    ShuffledLabels(),
    PlaceboEnvironment(),
    GenericDesk(),
)
ARMS: Mapping[str, Arm] = {arm.name: arm for arm in EVERY}
"""Every arm that a plan may name, or `trace tournament add-arm` adds."""


def arm_named(name: str) -> Arm:
    """Return an arm.

    Raises:
        ValueError: There is none of that name.

    >>> arm_named("rft").needs
    'verdicts of the target'
    """
    if name not in ARMS:
        raise ValueError(f"there is no arm '{name}': take one of {', '.join(ARMS)}")
    return ARMS[name]
