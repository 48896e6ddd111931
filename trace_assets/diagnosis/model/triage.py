"""A model's second look at failures that no rule puts down to anybody but the agent.

The seam is `trace_assets.diagnosis.triage.triage(..., second_look=...)`. Rules come first: a model is asked
only about what they leave to the agent, and what it says counts only with evidence in the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trace_assets.diagnosis.model.prompt import render
from trace_assets.diagnosis.model.question import Answer, Question
from trace_assets.diagnosis.model.server import ModelServer, Unanswered
from trace_assets.diagnosis.model.view import View, view
from trace_assets.diagnosis.triage import Ruling
from trace_assets.records import Trajectory


class FaultAnswer(Answer):
    """Whom the model blames."""

    rationale: str
    evidence: list[int]
    fault: Literal["agent", "user_simulator", "environment"]


class ModelTriage:
    """Looks at failures through a server.

    Args:
        server: Whom to ask.
        model: Its model.
        tokens: Budget of a transcript.
    """

    def __init__(self, server: ModelServer, model: str, tokens: int = 24_000) -> None:
        self._server, self._model, self._tokens = server, model, tokens
        self.complete = True

    def __call__(self, trajectories: Sequence[Trajectory]) -> dict[str, Ruling]:
        """Return a ruling for each trajectory that the model puts down to somebody else than the agent.

        Args:
            trajectories: Failures; their outcome is known to the model, since it is asked only about such.

        Returns:
            By trajectory id. Those the model leaves to the agent, or gives no usable answer for, are missing.
        """
        found: dict[str, Ruling] = {}

        async def work(trajectory: Trajectory) -> None:
            try:
                answer = await self._server.ask(self._question(view(trajectory, self._tokens)))
            except Unanswered:
                return
            if answer.fault != "agent":
                evidence = tuple(sorted(set(answer.evidence)))
                found[trajectory.trajectory_id] = Ruling(
                    answer.fault, "model_second_look", evidence, answer.rationale.strip()
                )

        self.complete = self._server.run(sorted(trajectories, key=lambda one: one.trajectory_id), work)
        return found

    def _question(self, shown: View) -> Question[FaultAnswer]:
        return Question(
            kind="triage",
            model=self._model,
            system=render("triage.md"),
            user=f"The transcript:\n{shown.text}",
            schema=FaultAnswer,
            examine=lambda answer: _complaints(answer, shown.indices),
        )


def _complaints(answer: FaultAnswer, indices: frozenset[int]) -> list[str]:
    outside = [index for index in answer.evidence if index not in indices]
    if outside:
        return [f"evidence {outside} is no index of a message in this transcript"]
    if answer.fault != "agent" and not (answer.evidence and answer.rationale.strip()):
        return [f"{answer.fault} is accused without evidence or without a rationale"]
    return []
