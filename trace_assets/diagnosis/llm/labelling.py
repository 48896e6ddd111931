"""Labels of a model: all capabilities of a trajectory in one request, in at least two passes, blind.

Instructions, policy and tools come first, then the transcript, and the capabilities last: all requests share
their beginning, and those of one trajectory the transcript too, so that the server's prompt cache pays for
most of it. Each pass has the capabilities in another order: an answer that
follows the order rather than the transcript differs between passes, and the agreement shows it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from trace_assets.code_versions import code_version
from trace_assets.diagnosis.llm.client import Incomplete, ModelServer, Unanswered
from trace_assets.diagnosis.llm.json_reply import id_of
from trace_assets.diagnosis.llm.request import NOTHING_KNOWN, Answer, Context, Question, render
from trace_assets.diagnosis.llm.transcript import View, view
from trace_assets.records import Capability, Label, ShownTranscript, Trajectory
from trace_assets.settings import Labels
from trace_assets.system.progress import progress

LONGEST_TASK = 6000
"""Characters of what the user was told."""
SMALLEST = 64
"""A transcript that the server calls too long is compacted to half of its budget, down to so many tokens."""


class OneLabel(Answer):
    """What the model says about one capability."""

    id: str
    rationale: str
    evidence: list[int]
    label: Literal["NA", "PRESENT", "LACKING", "CANNOT_TELL"]


class LabelAnswer(Answer):
    """What the model says about one transcript."""

    labels: list[OneLabel] = Field(description="one for each capability, in the order of the list")


@dataclass
class Labelled:
    """What came of a run of labelling.

    Attributes:
        labels: Of every (trajectory, pass) that was answered, for all capabilities.
        shown: What was shown of every trajectory.
        missing: (trajectory, pass) without an answer, with the reason; pass 0 stands for all passes.
        complete: False when the cap stopped it.
    """

    labels: list[Label] = field(default_factory=list)
    shown: dict[str, ShownTranscript] = field(default_factory=dict)
    missing: dict[tuple[str, int], str] = field(default_factory=dict)
    complete: bool = True


def label_hashes(
    section: Labels,
    trajectory: Trajectory,
    capabilities: Sequence[Capability],
    context: Context = NOTHING_KNOWN,
) -> list[str]:
    """Return, for each capability, a hash of all that decides this trajectory's label besides the pass."""
    shown = view(trajectory, section.transcript_tokens, above=context.policy).record.view_hash
    common = [code_version("labelling by a model"), section.model, section.temperature, shown, context.text]
    if not context.has_user:
        common.append("no user")
    return [
        hashlib.sha256(json.dumps([*common, one.name, one.description]).encode()).hexdigest()[:16]
        for one in capabilities
    ]


def ordered(capabilities: Sequence[Capability], number: int) -> list[Capability]:
    """Return the capabilities in the order of one pass, the same whatever order they are given in.

    Args:
        capabilities: Of one target.
        number: The pass, from 1.
    """
    listed = sorted(capabilities, key=lambda one: one.capability_id)
    random.Random(f"{number}:{','.join(one.capability_id for one in listed)}").shuffle(listed)
    return listed


def label_question(
    section: Labels,
    shown: View,
    capabilities: Sequence[Capability],
    number: int,
    context: Context = NOTHING_KNOWN,
) -> Question[LabelAnswer]:
    """Return the question that labels one transcript with capabilities in a given order."""
    known = {f"C{place}": one.name for place, one in enumerate(capabilities, start=1)}
    lines = [
        json.dumps({"id": name, "name": one.name, "description": one.description}, ensure_ascii=False)
        for name, one in zip(known, capabilities, strict=True)
    ]
    return Question(
        kind="label",
        model=section.model,
        system=render("label.md", context=context.text, has_user=context.has_user),
        user=render("label_ask.md", transcript=shown.text, capabilities=lines),
        schema=LabelAnswer,
        temperature=section.temperature,
        seed=number,
        examine=lambda answer: _complaints(answer, list(known)),
        mend=lambda answer: _mended(answer, known, shown.indices),
        join=_joined,
        rest=_usable,
    )


def _mended(answer: LabelAnswer, known: Mapping[str, str], indices: frozenset[int]) -> LabelAnswer:
    """Return an answer with ids as they were given, in their order, and without indices that do not exist.

    What is labelled twice in different ways has no label, and what rests on messages of which none is in
    this transcript none either: those are asked for again.
    """
    rows: dict[str, list[OneLabel]] = {}
    for one in answer.labels:
        name = id_of(one.id, known)
        if not name:
            continue
        evidence = list(dict.fromkeys(index for index in one.evidence if index in indices))
        if one.evidence and not evidence and one.label in ("PRESENT", "LACKING"):
            continue
        rows.setdefault(name, []).append(one.model_copy(update={"id": name, "evidence": evidence}))
    labels = [rows[name][0] for name in known if name in rows and len({row.label for row in rows[name]}) == 1]
    return LabelAnswer(labels=labels)


def _joined(before: LabelAnswer, after: LabelAnswer) -> LabelAnswer:
    """Return both answers' labels; where both have one the later counts."""
    named = {one.id: one for one in [*before.labels, *after.labels]}
    return LabelAnswer(labels=list(named.values()))


def _complaints(answer: LabelAnswer, ids: Sequence[str]) -> list[str]:
    """Say what is missing in an answer of the right form."""
    given = {one.id for one in answer.labels}
    found = [f"the label for {name} is missing, or unusable" for name in ids if name not in given]
    for one in answer.labels:
        if one.label == "PRESENT" and not one.evidence:
            found.append(f"{one.id}: PRESENT needs evidence, an index that is in this transcript")
        if one.label in ("PRESENT", "LACKING") and not one.rationale.strip():
            found.append(f"{one.id}: {one.label} needs a rationale")
    return found


def _usable(answer: LabelAnswer) -> LabelAnswer | None:
    """Return the labels that nothing is wrong with."""
    good = [one for one in answer.labels if not _complaints(LabelAnswer(labels=[one]), ())]
    return LabelAnswer(labels=good) if good else None


class ModelLabeller:
    """Labels through a server.

    Args:
        server: Whom to ask.
        section: Model, passes, budget of a transcript.
        name: As in `Label.labeller`.
        context: What the agent knew.
    """

    def __init__(
        self, server: ModelServer, section: Labels, name: str, context: Context = NOTHING_KNOWN
    ) -> None:
        self._server, self._section, self._name, self._context = server, section, name, context

    def run(self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]) -> Labelled:
        """Label every trajectory with every capability in every pass.

        The order is drawn from the ids, so that what the cap leaves over is no particular kind.

        Args:
            trajectories: Of one target; only their blind transcripts are used.
            capabilities: Of the same target.
        """
        done = Labelled()
        if not capabilities:
            return done
        order = sorted(trajectories, key=lambda one: hashlib.sha256(one.trajectory_id.encode()).hexdigest())
        with progress(f"labels by {self._section.model}", len(order)) as bar:

            async def work(trajectory: Trajectory) -> None:
                shown = view(trajectory, self._section.transcript_tokens, above=self._context.policy)
                done.shown[trajectory.trajectory_id] = shown.record
                hashes = dict(
                    zip(
                        (one.capability_id for one in capabilities),
                        label_hashes(self._section, trajectory, capabilities, self._context),
                        strict=True,
                    )
                )
                for number in range(1, self._section.passes + 1):
                    try:
                        order_of = ordered(capabilities, number)
                        found = await self._pass(done, trajectory, shown, order_of, number)
                    except Unanswered as reason:
                        done.missing[trajectory.trajectory_id, number] = reason.reason
                        continue
                    if len(found) < len(order_of):
                        done.missing[trajectory.trajectory_id, number] = "some labels stayed unusable"
                    done.labels += [
                        self._label(trajectory, one, said, number, hashes[one.capability_id])
                        for one, said in found
                    ]
                bar.advance(note=f"${self._server.account.spent.usd:.2f}")

            done.complete = self._server.run(order, work)
        return done

    async def _pass(
        self,
        done: Labelled,
        trajectory: Trajectory,
        shown: View,
        capabilities: list[Capability],
        number: int,
    ) -> list[tuple[Capability, OneLabel]]:
        """Return one pass over one trajectory, in parts where the server cannot take it whole."""
        budget = self._section.transcript_tokens
        while True:
            try:
                question = label_question(self._section, shown, capabilities, number, self._context)
                answer = await self._server.ask(question)
                return _beside(capabilities, answer)
            except Incomplete as fault:
                return _beside(capabilities, fault.answer)
            except Unanswered as fault:
                if fault.reason == "cut" and len(capabilities) > 1:
                    middle = (len(capabilities) + 1) // 2
                    parts = capabilities[:middle], capabilities[middle:]
                    return [
                        row
                        for part in parts
                        for row in await self._pass(done, trajectory, shown, part, number)
                    ]
                budget = min(budget, shown.record.tokens) // 2
                if fault.reason != "full" or budget < SMALLEST:
                    raise
                shown = view(trajectory, budget, above=self._context.policy)
                done.shown[trajectory.trajectory_id] = shown.record

    def _label(
        self, trajectory: Trajectory, capability: Capability, said: OneLabel, number: int, input_hash: str
    ) -> Label:
        return Label(
            trajectory_id=trajectory.trajectory_id,
            capability_id=capability.capability_id,
            labelling_pass=number,
            labeller=self._name,
            label=said.label,
            evidence=tuple(sorted(set(said.evidence))),
            rationale=said.rationale.strip(),
            input_hash=input_hash,
        )


def _beside(capabilities: Sequence[Capability], answer: LabelAnswer) -> list[tuple[Capability, OneLabel]]:
    by_id = {f"C{place}": one for place, one in enumerate(capabilities, start=1)}
    return [(by_id[one.id], one) for one in answer.labels]


# Broader capabilities: their labels follow from those of their cases, without a question.


def cases_and_parents(
    capabilities: Sequence[Capability],
) -> tuple[list[Capability], dict[str, list[str]]]:
    """Return the capabilities that are asked about, and the cases of each that is not, by id."""
    ids = {one.capability_id for one in capabilities}
    cases: dict[str, list[str]] = {}
    for one in capabilities:
        if one.parent in ids:
            cases.setdefault(str(one.parent), []).append(one.capability_id)
    return [one for one in capabilities if one.capability_id not in cases], cases


def parent_labels(
    labels: Sequence[Label], capabilities: Sequence[Capability], cases: Mapping[str, Sequence[str]]
) -> list[Label]:
    """Return the labels of broader capabilities: lacking where a case is, else present where a case is.

    A parent is not needed where none of its cases is. Where a case that would decide has no label, or an
    abstention, the parent has none, or abstains.

    Args:
        labels: Of one labeller, for the cases.
        capabilities: Those that were asked about.
        cases: Ids of each parent's cases.
    """
    names = {one.capability_id: one.name for one in capabilities}
    by_pass: dict[tuple[str, int], dict[str, Label]] = {}
    for row in labels:
        by_pass.setdefault((row.trajectory_id, row.labelling_pass), {})[row.capability_id] = row
    return [
        made
        for given in by_pass.values()
        for parent, own in cases.items()
        if (made := _parent_label(parent, own, given, names)) is not None
    ]


def _parent_label(
    parent: str, cases: Sequence[str], given: Mapping[str, Label], names: Mapping[str, str]
) -> Label | None:
    rows = [given[name] for name in cases if name in given]
    for value in ("LACKING", "CANNOT_TELL", "PRESENT", "NA"):
        deciding = [row for row in rows if row.label == value]
        if deciding and (value == "LACKING" or len(rows) == len(cases)):
            break
    else:
        return None
    said = [f"{names.get(row.capability_id, row.capability_id)}: {row.rationale}" for row in deciding]
    hashes = json.dumps(sorted(row.input_hash for row in rows))
    return deciding[0].model_copy(
        update={
            "capability_id": parent,
            "evidence": tuple(sorted({index for row in deciding for index in row.evidence})),
            "rationale": "; ".join(said) if value != "NA" else "none of its cases is needed",
            "input_hash": hashlib.sha256(hashes.encode()).hexdigest()[:16],
        }
    )
