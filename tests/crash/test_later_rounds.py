"""Killed at checkpoints and in its second round, the loop makes what an undisturbed one makes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from loop_process import Loop, Moment

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.docker]

ROUNDS = {
    "rounds.most": "2",
    "rounds.min_gain": "0.0",
    "selection.max_capabilities": "1",  # what is left is for the second round
    "targets.discovery_tasks": "240",
    "targets.validation_tasks": "100",
    "targets.test_tasks": "60",
    "synthesis.audit_seeds": "16",
    "synthesis.audit_rollouts": "4",
    "synthesis.pass_low": "0.0",  # of so few episodes a band of the pass rate says nothing
    "synthesis.pass_high": "1.0",
    "synthesis.max_dead_groups": "1.0",
    "training.iterations": "8",
    "training.validate_every": "4",
    "training.save_every": "2",
    "training.validation_seeds": "32",
    "training.validation_episodes": "64",
    "evaluation.trials": "1",
    "evaluation.resamples": "200",
}
"""As small as two rounds can be that both teach something."""
HIT = (
    "trajectories",
    "labels",
    "contrast",
    "environment_audit",
    "pilot",
    "adapter_validation",
    "round_agent",
)
"""Assets of the second round in which a kill hits, half way."""
PAST_A_CHECKPOINT = (0.55, 0.8)
"""Parts of a training after which it is hit; the last two of its checkpoints are kept."""


def moments(round_: Loop, hit: tuple[str, ...]) -> list[Moment]:
    """Choose moments of a round as it went undisturbed, in order."""
    found: list[tuple[str, str, float]] = []
    for begin, end, asset, partition in round_.timeline():
        if asset in ("adapter", "mixed_adapter") and end - begin > 2:
            found += [(asset, partition, part * (end - begin)) for part in PAST_A_CHECKPOINT]
        elif asset in hit:
            found.append((asset, partition, 0.5 * (end - begin)))
    # The rival of all rounds is trained when they are over.
    found.sort(key=lambda one: one[0] == "mixed_adapter")
    return [Moment(*one, "group" if number % 2 else "process") for number, one in enumerate(found)]


@pytest.mark.timeout(7200)
def test_kills_at_checkpoints_and_in_a_second_round_change_nothing(
    tmp_path: Path, docker_daemon: None
) -> None:
    calm, hit = Loop(tmp_path / "calm", ROUNDS), Loop(tmp_path / "hit", ROUNDS)
    calm.finish()
    for number in (1, 2):
        assert calm.of_round(number).weights(), f"round {number} teaches nothing"
        hit.of_round(number).know_the_seeds_of(calm.of_round(number))
    first = moments(calm, ("round_agent",))
    rival = [one for one in first if one.asset == "mixed_adapter"]
    plan = [(1, one) for one in first if one not in rival]
    plan += [(2, one) for one in moments(calm.of_round(2), HIT)] + [(1, one) for one in rival]
    assert len(plan) >= 10
    for number, moment in plan:
        began = time.monotonic()
        kill = hit.run_until(moment, hit.of_round(number))
        print(number, kill.told(), round(time.monotonic() - began), flush=True)
    hit.finish()
    for number in (1, 2):
        before, after = calm.of_round(number), hit.of_round(number)
        wanted, found = before.tables(), after.tables()
        # What a round took is in its row, and that is never the same.
        differing = {name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)}
        assert differing <= {"rounds/all"}, (number, differing)
        assert after.weights() == before.weights()
        assert set(after.ledger().values()) == {1}, "booked twice or not at all"
        assert after.claims() == [] and after.half_made() == []
    assert hit.due() == []
