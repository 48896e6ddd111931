"""Capabilities found again keep who they are: id, words, and with them labels and environments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from trace_assets.diagnosis.llm.client import Incomplete, ModelServer, Unanswered
from trace_assets.diagnosis.llm.json_reply import id_of
from trace_assets.diagnosis.llm.merging import SAMPLE, Merged
from trace_assets.diagnosis.llm.request import Answer, Question, render
from trace_assets.records import Capability
from trace_assets.records.capability import Recognised
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
        examine=lambda answer: _complaints(answer),
        mend=lambda answer: _mended(answer, news, olds),
        rest=_settled,
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
    except Incomplete as fault:
        answer = fault.answer
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


def keep_found(merged: Merged, known: Sequence[Capability], runs: Set[str], most: int) -> Merged:
    """Keep what the dictionary holds and nobody proposed this time: what was found once grows on.

    What is known stays as long as a run that showed it is among those that are diagnosed, and one that is
    found again is shown by these runs too. Where there are too many, those go first that no failure shows,
    then those that fewer show.

    Args:
        merged: What was found now, known ones recognised.
        known: What the dictionary holds of one target.
        runs: Ids of the trajectories that are diagnosed.
        most: Candidates that there may be, parents apart.
    """
    before = {one.capability_id: runs & set(one.proposed_by) for one in known}
    merged = replace(merged, capabilities=[_shown_by(one, before) for one in merged.capabilities])
    found = {one.capability_id for one in merged.capabilities}
    parents = {one.parent for one in (*merged.capabilities, *known)}
    stay = [one for one in known if one.capability_id not in (found | parents) and before[one.capability_id]]
    cases = [*(one for one in merged.capabilities if one.capability_id not in parents), *stay]
    cases.sort(key=lambda one: -len(one.proposed_by))
    dropped = {one.capability_id for one in cases[most:]}
    kept = {one.capability_id for one in cases[:most]}
    broad = [one for one in merged.capabilities if one.capability_id in parents]
    held = {one.capability_id for one in broad}
    left = _without(merged, dropped & found)
    return replace(
        left,
        capabilities=[
            *(one for one in left.capabilities if one.capability_id in kept | held),
            *(
                one.model_copy(update={"parent": one.parent if one.parent in held else None})
                for one in stay
                if one.capability_id in kept
            ),
        ],
    )


def with_further(held: Sequence[Capability], new: Sequence[Capability], most: int) -> list[Capability]:
    """Add what a further reading named to what is held; of too many those go that no failure shows.

    Args:
        held: Candidates of a model's.
        new: Named for failures that none of these explains.
        most: Candidates that there may be, parents apart.
    """
    parents = {one.parent for one in (*held, *new) if one.parent}
    room = most - sum(one.capability_id not in parents for one in held)
    idle = [one for one in held if not one.proposed_by and one.capability_id not in parents]
    cases = [one for one in new if one.capability_id not in parents]
    dropped = {one.capability_id for one in idle[max(0, len(idle) + room - len(cases)) :]}
    kept = cases[: max(0, room + len(dropped))]
    named = {one.parent for one in kept}
    return [
        *(one for one in held if one.capability_id not in dropped),
        *kept,
        *(one for one in new if one.capability_id in parents & named),
    ]


def _shown_by(one: Capability, before: Mapping[str, Set[str]]) -> Capability:
    """Return a capability with the runs that showed it before among those that show it."""
    every = sorted({*one.proposed_by, *before.get(one.capability_id, ())})
    return one.model_copy(update={"proposed_by": tuple(every[:SAMPLE])})


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
                "parent": _known_id(one.parent, found),
            }
        )
        if one.capability_id in found
        else one.model_copy(update={"parent": _known_id(one.parent, found)})
        for one in merged.capabilities
    ]
    proposals = []
    for row in merged.proposals:
        became = found.get(row.merged_into or "")
        if became is not None:
            row = row.model_copy(update={"merged_into": became[0].capability_id, "recognised_by": became[1]})
        proposals.append(row)
    return replace(merged, capabilities=capabilities, proposals=proposals, n_recognised=len(found))


def _known_id(name: str | None, found: Found) -> str | None:
    return found[name][0].capability_id if name is not None and name in found else name


def _without(merged: Merged, names: set[str]) -> Merged:
    left = {"merged_into": None, "merged_by": "none"}
    return replace(
        merged,
        capabilities=[
            one.model_copy(update={"parent": None if one.parent in names else one.parent})
            for one in merged.capabilities
            if one.capability_id not in names
        ],
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


def _mended(
    answer: RecogniseAnswer, news: Mapping[str, Capability], olds: Mapping[str, Capability]
) -> RecogniseAnswer:
    """Return the pairs of capabilities that there are, under the ids that they were given."""
    new, known = ({name: one.name for name, one in named.items()} for named in (news, olds))
    pairs = [Pair(new=id_of(pair.new, new), known=id_of(pair.known, known)) for pair in answer.same]
    good = {(pair.new, pair.known): pair for pair in pairs if pair.new and pair.known}
    return RecogniseAnswer(same=list(good.values()))


def _complaints(answer: RecogniseAnswer) -> list[str]:
    given = [pair.new for pair in answer.same], [pair.known for pair in answer.same]
    return [
        f"{name} is in more than one pair; keep the closest"
        for names in given
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def _settled(answer: RecogniseAnswer) -> RecogniseAnswer:
    """Return the pairs whose both sides are in no other."""
    given = [name for pair in answer.same for name in (pair.new, pair.known)]
    return RecogniseAnswer(same=[p for p in answer.same if given.count(p.new) == given.count(p.known) == 1])
