"""Rewards that are not taken on trust: some episodes are played again where nothing else has run.

The host's record of an episode is its seed and its actions; an environment that is what it says gives the
same verdict for them anywhere. One whose rewards depend on anything else (what ran before it, the age of its
container, a reply forged by what it was told) is found out, and its run ends.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from trace_assets.errors import CheckFailed
from trace_assets.sandbox.faults import Died, SandboxError, SandboxUnavailable, Timeout
from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.session import Session

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
    """

    episodes: int = 0
    recomputed: int = 0
    unconfirmed: int = 0

    @property
    def share(self) -> float:
        """Recomputed / episodes; 0 without episodes."""
        return self.recomputed / self.episodes if self.episodes else 0.0


@dataclass(frozen=True)
class _Sample:
    seed: int
    actions: Sequence[dict[str, Any]]
    verdict: dict[str, Any]


class Recomputation:
    """Plays a sample of one environment's episodes again, in the background.

    Which episodes are taken is drawn from the system's randomness: an environment that could foretell it
    would be honest in those alone. The first one is always taken. May be used from several threads.

    Args:
        pool: Where the containers come from.
        source: The environment's text.
        name: What the environment is called in messages.
        share: Share of the episodes that are taken; 0 takes none.
    """

    def __init__(self, pool: SandboxPool, source: str, *, name: str, share: float) -> None:
        self._pool, self._source, self._name, self._share = pool, source, name, share
        self._chance = random.SystemRandom()
        self._lock = threading.Lock()
        self._waiting: list[_Sample] = []
        self._running: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1, "recompute")
        self._episodes = self._recomputed = self._unconfirmed = 0
        self._mismatch: str | None = None

    def see(self, session: Session, verdict: dict[str, Any]) -> None:
        """Take note of a finished episode.

        Raises:
            RewardMismatch: An earlier one was not confirmed.
        """
        self._raise_mismatch()
        if not self._share:
            return
        with self._lock:
            self._episodes += 1
            if self._episodes == 1 or self._chance.random() < self._share:
                self._waiting.append(_Sample(session.seed, tuple(session.actions), verdict))
            if len(self._waiting) >= BATCH:
                self._begin()

    def settle(self) -> Recomputed:
        """Play again what waits, and wait for all of it.

        Raises:
            RewardMismatch: An episode was not confirmed.
        """
        with self._lock:
            self._begin()
            running = list(self._running)
        for one in running:
            one.result()
        self._raise_mismatch()
        return self.read()

    def read(self) -> Recomputed:
        """Return how much was looked at so far."""
        return Recomputed(self._episodes, self._recomputed, self._unconfirmed)

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
            self._running.append(self._thread.submit(self._play, batch))

    def _play(self, batch: list[_Sample]) -> None:
        """Play a batch in a fresh container; what ends in a fault is tried once more in another one."""
        again = self._in_fresh_container(batch, last=False)
        if again and self._mismatch is None:
            self._in_fresh_container(again, last=True)

    def _in_fresh_container(self, batch: list[_Sample], last: bool) -> list[_Sample]:
        try:
            box = self._pool.fresh(self._pool.environment(self._source))
        except SandboxError:  # nothing was played, so nothing is said of the environment
            self._unconfirmed += len(batch) if last else 0
            return batch
        try:
            for index, sample in enumerate(batch):
                try:
                    self._compare(sample, _verdict_in(box, sample))
                except (Died, Timeout, SandboxUnavailable) as fault:  # the container is gone
                    if last and isinstance(fault, SandboxUnavailable):
                        self._unconfirmed += len(batch) - index
                    elif last:
                        self._reject(sample, f"it ends in a fault ({fault})")
                    return batch[index:]
                except SandboxError as fault:
                    self._reject(sample, f"it ends in a fault ({fault})")
                if self._mismatch is not None:
                    return []
        finally:
            box.fail()
        return []

    def _compare(self, sample: _Sample, verdict: dict[str, Any]) -> None:
        if verdict == sample.verdict:
            self._recomputed += 1
            return
        earned, now = sample.verdict["reward"], verdict["reward"]
        what = f"reward {now}, not {earned}" if now != earned else "other checks under the same reward"
        self._reject(sample, f"it gives {what}")

    def _reject(self, sample: _Sample, what: str) -> None:
        if self._mismatch is None:
            self._mismatch = (
                f"{self._name} is rejected: its rewards are not decided by seed and actions alone. The "
                f"episode of seed {sample.seed} with {len(sample.actions)} actions was played again in a "
                f"fresh sandbox, and {what}: write the environment again."
            )


def _verdict_in(box: Sandbox, sample: _Sample) -> dict[str, Any]:
    with Session(box.leaf, sample.seed) as session:
        for action in sample.actions:
            session.step(action)
        return session.verdict()
