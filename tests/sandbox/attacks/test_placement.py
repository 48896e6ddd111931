"""Where the agent's code and the verdict run: three cheats against four placements, of which one holds."""

from __future__ import annotations

from typing import Any

import pytest

from trace_assets.sandbox import SandboxPool, replay
from trace_assets.sandbox.selftest.placement import APART, CHEATS, HONEST, PLACEMENTS, SEED

BROKEN = {"together": 1.0, "replayed": 1.0, "apart": 0.0}


@pytest.fixture(params=["docker", "bubblewrap"])
def pool(request: pytest.FixtureRequest) -> SandboxPool:
    found: SandboxPool = request.getfixturevalue(f"attacked_{request.param}")
    return found


@pytest.mark.docker
@pytest.mark.parametrize("cheat", list(CHEATS))
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_a_cheat_earns_nothing_only_where_its_code_runs_apart(
    pool: SandboxPool, placement: str, cheat: str
) -> None:
    """Evaluated in the agent's process, or with its code played again in a fresh container, it earns all."""
    assert PLACEMENTS[placement](pool, CHEATS[cheat]) == BROKEN[placement]


@pytest.mark.parametrize("cheat", list(CHEATS))
def test_a_plain_import_is_the_fourth_placement_and_holds_nothing(
    no_isolation: SandboxPool, cheat: str
) -> None:
    """No sandbox at all: the environment and the agent's code are imported into one process of the host."""
    assert PLACEMENTS["together"](no_isolation, CHEATS[cheat]) == 1.0


@pytest.mark.docker
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_an_honest_agent_earns_its_reward_everywhere(pool: SandboxPool, placement: str) -> None:
    assert PLACEMENTS[placement](pool, HONEST) == 1.0


@pytest.mark.docker
def test_the_reward_apart_is_one_that_a_second_container_confirms(pool: SandboxPool) -> None:
    answer: dict[str, Any] = {"role": "assistant", "content": str(SEED * 7919 % 100003), "tool_calls": []}
    with pool.environment(APART).reset(SEED) as session:
        session.step(answer)
        earned = session.verdict()
    assert earned["reward"] == 1.0 and replay(pool, APART, SEED, session.actions) == earned
