"""Labels of a model: all capabilities of a trajectory in one request, in at least two passes, blind.

The capabilities come first and the transcript last, so that all requests of a pass share their beginning and
the server's prompt cache pays for most of it. Each pass has the capabilities in another order: an answer that
follows the order rather than the transcript differs between passes, and the agreement shows it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from trace_assets.code_versions import code_version
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.request import Answer, Question, render
from trace_assets.diagnosis.llm.transcript import View, view
from trace_assets.diagnosis.triage import SECOND_LOOK, Ruling
from trace_assets.records import Capability, Label, ShownTranscript, Trajectory
from trace_assets.settings import Labels
from trace_assets.system.progress import progress

SMALLEST = 64
"""A transcript that the server calls too long is compacted to half of its budget, down to so many tokens."""


class OneLabel(Answer):
    """What the model says about one capability."""

    id: str
    rationale: str
    evidence: list[int]
    label: Literal["NA", "PRESENT", "LACKING"]


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


def label_hashes(section: Labels, trajectory: Trajectory, capabilities: Sequence[Capability]) -> list[str]:
    """Return, for each capability, a hash of all that decides this trajectory's label besides the pass."""
    shown = view(trajectory, section.transcript_tokens).record.view_hash
    common = [code_version("labelling by a model"), section.model, section.temperature, shown]
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
    section: Labels, shown: View, capabilities: Sequence[Capability], number: int
) -> Question[LabelAnswer]:
    """Return the question that labels one transcript with capabilities in a given order."""
    ids = [f"C{place}" for place in range(1, len(capabilities) + 1)]
    lines = [
        json.dumps({"id": name, "name": one.name, "description": one.description}, ensure_ascii=False)
        for name, one in zip(ids, capabilities, strict=True)
    ]
    return Question(
        kind="label",
        model=section.model,
        system=render("label.md", capabilities=lines),
        user=f"The transcript:\n{shown.text}",
        schema=LabelAnswer,
        temperature=section.temperature,
        seed=number,
        examine=lambda answer: _complaints(answer, ids, shown.indices),
    )


def _complaints(answer: LabelAnswer, ids: Sequence[str], indices: frozenset[int]) -> list[str]:
    """Say what is wrong with an answer of the right form."""
    given = [one.id for one in answer.labels]
    found = [f"there is no capability '{name}'" for name in given if name not in ids]
    found += [f"the label for {name} is missing" for name in ids if name not in given]
    found += [f"{name} is labelled more than once" for name in ids if given.count(name) > 1]
    if not found and given != list(ids):
        found.append(f"the labels are not in the order of the list, which is {', '.join(ids)}")
    for one in answer.labels:
        outside = [index for index in one.evidence if index not in indices]
        if outside:
            found.append(f"{one.id}: evidence {outside} is no index of a message in this transcript")
        if one.label == "PRESENT" and not one.evidence:
            found.append(f"{one.id}: PRESENT needs evidence")
        if one.label != "NA" and not one.rationale.strip():
            found.append(f"{one.id}: {one.label} needs a rationale")
    return found


class ModelLabeller:
    """Labels through a server.

    Args:
        server: Whom to ask.
        section: Model, passes, budget of a transcript.
        name: As in `Label.labeller`.
    """

    def __init__(self, server: ModelServer, section: Labels, name: str) -> None:
        self._server, self._section, self._name = server, section, name

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
                shown = view(trajectory, self._section.transcript_tokens)
                done.shown[trajectory.trajectory_id] = shown.record
                hashes = dict(
                    zip(
                        (one.capability_id for one in capabilities),
                        label_hashes(self._section, trajectory, capabilities),
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
                answer = await self._server.ask(label_question(self._section, shown, capabilities, number))
                return list(zip(capabilities, answer.labels, strict=True))
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
                shown = view(trajectory, budget)
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


# A model's second look at failures that no rule puts down to anybody but the agent.


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
                    answer.fault, SECOND_LOOK, evidence, answer.rationale.strip()
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
            examine=lambda answer: _complaints_triage(answer, shown.indices),
        )


def _complaints_triage(answer: FaultAnswer, indices: frozenset[int]) -> list[str]:
    outside = [index for index in answer.evidence if index not in indices]
    if outside:
        return [f"evidence {outside} is no index of a message in this transcript"]
    if answer.fault != "agent" and not (answer.evidence and answer.rationale.strip()):
        return [f"{answer.fault} is accused without evidence or without a rationale"]
    return []
