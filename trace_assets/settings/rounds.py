"""Rounds: the agent that a round came to is the base policy of the next."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from trace_assets.settings.section import Section

FIXED = ("targets", "base_model", "rounds")
"""Sections that a round cannot have of its own: all play one target, and each begins where the last ended."""


class Rounds(Section):
    """How often what was taught is taken for the base policy, played, diagnosed and taught on top of."""

    apart = frozenset({"most", "rollouts", "settings"})

    most: int = Field(1, ge=1, le=20)
    """Rounds at most; 1 plays none but the study itself."""
    min_gain: float = Field(0.01, ge=0, le=1)
    """A round whose agent passes less than this more of the validation tasks than the one before is the last,
    and is not taken."""
    rollouts: int = Field(0, ge=0)
    """No round is begun once so many training rollouts were spent by all; 0 sets no bound."""
    settings: dict[str, dict[str, dict[str, Any]]] = {}
    """What a later round has otherwise, by its number: `[rounds.settings.2.selection]`, then keys as in
    `[selection]`."""

    @field_validator("settings")
    @classmethod
    def _later_rounds(cls, value: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
        for number, sections in value.items():
            if not number.isascii() or not number.isdigit() or int(number) < 2 or number[0] == "0":
                raise ValueError(f"'{number}' is no later round: the first one has the settings of the study")
            for name in sections:
                if name in FIXED:
                    raise ValueError(f"round {number} cannot have its own [{name}]")
        return value
