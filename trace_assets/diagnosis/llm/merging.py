"""Proposals become capabilities: those that mean the same are one, and it is recorded which they were."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_assets.diagnosis.llm.client import Incomplete, ModelServer, Unanswered
from trace_assets.diagnosis.llm.json_reply import id_of
from trace_assets.diagnosis.llm.request import Answer, Question, render
from trace_assets.records import Capability, Proposal
from trace_assets.settings import Discovery

FORGOTTEN = 0.25
"""Share of the proposals that an answer may leave out, each of which is then a group of its own."""
SAMPLE = 8
"""How many of the trajectories behind a capability are named in `Capability.proposed_by`."""


class Group(Answer):
    """Proposals that mean the same."""

    name: str
    description: str
    members: list[str]


class Parent(Answer):
    """A broader capability, of which groups are cases."""

    name: str
    description: str
    members: list[str]


class CaseGroup(Answer):
    """Cases that are the same, and whose words are kept."""

    keep: str
    members: list[str]


class CaseMergeAnswer(Answer):
    """All cases, grouped, and the habits of which groups are cases."""

    groups: list[CaseGroup]
    parents: list[Parent]


class MergeAnswer(Answer):
    """All proposals, grouped, and what groups are cases of."""

    groups: list[Group]
    parents: list[Parent]


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
    known = {f"P{place}": one for place, one in enumerate(proposals, start=1)}
    return Question(
        kind="merge",
        model=section.model,
        system=render("merge.md"),
        user="The proposals, one JSON object a line:\n" + _listed(known),
        schema=MergeAnswer,
        temperature=0.0,
        examine=lambda answer: _complaints(answer, known),
        mend=lambda answer: _mended(answer, known),
        rest=lambda answer: _settled(answer, known),
    )


def case_merge_question(section: Discovery, proposals: Sequence[Proposal]) -> Question[CaseMergeAnswer]:
    """Return the question that groups cases, whose words stay those of a member."""
    known = {f"P{place}": one for place, one in enumerate(proposals, start=1)}
    return Question(
        kind="merge",
        model=section.model,
        system=render("merge_cases.md"),
        user="The cases, one JSON object a line:\n" + _listed(known),
        schema=CaseMergeAnswer,
        temperature=0.0,
        examine=lambda answer: _complaints(_in_words(answer, known), known),
        mend=lambda answer: _mended_cases(answer, known),
        rest=lambda answer: answer if _settled(_in_words(answer, known), known) is not None else None,
    )


def _mended_cases(answer: CaseMergeAnswer, known: Mapping[str, Proposal]) -> CaseMergeAnswer:
    """Return an answer with ids as they were given; who is kept is a member, or else the first."""
    names = {name: one.name for name, one in known.items()}
    groups = []
    for group in answer.groups:
        members = [found for said in group.members if (found := id_of(said, names))]
        keep = id_of(group.keep, names)
        members = list(dict.fromkeys([*members, *([keep] if keep else [])]))
        if members:
            groups.append(CaseGroup(keep=keep or members[0], members=members))
    given = {name for group in groups for name in group.members}
    forgotten = [name for name in known if name not in given]
    if groups and len(forgotten) <= max(1, len(known) * FORGOTTEN):
        groups += [CaseGroup(keep=name, members=[name]) for name in forgotten]
    return CaseMergeAnswer(groups=groups, parents=answer.parents)


def _in_words(answer: CaseMergeAnswer, known: Mapping[str, Proposal]) -> MergeAnswer:
    """Return groups with the words of who is kept; of several that claim a member the first has it."""
    groups = [
        Group(
            name=known[one.keep].name,
            description=known[one.keep].description,
            members=[one.keep, *(name for name in one.members if name != one.keep)],
        )
        for one in answer.groups
    ]
    names = {name: one.name for name, one in known.items()}
    return MergeAnswer(groups=groups, parents=_parents(answer.parents, groups, names))


def _ask_of_cases(server: ModelServer, section: Discovery, first: Sequence[Proposal]) -> MergeAnswer | None:
    known = {f"P{place}": one for place, one in enumerate(first, start=1)}
    try:
        answer = server.ask_alone(case_merge_question(section, first))
    except Incomplete as fault:
        answer = fault.answer
    return _settled(_in_words(answer, known), known) if answer is not None else None


def _listed(known: Mapping[str, Proposal]) -> str:
    return "\n".join(
        json.dumps({"id": name, "name": one.name, "description": one.description}, ensure_ascii=False)
        for name, one in known.items()
    )


def _mended(answer: MergeAnswer, known: Mapping[str, Proposal]) -> MergeAnswer:
    """Return an answer with ids as they were given; equal names are one group, what is forgotten is alone."""
    names = {name: one.name for name, one in known.items()}
    groups: dict[str, Group] = {}
    for group in answer.groups:
        members = list(dict.fromkeys(found for said in group.members if (found := id_of(said, names))))
        if not members or not _plain(group.name):
            continue
        first = known[members[0]]
        same = groups.get(_plain(group.name))
        groups[_plain(group.name)] = Group(
            name=group.name if same is None else same.name,
            description=(same.description if same else group.description) or first.description,
            members=members if same is None else list(dict.fromkeys([*same.members, *members])),
        )
    given = {name for group in groups.values() for name in group.members}
    forgotten = [name for name in known if name not in given]
    if groups and len(forgotten) <= max(1, len(known) * FORGOTTEN):
        for name in forgotten:
            one = known[name]
            same = groups.get(_plain(one.name))
            groups[_plain(one.name)] = Group(
                name=same.name if same else one.name,
                description=same.description if same else one.description,
                members=[*(same.members if same else ()), name],
            )
    listed = list(groups.values())
    return MergeAnswer(groups=listed, parents=_parents(answer.parents, listed, names))


def _parents(given: Sequence[Parent], groups: Sequence[Group], names: Mapping[str, str]) -> list[Parent]:
    """Return the parents that have several groups, each group under the first that names it."""
    by_name = {_plain(group.name): group.name for group in groups}
    by_member = {name: group.name for group in groups for name in group.members}
    taken: set[str] = set()
    found: dict[str, Parent] = {}
    for one in given:
        members: list[str] = []
        for said in one.members:
            number = re.fullmatch(r"\s*(?:G|group)?\s*(\d+)\s*", said, re.IGNORECASE)
            group = by_name.get(_plain(said)) or by_member.get(id_of(said, names))
            if group is None and number is not None and 0 < int(number.group(1)) <= len(groups):
                group = groups[int(number.group(1)) - 1].name
            if group is not None and group not in taken and group not in members:
                members.append(group)
        name = _plain(one.name)
        if (
            len(members) > 1
            and name
            and name not in by_name
            and name not in found
            and one.description.strip()
        ):
            taken |= set(members)
            found[name] = one.model_copy(update={"members": members})
    return list(found.values())


def _complaints(answer: MergeAnswer, known: Mapping[str, Proposal]) -> list[str]:
    members = [name for group in answer.groups for name in group.members]
    found = [f"{name} is in no group" for name in known if name not in members]
    return found + [f"{name} is in more than one group" for name in known if members.count(name) > 1]


def _settled(answer: MergeAnswer, known: Mapping[str, Proposal]) -> MergeAnswer | None:
    """Return groups of which each proposal is in the first that names it, for want of a better answer."""
    taken: set[str] = set()
    groups = []
    for group in answer.groups:
        members = [name for name in group.members if name not in taken]
        taken |= set(members)
        if members:
            groups.append(group.model_copy(update={"members": members}))
    if len(taken) < len(known) * (1 - FORGOTTEN):
        return None
    return _mended(MergeAnswer(groups=groups, parents=answer.parents), known)


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
    parents: Sequence[Parent] = ()
    if len(first) > 1:
        answer: MergeAnswer | None = None
        try:
            if section.size == "case":
                answer = _ask_of_cases(server, section, first)
            else:
                answer = server.ask_alone(merge_question(section, first))
            complete = answer is not None
        except Incomplete as fault:
            answer = fault.answer
        except Unanswered as fault:
            reason = fault.reason
        if answer is not None:
            by, groups = "model", [_with_ids(group, first) for group in answer.groups]
            parents = answer.parents
    merged = _merged(groups, by_name, first, section, analyst, target, by, reason, complete)
    return _under_parents(merged, parents, analyst, target)


def _under_parents(merged: Merged, parents: Sequence[Parent], analyst: str, target: str) -> Merged:
    """Add the parents of which several cases were kept, and say of these whose cases they are."""
    by_name = {_plain(one.name): one for one in merged.capabilities}
    children: dict[str, str] = {}
    added: list[Capability] = []
    for parent in parents:
        own = [by_name[_plain(name)] for name in parent.members if _plain(name) in by_name]
        if len(own) < 2:
            continue
        behind = sorted({name for one in own for name in one.proposed_by})
        broad = Capability(
            capability_id=model_capability_id(target, parent.name),
            target=target,
            name=" ".join(parent.name.split()),
            description=" ".join(parent.description.split()),
            analyst=analyst,
            proposed_by=tuple(behind[:SAMPLE]),
            n_proposals=sum(one.n_proposals for one in own),
        )
        added.append(broad)
        children |= {one.capability_id: broad.capability_id for one in own}
    capabilities = [
        one.model_copy(update={"parent": children.get(one.capability_id)}) for one in merged.capabilities
    ]
    return replace(merged, capabilities=[*capabilities, *added])


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
    if section.size == "case":  # what failures show comes first, then the policy's rules as it was read
        order = {row.proposal_id: number for number, row in enumerate(first)}
        whole.sort(
            key=lambda pair: (
                -len({name for row in pair[1] for name in row.trajectories}),
                min(order[name] for name in pair[0].members),
            )
        )
    else:
        whole.sort(
            key=lambda pair: (-len({row.discovery_pass for row in pair[1]}), -len(pair[1]), pair[0].name)
        )
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
        detector_args=members[0].grounds,
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
