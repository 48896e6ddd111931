"""The live policy goes on from a repaired run, where putting calls in or taking them out cannot tell."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trace_assets.diagnosis.repair.run import Plan, Run
from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation, Policy, Reply
from trace_assets.records import Capability, Label, Message, Repair, Task, Trajectory
from trace_assets.rollouts.episode import Trial, play, run_identity, trajectory_id
from trace_assets.rollouts.runner import Journal
from trace_assets.system.progress import progress
from trace_assets.targets.protocol import Target

TOLD = "From here on, take special care of this: {}."
"""What the agent is told before its turn is taken again, where no call can be put in."""
PLACEBO = "From here on, take special care of this: read all that is said, and answer in good order."
"""Told instead in the control: of no concern to any capability."""
EPISODES = 2
"""For each repair: the repaired one and its control."""


@dataclass(frozen=True)
class Open:
    """A lack that replaying alone leaves open.

    Attributes:
        task: Of the run.
        run: The failed run.
        capability: What it lacks.
        label: What shows that it does.
        plan: What is put in, where only the agent could say what follows; None where nothing can be.
        row: What replaying alone says.
    """

    task: Task
    run: Run
    capability: Capability
    label: Label
    plan: Plan | None
    row: Repair


@dataclass
class GoingOn:
    """How the live policy goes on.

    Attributes:
        policy: The one that played the runs. It is not closed.
        most: Episodes at the most.
        max_turns: Assistant messages after which an episode is cut off, those from before included.
        journal: Where finished episodes go, and where those of an interrupted run are taken from.
        concurrency: Episodes in the air at once.
        played: Episodes that were played by now.
        from_journal: Episodes that an interrupted run had played: booked now, for that run booked nothing.
        cost_usd: What all of them cost, as far as that is known.
    """

    policy: Policy
    most: int
    max_turns: int
    journal: Journal | None = None
    concurrency: int = 8
    played: int = 0
    from_journal: int = 0
    cost_usd: float = 0.0

    async def resolve(self, target: Target, open_lacks: Sequence[Open]) -> list[Repair]:
        """Go on from as many runs as may be played, every capability in its turn.

        Each is played twice from the same place: once with the repair (the call put in, or the agent told
        what it lacks), once without (the turn just taken again, told something of equal length), so that a
        second chance alone counts as the placebo's.

        Raises:
            Unavailable: The target or the policy is down; what was finished is in the journal.
        """
        chosen = in_turn(open_lacks)[: self.most // EPISODES]
        kept = self.journal.load() if self.journal is not None else {}
        room = asyncio.Semaphore(self.concurrency)
        with progress("played on", EPISODES * len(chosen)) as bar:

            async def both(one: Open) -> Repair:
                async with room:
                    after = await self._play(target, one, kept, repaired=True)
                    bar.advance(1)
                    control = await self._play(target, one, kept, repaired=False)
                    bar.advance(1)
                return _row(one, after, control)

            try:
                return list(await asyncio.gather(*map(both, chosen)))
            finally:
                if self.journal is not None:
                    self.journal.close()

    async def _play(
        self, target: Target, one: Open, kept: dict[str, Trajectory], *, repaired: bool
    ) -> Trajectory:
        run = one.run.trajectory
        written, told = beginning(one, repaired=repaired)
        policy = _FromThere(self.policy, written, told)
        trial = Trial(one.task, run.trial, run.seed or 0, run.adapter)
        said = (message.model_dump_json(exclude_defaults=True) for message in written)
        beside = (run.trajectory_id, one.capability.capability_id, told, *said)
        identity = trajectory_id((*run_identity(target, self.policy, self.max_turns), *beside), trial)
        found = kept.get(identity)
        if found is None or found.fault is not None:
            rollout = await play(target, trial, policy, max_turns=self.max_turns, identity=identity)
            found = rollout.trajectory
            self.played += 1
            if self.journal is not None:
                self.journal.append(found)
        else:
            self.from_journal += 1
        self.cost_usd += found.cost_usd or 0.0
        if found.fault == "infrastructure":
            raise Unavailable(
                f"task '{run.task_id}' could not be played on from its repair: {found.error}; what was "
                "played is kept, and the same command goes on."
            )
        return found


def in_turn(open_lacks: Iterable[Open]) -> list[Open]:
    """Order lacks so that every capability comes once before one comes twice, and tasks before trials."""
    by_capability: dict[str, list[Open]] = defaultdict(list)
    for one in open_lacks:
        by_capability[one.capability.capability_id].append(one)
    ranked: list[tuple[int, str, Open]] = []
    for name, own in by_capability.items():
        own.sort(key=lambda one: (one.run.trajectory.trial, one.run.trajectory.trajectory_id))
        ranked += [(place, name, one) for place, one in enumerate(own)]
    ranked.sort(key=lambda item: item[:2])
    return [one for _, _, one in ranked]


def beginning(one: Open, *, repaired: bool) -> tuple[list[Message], str]:
    """Return the agent's turns that are said as they were, and what it is told behind them.

    Args:
        one: The lack.
        repaired: Whether with the repair, or without it for the control.
    """
    if one.plan is None:
        first = min(one.label.evidence, default=one.run.end)
        turns = [message for message in one.run.trajectory.messages[:first] if message.role == "assistant"]
        words = one.capability.name.rstrip(".") if repaired else ""
        return turns, TOLD.format(words) if repaired else PLACEBO
    turns = one.run.turns(one.plan if repaired else None)
    if one.plan.looks_only:  # up to the first look; the agent makes of it what it will
        place = min(change.at for change in one.plan.changes)
        before = sum(message.role == "assistant" for message in one.run.trajectory.messages[:place])
        turns = turns[: before + 1] if repaired else turns[:before]
    while turns and not turns[-1].tool_calls:  # the closing words are the agent's to say
        turns.pop()
    return turns, ""


class _FromThere:
    """Says what is written, then leaves the word to the live policy, which it may have told something."""

    def __init__(self, live: Policy, written: Sequence[Message], told: str) -> None:
        self._live, self._written, self._told = live, written, told
        self._views: dict[str, Conversation] = {}

    @property
    def name(self) -> str:
        """The live policy's."""
        return self._live.name

    @property
    def version(self) -> str:
        """The live policy's."""
        return self._live.version

    async def act(self, conversation: Conversation) -> Reply:
        """Say the next written turn, or what the live policy says."""
        said = sum(message.role == "assistant" for message in conversation.messages)
        if said < len(self._written):
            return Reply(self._written[said], cost_usd=0.0)
        name = conversation.conversation_id
        # One view an episode: a policy that keeps its tokens knows a conversation by its object.
        view = self._views.setdefault(name, replace(conversation, messages=[], tokens=None))
        view.messages[:] = _with_words(conversation.messages, self._told)
        return await self._live.act(view)

    async def forget(self, conversation: Conversation) -> None:
        """The conversation is over."""
        view = self._views.pop(conversation.conversation_id, None)
        if view is not None:
            await self._live.forget(view)

    async def close(self) -> None:
        """The live policy stays open: it is somebody else's."""


def _with_words(messages: Sequence[Message], told: str) -> list[Message]:
    """Return messages with a sentence at the end of the system message, where agents heed it most."""
    if not told:
        return list(messages)
    if messages and messages[0].role == "system":
        first = messages[0].model_copy(update={"content": f"{messages[0].content or ''}\n\n{told}".strip()})
        return [first, *messages[1:]]
    return [Message(role="system", content=told), *messages]


def _row(one: Open, after: Trajectory, control: Trajectory) -> Repair:
    """Return what came of playing on; what broke is no verdict."""
    broken = next((done for done in (after, control) if done.fault is not None), None)
    if broken is not None or after.success is None:
        why = broken.error if broken is not None else "it was not judged"
        return one.row.model_copy(update={"detail": f"played on from its repair it breaks: {why}"})
    words = one.plan.words if one.plan is not None else f"the agent told at its turn: {one.capability.name}"
    judged = control.success is not None and control.reward is not None
    return one.row.model_copy(
        update={
            "status": "decisive" if after.success else "not decisive",
            "detail": "",
            "kind": "go on",
            "change": f"{words}; then the agent went on",
            # An agent that was told may not heed it; one that was shown something had all that it needed.
            "partial": one.plan is None,
            "reward_after": after.reward,
            "placebo_change": "the agent went on from the same place without it" if judged else "",
            "placebo_rewards": (control.reward,) if judged else (),
            "placebo_passed": control.success if judged else None,
        }
    )
