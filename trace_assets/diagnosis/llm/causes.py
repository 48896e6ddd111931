"""What a model says of failures: a second look whose they are, and which lack says best why.

Cause or correlate: did what a failed run lacked sink it?
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import model_validator

from trace_assets.diagnosis.attribution.case import Ruling
from trace_assets.diagnosis.expected.diffs import action_diffs
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.diagnosis.llm.client import Incomplete, ModelServer, Unanswered
from trace_assets.diagnosis.llm.discovery import Known
from trace_assets.diagnosis.llm.json_reply import id_of
from trace_assets.diagnosis.llm.labelling import LONGEST_TASK
from trace_assets.diagnosis.llm.request import (
    MOST_DIFFS,
    NOTHING_KNOWN,
    Answer,
    Context,
    Question,
    difference_lines,
    failed_checks,
    render,
)
from trace_assets.diagnosis.llm.transcript import one_line, view
from trace_assets.diagnosis.triage import SECOND_LOOK
from trace_assets.records import ActionDiff, Capability, Fault, Label, LackCause, Trajectory
from trace_assets.settings import Labels
from trace_assets.system.progress import progress


class OneCause(Answer):
    """What the model says about one lack."""

    id: str
    rationale: str
    evidence: list[int]
    decisive: Literal["yes", "no", "cannot_tell"]


class CauseAnswer(Answer):
    """What the model says about one failed run."""

    causes: list[OneCause]
    main: str | None

    @model_validator(mode="before")
    @classmethod
    def _main_may_be_left_out(cls, said: Any) -> Any:
        # Servers that hold to a schema strictly want every field required; what is read need not have it.
        return {"main": None, **said} if isinstance(said, dict) else said


@dataclass
class Judged:
    """What came of it.

    Attributes:
        causes: One for each failure and lack that was answered.
        missing: Failures without an answer, with the reason.
        complete: False when the cap stopped it.
    """

    causes: list[LackCause] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    complete: bool = True


def lacks_of(labels: Sequence[Label]) -> dict[str, dict[str, Label]]:
    """Return by trajectory and capability the lacks that most passes of some labeller agree on.

    Args:
        labels: Of all labellers and passes.
    """
    counts: dict[tuple[str, str, str], list[Label]] = {}
    given: dict[tuple[str, str, str], int] = {}
    for row in labels:
        key = (row.trajectory_id, row.capability_id, row.labeller)
        given[key] = given.get(key, 0) + (row.label != "CANNOT_TELL")
        if row.label == "LACKING":
            counts.setdefault(key, []).append(row)
    found: dict[str, dict[str, Label]] = {}
    for (trajectory, capability, labeller), rows in sorted(counts.items()):
        if 2 * len(rows) > given[trajectory, capability, labeller]:
            found.setdefault(trajectory, {}).setdefault(capability, rows[0])
    return found


def cause_question(
    section: Labels,
    trajectory: Trajectory,
    lacks: Mapping[str, Label],
    capabilities: Mapping[str, Capability],
    known: Known,
) -> Question[CauseAnswer]:
    """Return the question which of a failed run's lacks decided its end."""
    shown = view(trajectory, section.transcript_tokens, blind=False, above=known.context.policy)
    names = {f"C{place}": capabilities[name].name for place, name in enumerate(sorted(lacks), start=1)}
    lines = [
        json.dumps(
            {
                "id": number,
                "name": capabilities[name].name,
                "description": capabilities[name].description,
                "why it counts as lacking": lacks[name].rationale,
            },
            ensure_ascii=False,
        )
        for number, name in zip(names, sorted(lacks), strict=True)
    ]
    return Question(
        kind="cause",
        model=section.model,
        system=render("cause.md", context=known.context.text, has_user=known.context.has_user),
        user=render("cause_ask.md", transcript=shown.text, known=known.lines(trajectory), lacks=lines),
        schema=CauseAnswer,
        temperature=section.temperature,
        examine=lambda answer: _complaints(answer, names),
        mend=lambda answer: _mended(answer, names, shown.indices),
        join=_joined,
        rest=lambda answer: answer if answer.causes else None,
    )


def _mended(answer: CauseAnswer, names: Mapping[str, str], indices: frozenset[int]) -> CauseAnswer:
    rows: dict[str, list[OneCause]] = {}
    for one in answer.causes:
        name = id_of(one.id, names)
        evidence = [index for index in one.evidence if index in indices]
        if one.evidence and not evidence and one.decisive != "cannot_tell":
            continue  # it speaks of another run
        if name:
            rows.setdefault(name, []).append(one.model_copy(update={"id": name, "evidence": evidence}))
    agreed = [rows[name][0] for name in names if len({one.decisive for one in rows.get(name, ())}) == 1]
    decisive = {one.id for one in agreed if one.decisive == "yes"}
    main = id_of(answer.main or "", names)
    return CauseAnswer(causes=agreed, main=main if main in decisive else None)


def _joined(before: CauseAnswer, after: CauseAnswer) -> CauseAnswer:
    named = {one.id: one for one in [*before.causes, *after.causes]}
    return CauseAnswer(causes=list(named.values()), main=after.main or before.main)


def _complaints(answer: CauseAnswer, names: Mapping[str, str]) -> list[str]:
    given = {one.id for one in answer.causes}
    return [f"the answer for {name} is missing, or unusable" for name in names if name not in given]


def judge_lacks(
    server: ModelServer,
    section: Labels,
    trajectories: Sequence[Trajectory],
    labels: Sequence[Label],
    capabilities: Sequence[Capability],
    known: Known,
) -> Judged:
    """Ask of every failed run which of its lacks decided it.

    Args:
        server: Whom to ask.
        section: Model and budget of a transcript.
        trajectories: Failures of the agent, of one target; those that lack nothing are not asked about.
        labels: Of all labellers.
        capabilities: Those that were labelled; of a broader one nothing is asked, it follows from its cases.
        known: What the agent knew, and what was expected.
    """
    by_id = {one.capability_id: one for one in capabilities}
    parents = {one.parent for one in capabilities if one.parent}
    lacks = lacks_of(
        [row for row in labels if row.capability_id in by_id and row.capability_id not in parents]
    )
    done = Judged()
    failures = [one for one in trajectories if lacks.get(one.trajectory_id)]
    with progress(f"causes by {section.model}", len(failures)) as bar:

        async def work(one: Trajectory) -> None:
            own = lacks[one.trajectory_id]
            try:
                answer = await server.ask(cause_question(section, one, own, by_id, known))
            except Incomplete as fault:
                answer = fault.answer
                done.missing[one.trajectory_id] = fault.reason
            except Unanswered as fault:
                done.missing[one.trajectory_id] = fault.reason
                return
            finally:
                bar.advance()
            said = dict(zip((f"C{place}" for place in range(1, len(own) + 1)), sorted(own), strict=True))
            rows = [
                _row(one, said[each.id], each, section, main=each.id == answer.main) for each in answer.causes
            ]
            done.causes += [*rows, *_of_parents(rows, by_id)]

        done.complete = server.run(sorted(failures, key=lambda one: one.trajectory_id), work)
    done.causes.sort(key=lambda row: (row.trajectory_id, row.capability_id))
    return done


def _row(one: Trajectory, capability: str, said: OneCause, section: Labels, *, main: bool) -> LackCause:
    return LackCause(
        trajectory_id=one.trajectory_id,
        capability_id=capability,
        target=one.target,
        decisive=said.decisive,
        main=main,
        evidence=tuple(sorted(set(said.evidence))),
        rationale=said.rationale.strip(),
        judge=f"model:{section.model}",
    )


def _of_parents(rows: Sequence[LackCause], capabilities: Mapping[str, Capability]) -> list[LackCause]:
    """Return what follows for broader capabilities: decisive where a case is, not where no case is."""
    cases: dict[str, list[LackCause]] = {}
    for row in rows:
        parent = capabilities[row.capability_id].parent
        if parent in capabilities:
            cases.setdefault(str(parent), []).append(row)
    found = []
    for parent, own in cases.items():
        for value in ("yes", "cannot_tell", "no"):
            deciding = [row for row in own if row.decisive == value]
            if deciding:
                found.append(deciding[0].model_copy(update={"capability_id": parent, "main": False}))
                break
    return found


class FaultAnswer(Answer):
    """Whom the model blames."""

    rationale: str
    evidence: list[int]
    fault: Fault


class AloneAnswer(FaultAnswer):
    """Whom the model blames where the agent talks to nobody."""

    fault: Literal["agent", "ground_truth", "environment", "infrastructure"]


class ModelTriage:
    """Looks at failures through a server.

    Args:
        server: Whom to ask.
        model: Its model.
        tokens: Budget of a transcript.
        tasks: By id: what the user was told, and what was expected.
        contexts: By target: what the agent knew.
    """

    def __init__(
        self,
        server: ModelServer,
        model: str,
        tokens: int = 24_000,
        tasks: Mapping[str, Told] | None = None,
        contexts: Mapping[str, Context] | None = None,
    ) -> None:
        self._server, self._model, self._tokens = server, model, tokens
        self._tasks, self._contexts = tasks or {}, contexts or {}
        self.complete = True
        self.missing: dict[str, str] = {}

    def __call__(self, trajectories: Sequence[Trajectory]) -> dict[str, Ruling]:
        """Return a ruling for each trajectory that the model answered for.

        Args:
            trajectories: Failures; their outcome is known to the model, since it is asked only about such.

        Returns:
            By trajectory id. Those without a usable answer are missing, and named in `missing` with the
            reason.
        """
        found: dict[str, Ruling] = {}
        diffs = _diffs_by_run(trajectories, self._tasks)

        async def work(trajectory: Trajectory) -> None:
            try:
                question = triage_question(
                    self._model,
                    trajectory,
                    self._tokens,
                    self._tasks.get(trajectory.task_id),
                    diffs.get(trajectory.trajectory_id, ()),
                    self._contexts.get(trajectory.target, NOTHING_KNOWN),
                )
                answer = await self._server.ask(question)
            except Unanswered as fault:
                self.missing[trajectory.trajectory_id] = fault.reason
                return
            words = answer.rationale.strip()
            if answer.fault != "agent" or words:
                evidence = tuple(sorted(set(answer.evidence)))
                found[trajectory.trajectory_id] = Ruling(answer.fault, SECOND_LOOK, evidence, words)

        self.missing = {}
        self.complete = self._server.run(sorted(trajectories, key=lambda one: one.trajectory_id), work)
        return found


def _diffs_by_run(
    trajectories: Sequence[Trajectory], tasks: Mapping[str, Told]
) -> dict[str, list[ActionDiff]]:
    found: dict[str, list[ActionDiff]] = {}
    for row in action_diffs(trajectories, tasks):
        found.setdefault(row.trajectory_id, []).append(row)
    return found


def triage_question(
    model: str,
    trajectory: Trajectory,
    tokens: int,
    told: Told | None = None,
    diffs: Sequence[ActionDiff] = (),
    context: Context = NOTHING_KNOWN,
) -> Question[FaultAnswer]:
    """Return the question whose doing one failure was: its outcome is known, so nothing is withheld."""
    shown = view(trajectory, tokens, blind=False, above=context.policy)
    ended = "it failed; how it ended and how it was judged is not known"
    if trajectory.stop != "unknown":
        ended = f"the run ended as '{trajectory.stop}'"
    known = [ended, *failed_checks(trajectory)]
    known += difference_lines(diffs, told is not None and told.has_expected)
    if told is not None:
        known += [f"expected to be told: {one_line(one)}" for one in told.expected_outputs[:MOST_DIFFS]]
    instruction = (told.instruction if told is not None else "").strip()[:LONGEST_TASK]
    instruction = instruction.replace("</task", "< /task")  # nothing but ours ends it
    return Question(
        kind="triage",
        model=model,
        system=render("triage.md", context=context.text, has_user=context.has_user),
        user=render(
            "triage_ask.md",
            told=instruction,
            has_user=context.has_user,
            transcript=shown.text,
            known=known,
        ),
        schema=FaultAnswer if context.has_user else AloneAnswer,
        examine=_complaints_of_looks,
        mend=lambda answer: answer.model_copy(
            update={"evidence": [index for index in answer.evidence if index in shown.indices]}
        ),
    )


def _complaints_of_looks(answer: FaultAnswer) -> list[str]:
    if answer.fault != "agent" and not (answer.evidence and answer.rationale.strip()):
        return [f"{answer.fault} is accused without evidence in this transcript, or without a rationale"]
    return []
