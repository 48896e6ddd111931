"""Capabilities found again keep who they are: id, words, and with them labels and environments.

A model that reads new episodes names an old finding in new words. Before the dictionary is replaced, what was
found now is matched to what it holds: equal names first, then the model is asked about the rest, and where it
gives no usable answer the wording decides. A known capability is recognised in one new one at most, so two
candidates of one run never become one here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trace_assets.diagnosis.model.merge import Merged
from trace_assets.diagnosis.model.prompt import render
from trace_assets.diagnosis.model.question import Answer, Question
from trace_assets.diagnosis.model.server import ModelServer, Unanswered
from trace_assets.records import Capability
from trace_assets.records.proposal import Recognised
from trace_assets.settings import Discovery

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
        examine=lambda answer: _complaints(answer, list(news), list(olds)),
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


def _complaints(answer: RecogniseAnswer, news: Sequence[str], olds: Sequence[str]) -> list[str]:
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
