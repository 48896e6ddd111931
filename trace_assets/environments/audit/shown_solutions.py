"""What an answer shows that an agent is to decide, or to work out, itself."""

from __future__ import annotations

import re
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.environments.audit.allowed_ways import told_to_agents
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.decision_tree import before_writes
from trace_assets.environments.audit.scripted_rollouts import calls_in
from trace_assets.environments.audit.telling_fields import telling_field
from trace_assets.environments.contract.answers import written

LEAST, SHARE, LARGE = 8, 0.9, 100
"""Seeds that are compared at least, the share of them that tells, and what no number is by accident."""
_WORKED_OUT = re.compile(
    r"\bwork\w* (?:[\w']+ ){0,4}?out\b|\b(?:calculat|comput|reckon|convert)\w*"
    r"|\badd(?:s|ing)? (?:\w+ ){0,3}?up\b|\bsum(?:s|ming)? up\b",
    re.IGNORECASE,
)


def shown_solution(subject: Subject) -> str:
    """Say which answers name the change, or the amount to be worked out, or hold a field that tells it."""
    return _names_the_change(subject) or _shows_the_amount(subject) or telling_field(subject)


def _names_the_change(subject: Subject) -> str:
    """Say that a field holds the next change's tool, where no text says what that field is."""
    probe = subject.probe
    described = " ".join(str(tool["function"].get("description") or "") for tool in probe.tools())
    known = set(re.findall(r"[a-z]{3,}", f"{told_to_agents(subject)} {described}".lower()))
    held: dict[str, list[int]] = {}
    for seed in subject.seeds[: subject.sizes.attack]:
        names = [one["name"] for one in calls_in(probe.oracle(seed)) if probe.writes(one["name"])]
        for call, text, _ in before_writes(probe, seed):
            for path, value in leaves(written(text)):
                field = path.rpartition(".")[2]
                if (
                    value in names[:1]
                    and "[" not in path
                    and not set(re.findall(r"[a-z]{3,}", field)) & known
                ):
                    held.setdefault(f"{call['name']}.{path}", []).append(seed)
    for path, seeds in held.items():
        if len(set(seeds)) > 1:
            return f"seed {seeds[0]}: {path} names the call to be made, on {len(set(seeds))} seeds"
    return ""


def _shows_the_amount(subject: Subject) -> str:
    """Say that a look shows the amount that the capability is to work out."""
    spec = subject.purpose.spec if subject.purpose else None
    if not spec or not _WORKED_OUT.search(f"{spec.name}. {spec.description}"):
        return ""
    probe, shown = subject.probe, dict[int, str]()
    n = 0
    for seed in subject.seeds[: subject.sizes.attack]:
        amounts = [
            value
            for one in calls_in(probe.oracle(seed))
            if probe.writes(one["name"])
            for value in one["arguments"].values()
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= LARGE
        ]
        told = [
            (c["name"], leaf) for c, text, _ in before_writes(probe, seed) for leaf in leaves(written(text))
        ]
        n += bool(amounts)
        where = [f"{name}.{path}" for name, (path, value) in told if any(_same(value, a) for a in amounts)]
        shown |= {seed: where[0]} if where else {}
    if n < LEAST or len(shown) < SHARE * n:
        return ""
    seed, path = next(iter(shown.items()))
    return f"seed {seed}: {path} shows what is to be worked out, as on {len(shown)} of {n} seeds"


def _same(value: Any, amount: float) -> bool:
    if isinstance(value, bool):
        return False
    return str(value) in (str(amount), f"{amount / 100:.2f}")
