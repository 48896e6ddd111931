"""The whole battery: attacks by group, each in a sandbox of its own, a few at the same time."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from trace_assets.errors import InputError
from trace_assets.sandbox.config import BARE, EVERYWHERE, SandboxConfig
from trace_assets.sandbox.errors import SandboxError, SandboxUnavailable, Timeout
from trace_assets.sandbox.pool import SandboxPool, open_pool
from trace_assets.sandbox.protocol import check_result
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.selftest.attack import (
    GROUPS,
    MAX_CONTROL_MS,
    Attack,
    Outcome,
    Played,
    Scenario,
    is_expected,
    load_attacks,
    of_fault,
    of_log,
    read_log,
    recorded,
)
from trace_assets.sandbox.selftest.host import Inventory, Trap, Watch
from trace_assets.sandbox.selftest.placement import CLEAN_OBSERVATION, PLACEMENT, arm
from trace_assets.sandbox.selftest.scenarios import BETWEEN, RECOVERY
from trace_assets.sandbox.session import Session

Listen = Callable[[Played], None]
SCENARIOS = (*BETWEEN, *PLACEMENT, *RECOVERY)
"""What is more than a module; done one after the other, when the attacks are over."""
AT_ONCE = 2
"""Attacks played at the same time: each burns a processor of its own."""


def battery_config(config: SandboxConfig) -> SandboxConfig:
    """Return the settings of the sandboxes that are attacked: those in use, with spares started ahead."""
    return config.model_copy(update={"spares": AT_ONCE})


def run_attacks(
    pool: SandboxPool, attacks: Iterable[Attack], *, listen: Listen = lambda _: None
) -> list[Played]:
    """Play attacks in the sandboxes of a pool.

    Args:
        pool: Where.
        attacks: Which.
        listen: Told of each as it ends, in this thread.

    Returns:
        One record an attack, in their order.

    Raises:
        SandboxUnavailable: There is no sandbox.
    """
    wanted = list(attacks)
    with ThreadPoolExecutor(AT_ONCE, "attack") as threads:
        runner = Runner(pool)
        futures = [threads.submit(runner.play, attack) for attack in wanted]
        try:
            for future in as_completed(futures):
                listen(future.result())
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]


def battery(slow: bool = True, names: Sequence[str] = ()) -> tuple[Attack, ...]:
    """Return the attacks that are played from files."""
    return tuple(one for one in load_attacks() if (slow or not one.slow) and (not names or one.name in names))


def run_battery(
    config: SandboxConfig, *, slow: bool = True, listen: Listen = lambda _: None
) -> tuple[list[Played], str, str]:
    """Play everything on this machine.

    Args:
        config: The sandbox in use.
        slow: Also what takes long.
        listen: Told of each record as it is made.

    Returns:
        The records in the order of the groups, the sandbox's version and its isolation level.

    Raises:
        SandboxUnavailable: There is no sandbox; the message names the fix.
    """
    inventory = Inventory(config)
    with open_pool(battery_config(config)) as pool:
        played = run_attacks(pool, battery(slow), listen=listen)
        for scenario in SCENARIOS:
            played.append(scenario.play(pool))
            listen(played[-1])
        version, isolation = pool.version, pool.isolation_level
    played.append(inventory.compare())
    listen(played[-1])
    return sorted(played, key=lambda one: GROUPS.index(one.group)), version, isolation


def battery_size() -> int:
    """Return how many records a run makes."""
    return len(battery()) + len(SCENARIOS) + 1


# Plays one attack in a sandbox of its own, and looks at the sandbox and the host afterwards.


MAX_FAULT_MS = 1500.0
"""How long after its deadline a call may end in a fault other than a timeout: who has died is asked why."""
TRIES = 3
"""How often an attack is played whose only fault is the time until control was regained: a busy machine may
be late once; a sandbox that does not let go is late every time."""


class _Strike:
    """The episodes of one attack in one sandbox."""

    def __init__(self, attack: Attack, box: Sandbox, note: Callable[[], None]) -> None:
        self.attack, self.box, self._note = attack, box, note
        self.control_ms: float | None = None
        self.kept: list[str] = []
        self.log: list[dict[str, str]] = []
        text = attack.action_text.ljust(attack.action_bytes, "x")
        self._action = {"role": "assistant", "content": text, "tool_calls": []}

    def run(self) -> Outcome:
        """Play to the end or to the first fault."""
        try:
            if self.attack.call in ("tools", "oracle"):
                return self._ask()
            sessions: list[Session] = []
            for seed in range(1, self.attack.copies + 1):
                sessions.append(self._timed(partial(Session, self.box.leaf, seed)))
                self.log += read_log(sessions[-1].messages)
            return self._episodes(sessions)
        except (SandboxError, InputError) as error:
            outcome = of_fault(error)
            if self.log and outcome.name != "broken":
                told = of_log(self.log, None)
                if told.name in ("escaped", "broken"):
                    return told
                return Outcome(outcome.name, f"{outcome.detail} (before: {told.detail})")
            return outcome

    def _ask(self) -> Outcome:
        leaf = self.box.leaf()
        try:
            fields = {"seed": 1} if self.attack.call == "oracle" else {}
            value = self._timed(lambda: leaf.ask(self.attack.call, **fields))
            began = time.monotonic()
            check_result(self.attack.call, value)
            spent = time.monotonic() - began
        finally:
            leaf.close()
        if spent > self.attack.limit:
            return Outcome("paid", f"the host's checks took {spent:.2f} s")
        return Outcome("contained", f"accepted as a harmless value, checked in {1e3 * spent:.0f} ms")

    def _episodes(self, sessions: list[Session]) -> Outcome:
        faults: list[SandboxError] = []
        before, log = self.log, list[dict[str, str]]()
        begun = []
        for session in sessions:
            try:
                self._timed(partial(session.begin_step, self._action))
                begun.append(session)
            except SandboxError as error:
                faults.append(error)
        for session in begun:
            try:
                log += read_log(self._timed(session.finish_step)["messages"])
            except SandboxError as error:
                faults.append(error)
        self.log = log or before
        if not faults and len(sessions) > 1:
            # The kernel may have taken one that had replied already, for the sake of one that had not.
            for session in sessions:
                try:
                    self._timed(session.verdict)
                except SandboxError as error:
                    faults.append(error)
        if faults:
            own = [one for one in faults if getattr(one, "reason", "") != "killed"]
            raise (own or faults)[0]
        if self.attack.call == "step":
            return of_log(self.log, None)
        verdict = self._timed(sessions[0].verdict)
        return of_log(self.log, verdict["reward"])

    def _timed(self, call: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            value = call()
            self._note()  # while its parent lives, a process is seen to belong to the sandbox
            return value
        except SandboxError as error:
            # A step's deadline begins when it is sent, a little before the wait for it that is timed here.
            late = 1e3 * max(0.0, time.monotonic() - began - self.attack.limit)
            if isinstance(error, Timeout):
                self.control_ms = late
            elif late > MAX_FAULT_MS:
                self.kept.append(f"the host was kept for {late / 1e3:.1f} s after the deadline")
            raise


class Runner:
    """Plays attacks in the sandboxes of one pool; may be used from several threads."""

    def __init__(self, pool: SandboxPool) -> None:
        self.pool = pool

    def play(self, attack: Attack) -> Played:
        """Play one attack and judge it.

        Raises:
            SandboxUnavailable: There is no sandbox to play it in.
        """
        reason = attack.wants(self.pool.isolation_level)
        if reason is not None:
            return recorded(attack, "skip", Outcome("", reason))
        for _ in range(TRIES):
            with Trap() as trap:
                played = self._once(attack, trap)
            if not _only_late(played, attack):
                break
        return played

    def _once(self, attack: Attack, trap: Trap) -> Played:
        began = time.monotonic()
        source = arm(attack, trap.bait)
        try:
            conditions = BARE if attack.wall == "container" else EVERYWHERE
            box = self.pool.fresh(self.pool.environment(source), conditions)
        except SandboxUnavailable:
            raise
        except (SandboxError, InputError) as error:
            outcome = of_fault(error)
            return self._judge(attack, outcome, trap, trap.findings(), began, None)
        box.config = box.config.model_copy(update={"deadline_seconds": attack.limit})
        watch, effects = Watch(box), list[str]()
        try:
            strike = _Strike(attack, box, watch.note)
            outcome = strike.run()
            watch.note()
            effects += [*strike.kept, *self._sandbox_after(attack, box, outcome)]
        finally:
            box.fail()
        effects += watch.left()
        effects += trap.findings()
        return self._judge(attack, outcome, trap, effects, began, strike.control_ms)

    def _sandbox_after(self, attack: Attack, box: Sandbox, outcome: Outcome) -> list[str]:
        """Look at the sandbox: only the environment's own fault leaves it alive, and then it is unharmed."""
        lives = outcome.name in ("contained", "idle", "paid", "escaped", "broken", "environment", "refused")
        if box.dead == lives:
            return [f"after '{outcome.name}' the sandbox was {'killed' if box.dead else 'used on'}"]
        if box.dead or ("module" in attack.code and outcome.name == "environment"):
            return []
        box.config = box.config.model_copy(update={"deadline_seconds": 5.0})
        try:
            with Session(box.leaf, 0) as session:
                shown = session.messages[-1]["content"]
                reward = session.verdict()["reward"]
        except SandboxError as error:
            return [f"the next episode in the same sandbox failed: {error}"]
        found = []
        if shown != CLEAN_OBSERVATION:
            found.append(f"the next episode in the same sandbox shows {shown[:200]}")
        if reward != 0.0:
            found.append(f"the next episode in the same sandbox earned {reward}")
        return found

    def _judge(
        self,
        attack: Attack,
        outcome: Outcome,
        trap: Trap,
        effects: list[str],
        began: float,
        control_ms: float | None,
    ) -> Played:
        if trap.bait.secret in outcome.detail:  # whatever it says, what it was not to read has come out
            outcome = Outcome("escaped", "the planted file was read")
        if control_ms is not None and control_ms > MAX_CONTROL_MS:
            effects = [*effects, f"control was regained {control_ms:.0f} ms after the deadline"]
        good = is_expected(attack, outcome) and not effects
        seconds = time.monotonic() - began
        return recorded(attack, "pass" if good else "fail", outcome, effects, seconds, control_ms)


def _only_late(played: Played, attack: Attack) -> bool:
    late = played.control_ms is not None and played.control_ms > MAX_CONTROL_MS
    return (
        late and len(played.effects) == 1 and any(played.outcome.startswith(one) for one in attack.expected)
    )


def catalogue() -> str:
    """Return every attack by group and by the outcomes that are good, as a table in Markdown."""
    by_outcome: dict[tuple[str, str], list[str]] = defaultdict(list)
    every: list[Attack | Scenario] = [*load_attacks(), *SCENARIOS]
    for one in every:
        by_outcome[one.group, " or ".join(one.expected)].append(one.name)
    counts = Counter[str]()
    for (group, _), names in by_outcome.items():
        counts[group] += len(names)
    lines = ["| group | good outcome | attacks |", "|---|---|---|"]
    for group in GROUPS:
        rows = sorted(
            ((outcome, names) for (of, outcome), names in by_outcome.items() if of == group),
            key=lambda row: -len(row[1]),
        )
        for number, (outcome, names) in enumerate(rows):
            title = f"{group} ({counts[group]})" if number == 0 else ""
            lines.append(f"| {title} | {outcome} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(catalogue())
