"""Rewards that are not taken on trust: some episodes are played again where nothing else has run.

The host's record of an episode is its seed and its actions; an environment that is what it says gives the
same verdict for them anywhere and at any time. One whose rewards depend on anything else (what ran before it,
the age of its container, the day, a reply forged by what it was told) is found out, and its run ends. So does
the run of one that pays the controls: episodes that no honest environment would pay.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from trace_assets.errors import CheckFailed
from trace_assets.sandbox.controls import IDLE, TALKER, Control, Reservoir
from trace_assets.sandbox.errors import Died, EnvironmentFault, SandboxError, SandboxUnavailable, Timeout
from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.protocol import check_result
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.session import Session
from trace_assets.stats.intervals import wilson

BATCH = 16
"""Episodes played again in one container; each has a process of its own there."""


class RewardMismatch(CheckFailed):
    """An environment's reward was not the same in a fresh sandbox: it is rejected, and what used it stops."""


@dataclass(frozen=True)
class Recomputed:
    """How much was looked at.

    Attributes:
        episodes: Episodes that were given a verdict.
        recomputed: Those of them that were played again, every one with the same verdict.
        unconfirmed: Those that could not be played again, for want of a sandbox or of time.
        later: Those that were played once more when all was over.
        recalled: Episodes of the environment's audit that were played again.
        controls: Episodes that must not be paid.
    """

    episodes: int = 0
    recomputed: int = 0
    unconfirmed: int = 0
    later: int = 0
    recalled: int = 0
    controls: int = 0

    @property
    def share(self) -> float:
        """Recomputed / episodes; 0 without episodes."""
        return self.recomputed / self.episodes if self.episodes else 0.0


@dataclass(frozen=True)
class Sample:
    """A finished episode.

    Attributes:
        seed: As the environment was given it.
        actions: Messages of the agent.
        verdict: What it earned.
    """

    seed: int
    actions: Sequence[dict[str, Any]]
    verdict: dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """What a process that played episodes hands on to the one that plays some of them again.

    Attributes:
        episodes: Episodes that were given a verdict.
        samples: Those of them that were drawn.
    """

    episodes: int
    samples: tuple[Sample, ...]


class Recomputation:
    """Plays a sample of one environment's episodes again, in the background.

    Which episodes are taken is drawn from the system's randomness: an environment that could foretell it
    would be honest in those alone. The first one is always taken. May be used from several threads.

    Args:
        pool: Where the containers come from.
        source: The environment's text.
        name: What the environment is called in messages.
        share: Share of the episodes that are taken; 0 takes none.
        controls: What is made of those that are taken and must not be paid.
    """

    def __init__(
        self,
        pool: SandboxPool,
        source: str,
        *,
        name: str,
        share: float,
        controls: Sequence[Control] = (IDLE, TALKER),
    ) -> None:
        self._pool, self._source, self._name, self._share = pool, source, name, share
        self._kinds = tuple(controls)
        self._chance = random.SystemRandom()
        self._lock = threading.Lock()
        self._waiting: list[Sample] = []
        self._late = Reservoir[Sample](BATCH)
        self._running: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1, "recompute")
        self._keeps = False
        self._counts: Counter[str] = Counter()
        self._controls: Counter[tuple[str, bool]] = Counter()  # (kind, success) -> episodes
        self._mismatch: str | None = None

    def recall(self, samples: Sequence[Sample]) -> None:
        """Play episodes of the environment's audit again, in the background."""
        if samples and self._share:
            with self._lock:
                for start in range(0, len(samples), BATCH):
                    batch = list(samples[start : start + BATCH])
                    self._running.append(self._thread.submit(self._play, batch, "recalled"))

    def keep(self) -> None:
        """Play nothing again from now on: keep what is drawn, for another process to `take`."""
        self._keeps = True

    def kept(self) -> Drawn:
        """Return what `keep` had this process keep."""
        with self._lock:
            return Drawn(self._counts["episodes"], tuple(self._waiting))

    def take(self, drawn: Drawn) -> None:
        """Take note of episodes that another process played, and of those that it drew of them.

        Raises:
            RewardMismatch: An earlier one was not confirmed.
        """
        self._raise_mismatch()
        with self._lock:
            self._counts["episodes"] += drawn.episodes
            for sample in drawn.samples:
                self._draw(sample)

    def see(self, session: Session, verdict: dict[str, Any]) -> None:
        """Take note of a finished episode.

        Raises:
            RewardMismatch: An earlier one was not confirmed.
        """
        self._raise_mismatch()
        if not self._share:
            return
        with self._lock:
            self._counts["episodes"] += 1
            if self._counts["episodes"] == 1 or self._chance.random() < self._share:
                self._draw(Sample(session.seed, tuple(session.actions), verdict))

    def _draw(self, sample: Sample) -> None:
        self._waiting.append(sample)
        self._late.see(sample)
        if len(self._waiting) >= BATCH and not self._keeps:
            self._begin()

    def settle(self) -> Recomputed:
        """Play again what waits, wait for all of it, and play some once more now that all is over.

        Raises:
            RewardMismatch: An episode was not confirmed.
        """
        with self._lock:
            self._begin()
            if self._late.kept:
                self._running.append(self._thread.submit(self._play, list(self._late.kept), "later"))
            running = list(self._running)
        for one in running:
            one.result()
        self._raise_mismatch()
        return self.read()

    def read(self) -> Recomputed:
        """Return how much was looked at so far."""
        return Recomputed(**{name: self._counts[name] for name in Recomputed.__dataclass_fields__})

    def close(self) -> None:
        """Give up what waits."""
        with self._lock:
            self._waiting.clear()
            for one in self._running:
                one.cancel()
        self._thread.shutdown(wait=True)

    def _raise_mismatch(self) -> None:
        if self._mismatch is not None:
            raise RewardMismatch(self._mismatch)

    def _begin(self) -> None:
        if self._waiting:
            batch, self._waiting = self._waiting, []
            self._running.append(self._thread.submit(self._play, batch, "recomputed"))

    def _play(self, batch: list[Sample], purpose: str) -> None:
        """Play a batch in a fresh container; what ends in a fault is tried once more in another one."""
        if self._mismatch is not None:
            return
        again = self._in_fresh_container(batch, purpose, last=False)
        if again and self._mismatch is None:
            self._in_fresh_container(again, purpose, last=True)

    def _in_fresh_container(self, batch: list[Sample], purpose: str, last: bool) -> list[Sample]:
        try:
            box = self._pool.fresh(self._pool.environment(self._source))
        except SandboxError:  # nothing was played, so nothing is said of the environment
            self._miss(len(batch) if last else 0, purpose)
            return batch
        try:
            for index, sample in enumerate(batch):
                try:
                    self._compare(sample, _verdict_in(box, sample), purpose)
                except (Died, Timeout, SandboxUnavailable) as fault:  # the container is gone
                    if last and isinstance(fault, SandboxUnavailable):
                        self._miss(len(batch) - index, purpose)
                    elif last:
                        self._reject(sample, f"it ends in a fault ({fault})", purpose)
                    return batch[index:]
                except Exception as fault:  # whatever it makes the replay stumble over, it did not before
                    self._reject(sample, f"it ends in a fault ({type(fault).__name__}: {fault})", purpose)
                if self._mismatch is not None:
                    return []
            if purpose == "recomputed":
                self._try_controls(box, batch)
        finally:
            box.fail()
        return []

    def _miss(self, episodes: int, purpose: str) -> None:
        if purpose == "recomputed":
            self._counts["unconfirmed"] += episodes

    def _compare(self, sample: Sample, verdict: dict[str, Any], purpose: str) -> None:
        if verdict == sample.verdict:
            self._counts[purpose] += 1
            return
        earned, now = sample.verdict["reward"], verdict["reward"]
        what = f"reward {now}, not {earned}" if now != earned else "other checks under the same reward"
        self._reject(sample, f"it gives {what}", purpose)

    def _reject(self, sample: Sample, what: str, purpose: str) -> None:
        if self._mismatch is None:
            of = "its audit's" if purpose == "recalled" else "the"
            when = " at the end of the run" if purpose == "later" else ""
            self._mismatch = (
                f"{self._name} is rejected: its rewards are not decided by seed and actions alone. Of {of} "
                f"episodes the one of seed {sample.seed} with {len(sample.actions)} actions was played again "
                f"in a fresh sandbox{when}, and {what}: write the environment again."
            )

    def _try_controls(self, box: Sandbox, batch: list[Sample]) -> None:
        """Play the controls of a batch that was confirmed; a fault says nothing for or against."""
        for sample in batch:
            for kind in self._kinds:
                if kind.of_paid and not sample.verdict["success"]:
                    continue
                try:
                    actions = kind.make(sample.actions, partial(_solution_in, box, sample.seed))
                    if actions is None:
                        continue
                    verdict = _verdict_in(box, Sample(sample.seed, actions, {}), to_its_end=True)
                except EnvironmentFault:
                    continue
                except SandboxError:
                    return
                self._controls[kind.name, bool(verdict["success"])] += 1
                self._counts["controls"] += 1
                self._judge(kind)

    def _judge(self, kind: Control) -> None:
        paid = self._controls[kind.name, True]
        played = paid + self._controls[kind.name, False]
        if wilson(paid, played)[0] > kind.most and self._mismatch is None:
            self._mismatch = (
                f"{self._name} is rejected: it pays for nothing. One that {kind.name} succeeds in {paid} "
                f"of {played} episodes of the seeds that were used, and no more than {kind.most:.0%} may: "
                "write the environment again."
            )


def _verdict_in(box: Sandbox, sample: Sample, to_its_end: bool = False) -> dict[str, Any]:
    """Play an episode; one that was played before has to take all its messages again."""
    with Session(box.leaf, sample.seed) as session:
        for action in sample.actions:
            if to_its_end and (session.done or session.truncated):
                break
            session.step(action)
        return session.verdict()


def _solution_in(box: Sandbox, seed: int) -> Sequence[dict[str, Any]]:
    """The environment's own solution of a seed."""
    leaf = box.leaf()
    try:
        solution: Sequence[dict[str, Any]] = leaf.ask("oracle", seed=seed)
        check_result("oracle", solution)
    finally:
        leaf.close()
    return solution


def replay(pool: SandboxPool, source: str, seed: int, actions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Play recorded actions in a fresh container and return its verdict.

    Args:
        pool: Where the container comes from; it is started for this call and thrown away after it.
        source: The environment's source text.
        seed: Seed of the recorded episode.
        actions: Its assistant messages in order, as `Session.actions` holds them.

    Returns:
        The verdict, as `Session.verdict` gives it.

    Raises:
        SandboxError: The replay failed where the recorded episode did not.
    """
    environment = pool.environment(source)
    box = pool.fresh(environment)
    try:
        with Session(box.leaf, seed) as session:
            for action in actions:
                session.step(action)
            return session.verdict()
    finally:
        box.fail()
