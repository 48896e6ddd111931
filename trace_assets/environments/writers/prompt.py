"""The prompts of the model writer: from files, filled with what may be shown, and nothing else."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.diagnosis.llm.transcript import estimate_tokens, view
from trace_assets.environments.audit.fidelity_results import MOST_STATES
from trace_assets.environments.contract.description import TargetContract
from trace_assets.records import CapabilitySpec, FailedCheck, Label, Message, Trajectory
from trace_assets.shipped import prompt

MOST_CHECKS = 12
"""Failed checks that are told at once, errors first."""
LONGEST_EVIDENCE = 600
"""Characters of a failed check's evidence: hostile code may have written it."""
_LISTS = (24, 12, 6, 3, 1)
"""How many entries of long lists are shown, until the contract fits."""
FEW_SHAPES = 4
"""Shapes of values that are shown in the place of the values."""
_WITHHELD = frozenset({"reference", "n_trajectories"})
"""Parts of a contract that a writer is not shown: episodes kept for measuring fidelity among them."""


def render(file: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error.

    >>> "where it stopped" in render("continue.md", ending="x = ")
    True
    """
    return prompt("environments.writers", file, values)


def instructions(contract: TargetContract, tokens: int) -> str:
    """Return what is the same for every capability of a target: rules, protocol, self-test and contract.

    Args:
        contract: Of the target.
        tokens: For the parts of the contract beside tools and policy.
    """
    from trace_assets.environments.audit.static import ALLOWED_IMPORTS
    from trace_assets.environments.writers import self_test

    return render(
        "write.md",
        target=contract.target,
        imports=", ".join(sorted(ALLOWED_IMPORTS)),
        self_test=inspect.getsource(self_test).strip(),
        tools=json.dumps([tool.openai() for tool in contract.tools], ensure_ascii=False, indent=1),
        policy=contract.policy.strip() or "(none)",
        contract=shown_contract(contract, tokens),
    )


def shown_contract(contract: TargetContract, tokens: int) -> str:
    """Return a contract without tools and policy as JSON, long lists shortened until it fits a budget."""
    whole = {
        name: _without_names(value)
        for name, value in contract.model_dump(mode="json").items()
        if name not in {"tools", "policy"} | _WITHHELD
    }
    text = ""
    for most in _LISTS:
        text = json.dumps(_shortened(whole, most), ensure_ascii=False)
        if estimate_tokens(text) <= tokens:
            return text
    return text[: 4 * tokens] + " [... cut off]"


def _without_names(value: Any) -> Any:
    """Return a contract's part with the values of schemas that name somebody or something as shapes.

    Values that hold an address or four digits, and those of lists too long to be states, are people's and
    things' own: a writer needs to know how they are built, not what they are.
    """
    if isinstance(value, list):
        return [_without_names(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _without_names(one) for name, one in value.items()}
    for name in ("enum", "examples"):
        given = found.get(name)
        if isinstance(given, list) and all(one is None or isinstance(one, str) for one in given):
            many = len(given) > MOST_STATES
            private = [one for one in given if one and (many or _names_something(one))]
            if private:
                found[name] = [one for one in given if one not in private]
                found["like"] = sorted({*found.get("like", ()), *map(_shape, private)})[:FEW_SHAPES]
                if not found[name]:
                    del found[name]
    return found


def _names_something(text: str) -> bool:
    """Tell whether a value is an address, or has as many digits as numbers of people and things have.

    >>> [_names_something(one) for one in ("in transit", "500ml", "mia@example.org", "#W2378156")]
    [False, False, True, True]
    """
    return "@" in text or sum(char.isdigit() for char in text) >= 4


def _shape(text: str) -> str:
    """Return a value with its letters and digits masked.

    >>> _shape("Mia_Li_3668 <mia@example.org>")
    'Aaa_Aa_9999 <aaa@aaaaaaa.aaa>'
    """
    masked = ("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)
    return "".join(masked)


def _shortened(value: Any, most: int) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        kept = {key: _shortened(one, most) for key, one in items[: 4 * most]}
        return kept | ({"...": f"{len(items) - 4 * most} more"} if len(items) > 4 * most else {})
    if isinstance(value, list):
        kept_items = [_shortened(one, most) for one in value[:most]]
        return kept_items + ([f"... {len(value) - most} more"] if len(value) > most else [])
    if isinstance(value, str) and len(value) > 1200:
        return f"{value[:1200]} [... {len(value) - 1200} characters left out]"
    return value


def first_request(spec: CapabilitySpec, excerpts: str) -> str:
    """Return the request for a first draft."""
    return render("capability.md", name=spec.name, description=spec.description, excerpts=excerpts.strip())


def mending_request(
    spec: CapabilitySpec,
    excerpts: str,
    *,
    source: str,
    failed: Sequence[FailedCheck],
    round_number: int,
    rounds: int,
    earlier: Sequence[Sequence[str]],
) -> str:
    """Return the request to mend a version.

    Args:
        spec: The capability.
        excerpts: As for the first draft.
        source: What was audited; empty where the reply held no module.
        failed: What the audit held against it.
        round_number: Of the version that is asked for, from 1.
        rounds: How many there are.
        earlier: Ids of the checks that each earlier version failed.
    """
    ordered = sorted(failed, key=lambda one: ("error", "warning", "info").index(one.severity))
    return render(
        "mend.md",
        request=first_request(spec, excerpts),
        source=source.strip("\n"),
        failed=[_quoted(one) for one in ordered[:MOST_CHECKS]],
        left_out=max(0, len(ordered) - MOST_CHECKS),
        round_number=round_number,
        rounds=rounds,
        earlier=[", ".join(ids) for ids in earlier],
    )


def _quoted(failed: FailedCheck) -> str:
    """Return a failed check as one JSON line: what hostile code says stays a quotation."""
    line = {
        "check": failed.check_id,
        "severity": failed.severity,
        "required": failed.bound[:LONGEST_EVIDENCE],
        "seen": failed.evidence[:LONGEST_EVIDENCE],
    }
    return json.dumps(line, ensure_ascii=True)


# What the writer is shown of the capability: transcripts that lack it beside transcripts that show it.


POLICY_TEXT = "(the policy text)"
LONGEST_RATIONALE = 300


@dataclass(frozen=True)
class Pick:
    """A trajectory with its label."""

    trajectory: Trajectory
    label: Label


def excerpts(picks: Sequence[Pick], tokens: int) -> str:
    """Return transcripts as a prompt shows them, each under a heading that says what it is there for.

    Args:
        picks: In the order in which they are shown.
        tokens: Longest transcript.
    """
    parts = []
    for number, one in enumerate(picks, start=1):
        shown = view(_without_policy(one.trajectory), tokens)
        where = [str(index) for index in one.label.evidence if index in shown.indices]
        what = "lacks the capability" if one.label.label == "LACKING" else "shows the capability"
        heading = f"Transcript {number} {what}"
        heading += f", see messages {', '.join(where)}" if where else ", by what never happens in it"
        why = " ".join(one.label.rationale.split())[:LONGEST_RATIONALE]
        parts.append(f"{heading}{f' ({why})' if why else ''}:\n{shown.text}")
    return "\n\n".join(parts)


def pick(labels: Iterable[Label], trajectories: Sequence[Trajectory], each: int) -> list[Pick]:
    """Choose transcripts that contrast: the lack in failures, the presence in successes of the same tasks.

    Args:
        labels: Of one capability; those without a trajectory here are passed over.
        trajectories: Judged ones; others than discovery tasks are left out.
        each: How many of either kind at most.

    Returns:
        Lacking ones first; the same labels and trajectories in any order give the same choice.
    """
    known = {one.trajectory_id: one for one in trajectories if one.split == "discovery" and one.messages}
    lacking: dict[str, Pick] = {}
    present: dict[str, Pick] = {}
    for label in sorted(labels, key=lambda one: (one.trajectory_id, one.labelling_pass, one.labeller)):
        trajectory = known.get(label.trajectory_id)
        if trajectory is None:
            continue
        if label.label == "LACKING" and trajectory.success is False:
            lacking.setdefault(label.trajectory_id, Pick(trajectory, label))
        elif label.label == "PRESENT" and trajectory.success is True:
            present.setdefault(label.trajectory_id, Pick(trajectory, label))
    contrasted = {one.trajectory.task_id for one in present.values()}
    chosen = _of_different_tasks(lacking.values(), contrasted, each)
    tasks = {one.trajectory.task_id for one in chosen}
    return chosen + _of_different_tasks(present.values(), tasks, each)


def _of_different_tasks(picks: Iterable[Pick], preferred: set[str], most: int) -> list[Pick]:
    """Return picks of preferred tasks first, then those with evidence, one a task while there are others."""
    ordered = sorted(
        picks,
        key=lambda one: (
            one.trajectory.task_id not in preferred,
            not one.label.evidence,
            one.trajectory.trajectory_id,
        ),
    )
    first: dict[str, Pick] = {}
    for one in ordered:
        first.setdefault(one.trajectory.task_id, one)
    again = [one for one in ordered if first[one.trajectory.task_id] is not one]
    return [*first.values(), *again][:most]


def _without_policy(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory whose system message, which the contract holds, is one line."""
    messages = tuple(
        Message(role="system", content=POLICY_TEXT) if one.role == "system" else one
        for one in trajectory.messages
    )
    return trajectory.model_copy(update={"messages": messages})
