"""Advice that the tiny agent can be shown: a sentence for each skill that it lacks."""

from __future__ import annotations

from collections.abc import Mapping

from trace_assets.targets.embedded.desk import Skill

HINTS: Mapping[Skill, str] = {
    "cancel": "Look at the status first.",
    "multi": "Do both.",
    "window": "Look at the window first.",
    "return": "Look at the window first.",
    "sale": "Look at the item first.",
}
"""Advice to the agent, which ends the customer's message in some demonstrations where hints are asked for."""

ADVISED_BY: Mapping[str, Skill] = {
    "object_untouched": "multi",
    "window": "window",
    "sale": "sale",
    "cancel": "cancel",
}
"""A word of a finding's detector or its arguments, to the skill that it is about; the first that is there."""
COURTESIES = ("Thank you.", "Have a nice day.")
"""What customers also end with and what asks for nothing: beside advice, words of equal length. Advice on
another skill would not do: an agent that is told to look anywhere first looks."""
