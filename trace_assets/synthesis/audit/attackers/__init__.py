"""Scripted agents without the capability. All of them must earn clearly less than the oracle.

They are as strong as they can be made without the capability: they know the objects and values that the
oracle would use, and close with its words.
"""

from trace_assets.synthesis.audit.attackers import busy, hostile, idle
from trace_assets.synthesis.audit.attackers.hostile import hostile_values, messy
from trace_assets.synthesis.audit.attackers.script import (
    Attacker,
    Unsupported,
    arguments_for,
    calls_in,
    closing,
    say,
)

__all__ = [
    "ATTACKERS",
    "Attacker",
    "Unsupported",
    "arguments_for",
    "calls_in",
    "closing",
    "hostile_values",
    "messy",
    "say",
]

ATTACKERS: dict[str, Attacker] = {
    attack.__name__: attack
    for attack in (
        idle.always_refuse,
        idle.always_transfer,
        idle.echo,
        idle.closing_only,
        idle.forged_reply,
        idle.begging,
        busy.random_legal,
        busy.repeat_first,
        busy.spam_all,
        busy.other_seed,
        busy.act_unseen,
        busy.stop_early,
        busy.overact,
        busy.stall,
        hostile.hostile_values,
        hostile.extremes,
        hostile.provoke,
        hostile.hidden_tools,
        hostile.grep,
    )
}
"""Those that need no tool's name; `same_tool` is tried with every tool. Silence is `semantic.floor_gap`."""
