"""The analyst that asks a language model, behind the same protocol as the detectors."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from trace_assets.code_versions import code_version
from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.discovery import Known, Proposed, propose
from trace_assets.diagnosis.llm.found_again import keep_found, recognise
from trace_assets.diagnosis.llm.further import Further, Open, propose_further
from trace_assets.diagnosis.llm.labelling import Labelled, ModelLabeller, label_hashes
from trace_assets.diagnosis.llm.merging import Merged, merge
from trace_assets.diagnosis.llm.request import NOTHING_KNOWN, Context
from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import Capability, Label, Message, Trajectory
from trace_assets.settings import Discovery, Labels
from trace_assets.system.processes import finish
from trace_assets.targets.embedded.demonstrations import WRONG_SHARE, mistaken
from trace_assets.targets.embedded.desk import Skill, solve
from trace_assets.targets.embedded.generator import Drawn, stream
from trace_assets.targets.embedded.target import DeskEpisode


class ModelAnalyst:
    """Proposes and labels through an OpenAI-compatible server.

    Discovery sees outcomes, labelling never does. What was done besides the result is kept in the attributes
    of the last call.

    Args:
        server: Whom to ask; it carries the memory and the account.
        discovery: Which model proposes, and how.
        labels: Which model labels, and how.
        known: Capabilities of the dictionary as it is; what is found again keeps its id and words.
        contexts: By target: what the agent knew.
        told: By target: what discovery is told beside the runs.

    Attributes:
        proposed: Passes of the last `discover`.
        further: The last `read_further`.
        merged: What became of the proposals of either.
        labelled: The last `label`.
    """

    def __init__(
        self,
        server: ModelServer,
        discovery: Discovery,
        labels: Labels,
        known: Sequence[Capability] = (),
        contexts: Mapping[str, Context] | None = None,
        told: Mapping[str, Known] | None = None,
    ) -> None:
        self._contexts, self._told = contexts or {}, told or {}
        self._server, self._discovery, self._labels = server, discovery, labels
        self._known = [one for one in known if one.detector is None]
        self.proposed, self.further = Proposed(), Further()
        self.merged = Merged([], [], 0, "name")
        self.labelled = Labelled()

    @property
    def name(self) -> str:
        """`model:<name>` of the model that labels; capabilities name the one that proposed them."""
        return f"model:{self._labels.model}"

    @property
    def version(self) -> str:
        """Hash of prompts, code and settings; the weights behind a model's name are not known."""
        parts = (
            code_version("discovery by a model"),
            code_version("labelling by a model"),
            self._discovery.fingerprint(),
            self._labels.fingerprint(),
        )
        return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]

    def discover(self, trajectories: Sequence[Trajectory]) -> list[Capability]:
        """Propose capabilities in several passes and merge the proposals.

        Args:
            trajectories: Judged ones of one target.

        Returns:
            At most `max_candidates`, those that most passes proposed first.

        Raises:
            InputError: They are of several targets, or no model is set.
            TraceError: The server cannot be used.
        """
        targets = sorted({one.target for one in trajectories})
        if len(targets) > 1:
            raise InputError(
                "capabilities are discovered within one target, but these trajectories are of "
                f"{', '.join(targets)}; discover in each of them alone."
            )
        self.proposed, self.merged = Proposed(), Merged([], [], 0, "name")
        if not self._discovery.model:
            raise InputError("no model is set that proposes: set discovery.model.")
        if targets:
            proposer = f"model:{self._discovery.model}"
            where = (self._server, self._discovery, proposer, targets[0])
            told = self._told.get(targets[0]) or Known(self._context(targets[0]))
            self.proposed = propose(*where, trajectories, told)
            merged = merge(*where, self.proposed.proposals)
            known = self._of_its_size([one for one in self._known if one.target == targets[0]])
            self.merged = recognise(self._server, self._discovery, merged, known)
            runs = {one.trajectory_id for one in trajectories}
            self.merged = keep_found(self.merged, known, runs, self._discovery.max_candidates)
        return self.merged.capabilities

    def read_further(
        self, trajectories: Sequence[Trajectory], candidates: Sequence[Capability], open_: Open, reading: int
    ) -> list[Capability]:
        """Read failures that no candidate explains, and name what decided them.

        Args:
            trajectories: Judged ones of one target.
            candidates: All of the target, whoever named them.
            open_: The failures.
            reading: Its number, from 2.

        Returns:
            The candidates that are new; `further` and `merged` say how they came about.
        """
        target = trajectories[0].target
        where = (self._server, self._discovery, f"model:{self._discovery.model}", target)
        told = self._told.get(target) or Known(self._context(target))
        recording = self._server.recording
        try:
            self.further = propose_further(*where, trajectories, told, candidates, open_, reading)
        except InputError as error:
            if recording is None or not recording.replays:
                raise
            self.further = Further(Proposed(missing={1: str(error)}))  # recorded before there were any
        self.merged = merge(*where, self.further.proposed.proposals)
        held = self._of_its_size([one for one in candidates if one.detector is None])
        self.merged = recognise(self._server, self._discovery, self.merged, held)
        known = {one.capability_id for one in candidates}
        return [
            one.model_copy(update={"reading": reading})
            for one in self.merged.capabilities
            if one.capability_id not in known
        ]

    def _of_its_size(self, known: Sequence[Capability]) -> list[Capability]:
        """Leave out habits where cases are proposed, and cases where habits are."""
        by_case = self._discovery.size == "case"
        return [one for one in known if bool(one.detector_args) is by_case]

    def label(self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]) -> list[Label]:
        """Label every trajectory with every capability in every pass.

        Raises:
            InputError: No model is set.
            CheckFailed: The cap stopped it, or the server gave no usable answer for some; what there is can
                be had from `labelled`, and asking again asks only for the rest.
            TraceError: The server cannot be used.
        """
        done = self.label_what_can_be(trajectories, capabilities)
        if done.missing or not done.complete:
            wanted = len(trajectories) * self._labels.passes
            have = len({(one.trajectory_id, one.labelling_pass) for one in done.labels})
            raise CheckFailed(f"{wanted - have} of {wanted} transcripts got no labels: {shortfall(done)}.")
        place = {one.trajectory_id: number for number, one in enumerate(trajectories)}
        return sorted(
            done.labels, key=lambda one: (one.labelling_pass, place[one.trajectory_id], one.capability_id)
        )

    def label_what_can_be(
        self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]
    ) -> Labelled:
        """Label as far as the cap and the server allow, and say what is missing."""
        if not self._labels.model:
            raise InputError("no model is set that labels: set labels.model.")
        targets = {one.target for one in trajectories}
        context = self._context(targets.pop()) if len(targets) == 1 else NOTHING_KNOWN
        labeller = ModelLabeller(self._server, self._labels, self.name, context)
        self.labelled = labeller.run(trajectories, capabilities)
        return self.labelled

    def _context(self, target: str) -> Context:
        return self._contexts.get(target, NOTHING_KNOWN)

    def input_hashes(self, trajectory: Trajectory, capabilities: Sequence[Capability]) -> list[str]:
        """Return a hash of all that decides the label, one a capability."""
        return label_hashes(self._labels, trajectory, capabilities, self._context(trajectory.target))


def shortfall(done: Labelled) -> str:
    """Say in a few words why labels are missing."""
    reasons = [] if done.complete else ["the cap on spending was reached"]
    reasons += sorted({reason[:120] for reason in done.missing.values()})[:3]
    return "; ".join(reasons)


# Judged trajectories made by a script on the embedded target: known deficits, no model, for rehearsals.


SLIPS = 0.05
"""Share of conversations that end after their first call, whatever the skill."""


@dataclass(frozen=True)
class Rehearsal:
    """Scripted trajectories.

    Attributes:
        trajectories: Judged, of the target `embedded`.
        skills: What each one's task asks for, by trajectory.
    """

    trajectories: list[Trajectory]
    skills: dict[str, Skill]


def rehearse(tasks: int) -> Rehearsal:
    """Return what a scripted agent with the planted deficits does on the first discovery tasks.

    Args:
        tasks: How many tasks, of two trials each.
    """
    rng = random.Random(0)
    made = Rehearsal([], {})
    for number, drawn in enumerate(islice(stream(0, "discovery"), tasks)):
        for trial in range(2):
            flawed = rng.random() < WRONG_SHARE.get(drawn.skill, 0.0)
            turns = mistaken(drawn) if flawed else solve(drawn.case())
            if rng.random() < SLIPS:
                turns = [turns[0], turns[-1]]
            messages, success = finish(_play(drawn, turns))
            made.trajectories.append(
                Trajectory(
                    trajectory_id=f"{number}-{trial}",
                    task_id=f"embedded/{number}",
                    target="embedded",
                    task_batch="rehearsal",
                    trial=trial,
                    policy="scripted",
                    success=success,
                    reward=float(bool(success)),
                    stop="completed",
                    n_messages=len(messages),
                    messages=tuple(messages),
                    source="rehearsal",
                )
            )
            made.skills[made.trajectories[-1].trajectory_id] = drawn.skill
    return made


async def _play(drawn: Drawn, turns: Sequence[Message]) -> tuple[list[Message], bool | None]:
    episode = DeskEpisode(drawn.case(), drawn.text, "policy")
    messages = list(await episode.reset())
    for turn in turns:
        messages.append(turn)
        step = await episode.step(turn)
        messages += step.messages
        if step.done or step.truncated:
            break
    return messages, (await episode.verdict()).success
