"""A model's second look at failures that no rule puts down to anybody but the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from trace_assets.diagnosis.attribution.case import Ruling
from trace_assets.diagnosis.expected.diffs import action_diffs
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
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
from trace_assets.records import ActionDiff, Fault, Trajectory


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
        examine=_complaints,
        mend=lambda answer: answer.model_copy(
            update={"evidence": [index for index in answer.evidence if index in shown.indices]}
        ),
    )


def _complaints(answer: FaultAnswer) -> list[str]:
    if answer.fault != "agent" and not (answer.evidence and answer.rationale.strip()):
        return [f"{answer.fault} is accused without evidence in this transcript, or without a rationale"]
    return []
