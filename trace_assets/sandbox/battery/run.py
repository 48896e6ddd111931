"""The whole battery: attacks by group, each in a sandbox of its own, a few at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from trace_assets.sandbox.battery.attack import GROUPS, Attack, load_attacks
from trace_assets.sandbox.battery.between import BETWEEN
from trace_assets.sandbox.battery.leftovers import Inventory
from trace_assets.sandbox.battery.outcome import Played
from trace_assets.sandbox.battery.placement import PLACEMENT
from trace_assets.sandbox.battery.recovery import RECOVERY
from trace_assets.sandbox.battery.runner import Runner
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.pool import SandboxPool, open_pool

Listen = Callable[[Played], None]
SCENARIOS = (*BETWEEN, *PLACEMENT, *RECOVERY)
"""What is more than a module; done one after the other, when the attacks are over."""
AT_ONCE = 2
"""Attacks played at the same time: each burns a processor of its own."""


def battery_config(config: SandboxConfig) -> SandboxConfig:
    """Return the settings of the sandboxes that are attacked: those in use, with spares started ahead."""
    return config.model_copy(update={"spares": AT_ONCE})


def run_attacks(
    pool: SandboxPool, attacks: Iterable[Attack], *, at_once: int = AT_ONCE, listen: Listen = lambda _: None
) -> list[Played]:
    """Play attacks in the sandboxes of a pool.

    Args:
        pool: Where.
        attacks: Which.
        at_once: How many at the same time.
        listen: Told of each as it ends, in this thread.

    Returns:
        One record an attack, in their order.

    Raises:
        SandboxUnavailable: There is no sandbox.
    """
    wanted = list(attacks)
    with ThreadPoolExecutor(at_once, "attack") as threads:
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


def battery_size(slow: bool = True) -> int:
    """Return how many records a run makes."""
    return len(battery(slow)) + len(SCENARIOS) + 1
