"""Attacks that this package ships, what came of one, and whether that is what had to come of it."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_assets.errors import InputError
from trace_assets.sandbox.errors import Died, SandboxError, SandboxUnavailable
from trace_assets.sandbox.pool import IsolationLevel, SandboxPool

Status = Literal["pass", "fail", "skip"]
Group = Literal["exhaustion", "escape", "integrity", "placement", "recovery"]
Place = Literal["module", "tools", "oracle", "reset", "step", "verdict"]
GROUPS: tuple[Group, ...] = ("exhaustion", "escape", "integrity", "placement", "recovery")
SHORT, LONG = 0.6, 8.0
_FOLDER = Path(__file__).parent / "attacks"


class Attack(BaseModel):
    """One attack, as a file of `attacks/` describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    group: Group
    tries: str
    """What it tries, in one sentence."""
    expected: tuple[str, ...] = Field(min_length=1)
    """Outcomes that are good, each as the beginning of an outcome: see `Outcome`."""
    code: dict[Place, str] = {}
    """Hostile code by the function of the victim that it begins; `module` is put at the module's end."""
    says: str = ""
    """Regular expression that the fault's message must match, so that a mistake in the attack is no pass."""
    call: Literal["tools", "oracle", "step", "verdict"] = "verdict"
    """The last function that is called; those before it in an episode are called first."""
    copies: int = Field(default=1, ge=1)
    """Episodes that strike at the same time in one sandbox."""
    action_text: str = "now"
    """What the agent says."""
    action_bytes: int = Field(default=0, ge=0)
    """Length of what it says: a long text fills the socket to a victim that does not read."""
    deadline: float = Field(default=0, ge=0)
    """Wall seconds a call, in place of the sandbox's own; 0: few where the deadline is what must pass, and
    enough for a busy machine elsewhere."""
    backends: tuple[IsolationLevel, ...] = ("docker", "bubblewrap")
    """Where it means something."""
    why_not: str = ""
    """Why it means nothing in the others."""
    harmless: bool = False
    """It does no harm even where nothing isolates it, so that the battery itself can be tested there."""
    wall: Literal["leaf", "container"] = "leaf"
    """What holds it: all of the sandbox, or the container alone, with an episode that keeps the kernel."""
    slow: bool = False

    @property
    def limit(self) -> float:
        """Wall seconds a call."""
        return self.deadline or (SHORT if "timeout" in self.expected else LONG)

    def wants(self, isolation: IsolationLevel) -> str | None:
        """Why it is not played in a backend; None when it is."""
        if isolation == "none":
            return None if self.harmless else "not played without isolation: it would do what it tries"
        if isolation not in self.backends:
            return self.why_not or f"means nothing in {isolation}"
        return None


@cache
def load_attacks() -> tuple[Attack, ...]:
    """Return every attack that is written as a file, in the order of the groups.

    Raises:
        InputError: A file is not what this module describes.
    """
    found: list[Attack] = []
    for path in sorted(_FOLDER.glob("*.toml")):
        group = re.split(r"[_.]", path.name)[0]
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            wall = {"wall": document["wall"]} if "wall" in document else {}
            found += [Attack(group=group, **{**wall, **row}) for row in document["attack"]]
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValidationError) as error:
            raise InputError(
                f"the attacks in {path} cannot be read ({error}); install the package again."
            ) from None
    _check_names(found)
    return tuple(sorted(found, key=lambda one: GROUPS.index(one.group)))


def _check_names(attacks: Sequence[Attack]) -> None:
    names = [one.name for one in attacks]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"attack '{doubled[0]}' is there twice; each needs a name of its own.")


MAX_CONTROL_MS = 50.0
"""How long after its deadline the host may wait."""


@dataclass(frozen=True)
class Outcome:
    """What the host saw of one episode.

    Attributes:
        name: `contained` (every attempt was refused and told so), `paid` (the reward is not the honest one),
            `escaped` (an attempt got what it wanted), `idle` (nothing was tried), `broken` (the attack itself
            is wrong); or the fault: `timeout`, `died oom`, `died exit 0`, `died signal 11`, `died killed`,
            `protocol`, `too_large`, `environment`, `unavailable`; or `refused`, before it was sent.
        detail: The fault's message, or what was tried and what came of it.
    """

    name: str
    detail: str


@dataclass(frozen=True)
class Played:
    """One attack that was played, or why it was not.

    Attributes:
        name: The attack.
        group: Its group.
        tries: What it tries.
        status: Whether the outcome was an expected one and the host is as it was.
        expected: The expected outcomes, by `or`.
        outcome: What came of it; empty for a skip.
        detail: What shows it, or why it was skipped.
        effects: What was found on the host afterwards; none is good.
        seconds: Wall time from the sandbox's start to the end of its last process.
        control_ms: How long after the deadline the host was at work again; None where no deadline passed.
    """

    name: str
    group: Group
    tries: str
    status: Status
    expected: str
    outcome: str = ""
    detail: str = ""
    effects: tuple[str, ...] = ()
    seconds: float = 0.0
    control_ms: float | None = None


def read_log(messages: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return what the victim told of the attempts, from its latest observation."""
    try:
        log = json.loads(messages[-1]["content"])["log"]
        return [dict(entry) for entry in log]
    except (IndexError, KeyError, TypeError, ValueError):
        return []


def of_log(log: Sequence[dict[str, str]], reward: float | None) -> Outcome:
    """Return the outcome of an episode that came to its end."""
    told = "; ".join(": ".join([entry["what"], _what_came(entry)]) for entry in log)
    for kind, name in (("broken", "broken"), ("got", "escaped")):
        bad = [entry for entry in log if kind in entry]
        if bad:
            return Outcome(name, f"{bad[0]['what']}: {bad[0][kind]}")
    if reward is not None and reward != 0.0:
        return Outcome("paid", f"the reward is {reward} where nothing was solved")
    return Outcome("contained", told) if log else Outcome("idle", "nothing was tried")


def _what_came(entry: dict[str, str]) -> str:
    return next((text for name, text in entry.items() if name != "what"), "")


def of_fault(error: SandboxError | InputError) -> Outcome:
    """Return the outcome of an episode that ended in a fault."""
    if isinstance(error, InputError):
        return Outcome("refused", str(error))
    name = f"died {error.reason}" if isinstance(error, Died) else error.kind
    return Outcome(name, str(error))


def is_expected(attack: Attack, outcome: Outcome) -> bool:
    """Whether an outcome is among those that an attack may have."""
    said = not attack.says or re.search(attack.says, outcome.detail) is not None
    return _is_named(outcome, attack.expected) and (said or outcome.name in ("timeout", "too_large"))


def _is_named(outcome: Outcome, expected: Sequence[str]) -> bool:
    return any(outcome.name == one or outcome.name.startswith(f"{one} ") for one in expected)


# An attack that is more than a module: something done to the sandboxes from outside.


@dataclass(frozen=True)
class Scenario:
    """Something that is done to the sandboxes from outside; it means nothing where nothing isolates them.

    Attributes:
        name: Its name.
        group: Its group.
        tries: What is done, in one sentence.
        expected: The good outcomes.
        run: Does it in a pool.
    """

    name: str
    group: Group
    tries: str
    expected: tuple[str, ...]
    run: Callable[[SandboxPool], Outcome]

    def play(self, pool: SandboxPool) -> Played:
        """Do it and judge what came of it.

        Raises:
            SandboxUnavailable: There is no sandbox to do it to.
        """
        began = time.monotonic()
        if pool.isolation_level == "none":
            return recorded(self, "skip", Outcome("", "means nothing with isolation 'none'"))
        try:
            outcome = self.run(pool)
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            outcome = of_fault(error)
        good = _is_named(outcome, self.expected)
        return recorded(self, "pass" if good else "fail", outcome, seconds=time.monotonic() - began)


def scenario(group: Group, *expected: str) -> Callable[[Callable[[SandboxPool], Outcome]], Scenario]:
    """Make a scenario of the function below: it has its name, and its docstring says what is tried."""

    def made(run: Callable[[SandboxPool], Outcome]) -> Scenario:
        return Scenario(run.__name__, group, run.__doc__ or "", expected, run)

    return made


def recorded(
    tried: Attack | Scenario,
    status: Status,
    outcome: Outcome,
    effects: Sequence[str] = (),
    seconds: float = 0.0,
    control_ms: float | None = None,
) -> Played:
    """Return the record of what was tried; its last arguments are those of `Played`."""
    return Played(
        name=tried.name,
        group=tried.group,
        tries=tried.tries,
        status=status,
        expected=" or ".join(tried.expected),
        outcome=outcome.name,
        detail=" ".join(outcome.detail.split())[:1000],
        effects=tuple(effects),
        seconds=seconds,
        control_ms=control_ms,
    )
