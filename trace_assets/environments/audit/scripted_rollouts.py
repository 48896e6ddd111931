"""Plays scripted episodes of an environment in the sandbox."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.environments.contract.description import mutation_marked
from trace_assets.records import ToolSpec
from trace_assets.sandbox import EnvironmentFault, SandboxPool, Session, Timeout
from trace_assets.sandbox.config import EVERYWHERE, Conditions
from trace_assets.sandbox.controls import Reservoir
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.targets.sandboxed import checked_verdict

Action = dict[str, Any]
HANDED_OVER = re.compile(
    r"\bhand(?:s|ed|ing)? (?:over (?:an? |the |this )?{0}|(?:an? |the |this )?{0} over)\b".format(
        "(?:user|customer|client|caller|patient|donor|member|guest|passenger|person|case|conversation|call)"
    ),
    re.IGNORECASE,
)
"""How a description says that whoever is served is handed to somebody else; a key or a parcel is nobody."""
RECORDED = 32
"""Episodes of an audit that are kept, to be played again wherever its environment is used."""


@dataclass
class Played:
    """One finished episode.

    Attributes:
        first: The first messages.
        answers: What each step returned.
        actions: The messages that were played: those after the episode's end are not.
        verdict: As the environment gave it, checked.
        reset_seconds: Wall time of the reset.
        step_seconds: Wall time of all steps.
    """

    seed: int
    first: list[dict[str, Any]]
    answers: list[dict[str, Any]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    verdict: dict[str, Any] = field(default_factory=dict)
    reset_seconds: float = 0.0
    step_seconds: float = 0.0

    @property
    def reward(self) -> float:
        """The reward."""
        return float(self.verdict["reward"])

    @property
    def success(self) -> bool:
        """Whether the environment calls it a success."""
        return bool(self.verdict["success"])


class Budget:
    """Wall time that an audit may spend waiting for one environment: a slow one must not hold it for hours.

    Args:
        seconds: The most, over all calls.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self.limit, self.spent = seconds, 0.0

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.limit

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of a call.

        Raises:
            Timeout: Nothing is left.
        """
        if self.over:
            raise Timeout(f"the environment kept the audit waiting for more than {self.limit:g} s in all")
        start = time.monotonic()
        try:
            yield
        finally:
            self.spent += time.monotonic() - start


class Probe:
    """Plays episodes of one module; oracle scripts and first messages are asked for once.

    Every method raises `SandboxError` for faults of the environment or its sandbox.

    Args:
        pool: Where it runs.
        source: The module.
        known: Tools of which it is known whether they change anything; the others are judged by their name.
        budget: Time that may be spent; None bounds nothing.
        secret: Feeds the choices of attackers and mutants: the module knows its seed and this program, and
            must not know what they will do.

    Attributes:
        record: Finished episodes, a few drawn of all: they are played again when the environment is used.
    """

    def __init__(
        self,
        pool: SandboxPool,
        source: str,
        known: Sequence[ToolSpec] = (),
        budget: Budget | None = None,
        secret: str = "",
    ) -> None:
        self.pool, self.source = pool, source
        self.budget = budget or Budget()
        self.record = Reservoir[Played](RECORDED)
        self._secret = secret
        self._known = {tool.name: bool(tool.mutates) for tool in known if tool.mutates is not None}
        self._environment = pool.environment(source)
        self._oracles: dict[int, list[Action]] = {}
        self._first: dict[int, list[dict[str, Any]]] = {}
        self._best: dict[int, Played] = {}

    def chance(self, purpose: str) -> random.Random:
        """Return the source of what is left to chance for a purpose, the same one each time."""
        return random.Random(f"{self._secret}/{purpose}")

    def tools(self) -> list[dict[str, Any]]:
        """Return the environment's tool schemas."""
        with self.budget.spending():
            return self._environment.tools()

    def writes(self, name: str) -> bool:
        """Tell whether a tool changes anything."""
        if name not in self._known:
            spec = ToolSpec(name=name, description=self._said_of(name))
            self._known[name] = bool(mutation_marked([spec])[0].mutates)
        return self._known[name]

    def hands_over(self, name: str) -> bool:
        """Tell whether a tool hands whom it serves to somebody else, by its name or what is said of it."""
        return hands_over(name) or bool(HANDED_OVER.search(self._said_of(name)))

    def _said_of(self, name: str) -> str:
        declared = (tool.get("function") or {} for tool in self.tools())
        return next((str(one.get("description") or "") for one in declared if one.get("name") == name), "")

    def oracle(self, seed: int) -> list[Action]:
        """Return the environment's own solution of a seed."""
        if seed not in self._oracles:
            with self.budget.spending():
                self._oracles[seed] = self._environment.oracle(seed)
        return self._oracles[seed]

    def first(self, seed: int) -> list[dict[str, Any]]:
        """Return the first messages of a seed."""
        if seed not in self._first:
            with self.budget.spending(), self._environment.reset(seed) as session:
                self._first[seed] = session.messages
        return self._first[seed]

    def play(self, seed: int, actions: Sequence[Action]) -> Played:
        """Play a script in the pool's sandbox for this environment."""
        start = time.perf_counter()
        with self.budget.spending(), self._environment.reset(seed) as session:
            played = _finish(session, actions, time.perf_counter() - start)
        self.record.see(played)
        return played

    def walk(self, seed: int, actions: Sequence[Action]) -> list[dict[str, Any]]:
        """Play a script without asking for the verdict; return what each step answered."""
        answers: list[dict[str, Any]] = []
        with self.budget.spending(), self._environment.reset(seed) as session:
            for action in actions:
                answers.append(session.step(action))
                if session.done or session.truncated:
                    break
        return answers

    def ask(self, seed: int, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Make calls one after the other; return the tool message that answers each.

        An episode that ends is begun again, so later calls may find what earlier ones changed undone.

        Raises:
            EnvironmentFault: A call was not answered by a tool message.
        """
        with self.budget.spending():
            return self._ask(seed, calls)

    def _ask(self, seed: int, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        session = self._environment.reset(seed)
        try:
            for number, one in enumerate(calls, start=1):
                if session.done or session.truncated:
                    session.close()
                    session = self._environment.reset(seed)
                call = {"id": f"ask_{number}", **one}
                answer = session.step({"role": "assistant", "tool_calls": [call]})
                told = [m for m in answer["messages"] if m.get("tool_call_id") == call["id"]]
                if not told:
                    raise EnvironmentFault(f"the call of {one['name']} was not answered")
                messages.append(told[0])
        finally:
            session.close()
        return messages

    def best(self, seed: int) -> Played:
        """Play the oracle's script, once a seed."""
        if seed not in self._best:
            self._best[seed] = self.play(seed, self.oracle(seed))
        return self._best[seed]

    @contextmanager
    def fresh(self, conditions: Conditions = EVERYWHERE) -> Iterator[FreshProbe]:
        """Give a sandbox in which nothing has run yet; it is thrown away afterwards."""
        box = self.pool.fresh(self._environment, conditions)
        try:
            yield FreshProbe(box, self.budget)
        finally:
            box.fail()


class FreshProbe:
    """Plays in one sandbox of its own."""

    def __init__(self, box: Sandbox, budget: Budget) -> None:
        self._box, self._budget = box, budget

    def age(self, episodes: int) -> None:
        """Begin and give up so many episodes."""
        with self._budget.spending():
            for seed in range(episodes):
                Session(self._box.leaf, seed).close()

    def play(self, seed: int, actions: Sequence[Action]) -> Played:
        """Play a script in this sandbox."""
        start = time.perf_counter()
        with self._budget.spending(), Session(self._box.leaf, seed) as session:
            return _finish(session, actions, time.perf_counter() - start)


def _finish(session: Session, actions: Sequence[Action], reset_seconds: float) -> Played:
    played = Played(seed=session.seed, first=session.messages, reset_seconds=reset_seconds)
    start = time.perf_counter()
    for action in actions:
        played.answers.append(session.step(action))
        if session.done or session.truncated:
            break
    played.step_seconds = time.perf_counter() - start
    played.actions = list(session.actions)
    played.verdict = session.verdict()
    checked_verdict(played.verdict)
    return played
