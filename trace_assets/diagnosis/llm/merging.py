"""Proposals become capabilities: those that mean the same are one, and it is recorded which they were."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.request import Answer, Question, render
from trace_assets.records import Capability, Proposal
from trace_assets.records.capability import Recognised
from trace_assets.settings import Discovery

SAMPLE = 8
"""How many of the trajectories behind a capability are named in `Capability.proposed_by`."""


class Group(Answer):
    """Proposals that mean the same."""

    name: str
    description: str
    members: list[str]


class MergeAnswer(Answer):
    """All proposals, grouped."""

    groups: list[Group]


@dataclass(frozen=True)
class Merged:
    """What became of proposals.

    Attributes:
        capabilities: Those most often proposed first, at most as many as are allowed.
        proposals: All of them, with what they became.
        n_groups: Groups before the limit on candidates.
        by: Who merged: the model, or equal names where it gave no usable answer.
        reason: Why the model's answer was not usable.
        complete: False when the cap left nothing for it.
        n_recognised: Capabilities that the dictionary held before.
        unrecognised: Why the model did not say which those are, where it did not.
    """

    capabilities: list[Capability]
    proposals: list[Proposal]
    n_groups: int
    by: Literal["model", "name"]
    reason: str = ""
    complete: bool = True
    n_recognised: int = 0
    unrecognised: str = ""


def merge_question(section: Discovery, proposals: Sequence[Proposal]) -> Question[MergeAnswer]:
    """Return the question that groups proposals."""
    ids = [f"P{place}" for place in range(1, len(proposals) + 1)]
    lines = [
        json.dumps({"id": name, "name": one.name, "description": one.description}, ensure_ascii=False)
        for name, one in zip(ids, proposals, strict=True)
    ]
    return Question(
        kind="merge",
        model=section.model,
        system=render("merge.md"),
        user="The proposals, one JSON object a line:\n" + "\n".join(lines),
        schema=MergeAnswer,
        temperature=0.0,
        examine=lambda answer: _complaints(answer, ids),
    )


def _complaints(answer: MergeAnswer, ids: Sequence[str]) -> list[str]:
    members = [name for group in answer.groups for name in group.members]
    found = [f"there is no proposal '{name}'" for name in members if name not in ids]
    found += [f"{name} is in no group" for name in ids if name not in members]
    found += [f"{name} is in more than one group" for name in ids if members.count(name) > 1]
    names = [_plain(group.name) for group in answer.groups]
    found += [
        f"two groups are named '{name}'" for name in sorted({one for one in names if names.count(one) > 1})
    ]
    found += [
        f"group {number} needs a name, a description and members"
        for number, group in enumerate(answer.groups, start=1)
        if not (group.name.strip() and group.description.strip() and group.members)
    ]
    return found


def merge(
    server: ModelServer, section: Discovery, analyst: str, target: str, proposals: Sequence[Proposal]
) -> Merged:
    """Group proposals and make a capability of each group.

    Equal names are one group without asking. Where the model gives no usable answer that is all that is
    merged, which is recorded: nothing is lost, some capabilities may be there twice.

    Args:
        server: Whom to ask.
        section: Model, and how many candidates there may be.
        analyst: As in `Capability.analyst`.
        target: Of the proposals.
        proposals: Of all passes.
    """
    by_name: dict[str, list[Proposal]] = {}
    for one in proposals:
        by_name.setdefault(_plain(one.name), []).append(one)
    first = [same[0] for same in by_name.values()]
    groups = [Group(name=one.name, description=one.description, members=[one.proposal_id]) for one in first]
    by: Literal["model", "name"] = "name"
    reason, complete = "", True
    if len(first) > 1:
        try:
            answer = server.ask_alone(merge_question(section, first))
            complete = answer is not None
            if answer is not None:
                by, groups = "model", [_with_ids(group, first) for group in answer.groups]
        except Unanswered as fault:
            reason = fault.reason
    return _merged(groups, by_name, first, section, analyst, target, by, reason, complete)


def _with_ids(group: Group, first: Sequence[Proposal]) -> Group:
    """Return a group whose members are proposal ids instead of places in the question."""
    return group.model_copy(
        update={"members": [first[int(name[1:]) - 1].proposal_id for name in group.members]}
    )


def _merged(
    groups: Sequence[Group],
    by_name: dict[str, list[Proposal]],
    first: Sequence[Proposal],
    section: Discovery,
    analyst: str,
    target: str,
    by: Literal["model", "name"],
    reason: str,
    complete: bool,
) -> Merged:
    same = {one.proposal_id: by_name[_plain(one.name)] for one in first}
    whole = [(group, [row for name in group.members for row in same[name]]) for group in groups]
    whole.sort(key=lambda pair: (-len({row.discovery_pass for row in pair[1]}), -len(pair[1]), pair[0].name))
    capabilities: list[Capability] = []
    became: dict[str, str | None] = {}
    for place, (group, members) in enumerate(whole):
        kept = place < section.max_candidates
        capability = _capability(group, members, analyst, target)
        capabilities += [capability] if kept else []
        became |= {row.proposal_id: capability.capability_id if kept else None for row in members}
    rows = [
        row.model_copy(
            update={
                "merged_into": became[row.proposal_id],
                "merged_by": by if became[row.proposal_id] else "none",
            }
        )
        for rows in by_name.values()
        for row in rows
    ]
    return Merged(capabilities, rows, len(whole), by, reason, complete)


def _capability(group: Group, members: Sequence[Proposal], analyst: str, target: str) -> Capability:
    trajectories = sorted({name for row in members for name in row.trajectories})
    return Capability(
        capability_id=model_capability_id(target, group.name),
        target=target,
        name=" ".join(group.name.split()),
        description=" ".join(group.description.split()),
        analyst=analyst,
        proposed_by=tuple(trajectories[:SAMPLE]),
        n_proposals=len(members),
    )


def model_capability_id(target: str, name: str) -> str:
    """Return the slug of a capability that a model named: the same name has the same one.

    >>> model_capability_id("desk", "Look up the order first!")[:32]
    'desk-model-look-up-the-order-fir'
    """
    plain = _plain(name)
    slug = re.sub(r"[^a-z0-9_]+", "-", f"{target}-model-{plain}".lower()).strip("-")
    return f"{slug[:71].strip('-')}-{hashlib.sha256(f'{target}/{plain}'.encode()).hexdigest()[:8]}"


def _plain(name: str) -> str:
    """Return a name in the form in which equal ones are equal.

    >>> _plain(" Look up  the order. ")
    'look up the order'
    """
    return re.sub(r"[^\w]+", " ", name.lower()).strip()


# Capabilities found again keep who they are: id, words, and with them labels and environments.


ALIKE = 0.6
"""Share of the words of either that two share at least, to be the same without the model's word."""

Found = Mapping[str, tuple[Capability, Recognised]]
"""New capability id to the known capability that it is, and who said so."""


class Pair(Answer):
    """A new capability and the known one that means the same."""

    new: str
    known: str


class RecogniseAnswer(Answer):
    """All pairs."""

    same: list[Pair]


def recognise_question(
    section: Discovery, new: Sequence[Capability], known: Sequence[Capability]
) -> Question[RecogniseAnswer]:
    """Return the question which of the new capabilities are known."""
    news, olds = _named("N", new), _named("K", known)
    user = f"The known ones, one JSON object a line:\n{_lines(olds)}\n\nThe new ones:\n{_lines(news)}"
    return Question(
        kind="merge",
        model=section.model,
        system=render("recognise.md"),
        user=user,
        schema=RecogniseAnswer,
        temperature=0.0,
        examine=lambda answer: _complaints_recognise(answer, list(news), list(olds)),
    )


def recognise(server: ModelServer, section: Discovery, merged: Merged, known: Sequence[Capability]) -> Merged:
    """Give capabilities that the dictionary holds already their stored id and words.

    Args:
        server: Whom to ask; it is asked only when names leave both new and known ones over.
        section: Model.
        merged: What was found now, all of one target.
        known: What the dictionary holds of models' findings for that target.

    Returns:
        The same with known capabilities as they are stored (who proposed them is as found now), the
        proposals led to them, and who recognised each. When the cap left nothing to ask, `complete` is False
        and new ones that might be known are left out.
    """
    by_id = {one.capability_id: one for one in known}
    found: dict[str, tuple[Capability, Recognised]] = {
        one.capability_id: (by_id[one.capability_id], "name")
        for one in merged.capabilities
        if one.capability_id in by_id
    }
    new = [one for one in merged.capabilities if one.capability_id not in found]
    rest = sorted((one for one in known if one.capability_id not in found), key=lambda one: one.capability_id)
    if not new or not rest:
        return _applied(merged, found)
    answer, reason, complete = None, "", True
    try:
        answer = server.ask_alone(recognise_question(section, new, rest))
        complete = answer is not None
    except Unanswered as fault:
        reason = fault.reason
    if answer is not None:
        news, olds = _named("N", new), _named("K", rest)
        for pair in answer.same:
            found[news[pair.new].capability_id] = (olds[pair.known], "model")
    else:
        found |= by_wording(new, rest)
    if not complete:
        # A new name that is stored would be known the next time: it waits until somebody was asked.
        merged = _without(merged, {one.capability_id for one in new} - set(found))
    return replace(_applied(merged, found), complete=merged.complete and complete, unrecognised=reason)


def by_wording(new: Sequence[Capability], known: Sequence[Capability]) -> Found:
    """Pair capabilities whose words are nearly the same, the likest first, each in one pair at most.

    Of equally like ones those go first that rest on more of the same trajectories.
    """
    scored = [
        (-_alike(one, other), -len({*one.proposed_by} & {*other.proposed_by}), other.capability_id, place)
        for place, one in enumerate(new)
        for other in known
    ]
    by_id = {one.capability_id: one for one in known}
    found: dict[str, tuple[Capability, Recognised]] = {}
    taken = set[str]()
    for score, _, old, place in sorted(scored):
        name = new[place].capability_id
        if -score >= ALIKE and name not in found and old not in taken:
            found[name] = (by_id[old], "wording")
            taken.add(old)
    return found


def _alike(one: Capability, other: Capability) -> float:
    words, others = (
        set(re.findall(r"\w{3,}", f"{each.name} {each.description}".lower())) for each in (one, other)
    )
    return len(words & others) / max(1, len(words | others))


def _applied(merged: Merged, found: Found) -> Merged:
    capabilities = [
        found[one.capability_id][0].model_copy(
            update={
                "proposed_by": one.proposed_by,
                "n_proposals": one.n_proposals,
                "discovered_on": one.discovered_on,
            }
        )
        if one.capability_id in found
        else one
        for one in merged.capabilities
    ]
    proposals = []
    for row in merged.proposals:
        became = found.get(row.merged_into or "")
        if became is not None:
            row = row.model_copy(update={"merged_into": became[0].capability_id, "recognised_by": became[1]})
        proposals.append(row)
    return replace(merged, capabilities=capabilities, proposals=proposals, n_recognised=len(found))


def _without(merged: Merged, names: set[str]) -> Merged:
    left = {"merged_into": None, "merged_by": "none"}
    return replace(
        merged,
        capabilities=[one for one in merged.capabilities if one.capability_id not in names],
        proposals=[
            row.model_copy(update=left) if row.merged_into in names else row for row in merged.proposals
        ],
    )


def _named(letter: str, capabilities: Sequence[Capability]) -> dict[str, Capability]:
    return {f"{letter}{place}": one for place, one in enumerate(capabilities, start=1)}


def _lines(named: Mapping[str, Capability]) -> str:
    return "\n".join(
        json.dumps({"id": name, "name": one.name, "description": one.description}, ensure_ascii=False)
        for name, one in named.items()
    )


def _complaints_recognise(answer: RecogniseAnswer, news: Sequence[str], olds: Sequence[str]) -> list[str]:
    given = [pair.new for pair in answer.same], [pair.known for pair in answer.same]
    found: list[str] = []
    for names, allowed, what in ((given[0], news, "new"), (given[1], olds, "known")):
        found += [f"there is no {what} capability '{name}'" for name in names if name not in allowed]
        found += [
            f"{name} is in more than one pair; keep the closest"
            for name in dict.fromkeys(names)
            if names.count(name) > 1
        ]
    return found
