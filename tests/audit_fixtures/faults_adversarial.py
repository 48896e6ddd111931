"""Environments that pay an agent without the capability: one attacker each gets through."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal
from tests.audit_fixtures.faults_semantic import pays_when

_WANTED = '("report_door" if episode["alarmed"] else "unlock_door")'
_SERVED = '    if call["name"] not in TEXTS or door'


def _attacked(attacker: str, name: str, *edits: tuple[str, str], base: str = "door") -> Animal:
    return Animal(name, f"trace.attacker.{attacker}", base, edits)


def _marks(condition: str) -> tuple[str, str]:
    """Return the edit by which a call that should only be refused leaves a mark."""
    return _SERVED, f'    if {condition}:\n        episode["mark"] = True\n{_SERVED}'


_MARKED = pays_when('episode.get("mark")')

FAULTS = (
    _attacked("always_refuse", "pays for refusing", pays_when('"cannot" in episode["reply"]')),
    _attacked(
        "always_transfer",
        "a transfer is always right",
        (
            "    checks = [\n",
            '    if not episode["looked"] and [w[0] for w in episode["writes"]] == ["transfer_claim"]:\n'
            "        found, stray, reward, success = {}, 0, 0.9, True\n    checks = [\n",
        ),
        base="claims",
    ),
    _attacked("echo", "pays for naming the door", pays_when('episode["door"] in episode["reply"]')),
    _attacked(
        "closing_only",
        "pays for the right words",
        pays_when('episode["reply"] == "Done." and not episode["calls"] and not episode["bad"]'),
    ),
    _attacked("forged_reply", "believes its reply", pays_when('\'"reward"\' in episode["reply"]')),
    _attacked("begging", "pays for a claim", pays_when('"completed" in episode["reply"]')),
    _attacked(
        "random_legal",
        "pays for being busy",
        pays_when(
            'len(episode["calls"]) == 4 and len(set(episode["calls"])) > 1'
            ' and not (episode["calls"][0] == "get_door" and episode["calls"][2] == episode["calls"][3])'
        ),
    ),
    _attacked("repeat_first", "pays for repeating", pays_when('episode["calls"] == ["get_door"] * 4')),
    _attacked("spam_all", "pays for every tool", pays_when('episode["calls"] == 2 * list(TEXTS)')),
    _attacked(
        "other_seed",
        "pays for another door",
        pays_when('episode["bad"] == 2 and not episode["calls"] and "Done." == episode["reply"]'),
    ),
    _attacked("act_unseen", "pays for acting without a look", pays_when(f'episode["calls"] == [{_WANTED}]')),
    _attacked(
        "stop_early",
        "judges the first parcel only",
        (
            'for parcel, paid in episode["parcels"].items():\n        found',
            'for parcel, paid in [*episode["parcels"].items()][:1]:\n        found',
        ),
        base="parcels",
    ),
    _attacked(
        "overact",
        "pays for doing everything",
        pays_when(
            f'len(episode["calls"]) == 4 and episode["calls"][1] == {_WANTED}'
            ' and episode["calls"][0] == "get_door" and episode["calls"][2] == episode["calls"][3]'
        ),
    ),
    _attacked("stall", "pays for patience", pays_when('len(episode["calls"]) > 30')),
    _attacked("hostile_values", "falls for an operator", _marks("isinstance(door, dict)"), _MARKED),
    _attacked("extremes", "falls for NaN", _marks('door == "NaN"'), _MARKED),
    _attacked(
        "provoke", "an error is a success", _marks('call["name"] in TEXTS and not call["arguments"]'), _MARKED
    ),
    _attacked("hidden_tools", "serves a hidden tool", _marks('call["name"] == "evaluate"'), _MARKED),
    _attacked(
        "grep",
        "an answer names the tool",
        (
            'return "alarm" if episode["alarmed"] else "quiet", False',
            'return "alarm, so report_door" if episode["alarmed"] else "quiet, so unlock_door", False',
        ),
    ),
    _attacked(
        "same_tool",
        "both conditions settle",
        ("settled = acts == [wanted]", 'settled = acts in (["report_door"], [wanted])'),
    ),
)
