"""Workers, owners and daemons that are killed while something runs in their sandboxes."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from trace_assets.sandbox import (
    SandboxConfig,
    SandboxError,
    SandboxPool,
    SandboxUnavailable,
    Session,
    open_pool,
)
from trace_assets.sandbox.selftest.scenarios import COUNTER, RECOVERY, say

NAMES = [one.name for one in RECOVERY]


@pytest.fixture(params=["docker", "bubblewrap"])
def pool(request: pytest.FixtureRequest) -> SandboxPool:
    found: SandboxPool = request.getfixturevalue(f"attacked_{request.param}")
    return found


@pytest.mark.docker
@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_works_and_nothing_else_is_left(pool: SandboxPool, name: str) -> None:
    scenario = next(one for one in RECOVERY if one.name == name)
    played = scenario.play(pool)
    assert played.status == "pass", f"{played.outcome}: {played.detail}"


@pytest.mark.slow
@pytest.mark.docker
def test_a_daemon_that_is_killed_takes_no_reward_with_it(
    own_daemon: str, attacked_docker: SandboxPool, project_root: Path
) -> None:
    """Episodes go on or end in a fault; a new start says what is missing; a new daemon serves again."""
    import docker

    name = attacked_docker.backend.image.reference  # type: ignore[attr-defined]
    with (
        closing(docker.from_env(timeout=900)) as shared,
        closing(docker.DockerClient(base_url=own_daemon, timeout=900)) as client,
    ):
        client.images.load(b"".join(shared.images.get(name).save(named=True)))
    folder = Path(own_daemon.removeprefix("unix://")).parent
    config = SandboxConfig(backend="docker", docker_host=own_daemon, spares=0, deadline_seconds=6.0)
    with open_pool(config) as pool:
        session = pool.environment(COUNTER).reset(1)
        hangs = pool.environment(COUNTER).reset(2)
        assert session.step(say("on"))["messages"][0]["content"] == "1"
        os.kill(int((folder / "docker.pid").read_text()), 9)
        began = time.monotonic()
        with pytest.raises(SandboxError):
            hangs.step(say("loop"))
        assert time.monotonic() - began < 60  # the client's own patience is twice as long
        with pytest.raises(SandboxUnavailable):
            Session(pool.fresh(pool.environment(COUNTER)).leaf, 3)
    with pytest.raises(SandboxUnavailable, match=r"start_docker\.sh"):
        open_pool(config)
    script = ["sh", str(project_root / "sandboxes" / "start_docker.sh"), "up", str(folder)]
    subprocess.run(script, check=True, capture_output=True, timeout=900)
    with open_pool(config) as pool, pool.environment(COUNTER).reset(1) as session:
        assert session.step(say("on"))["messages"][0]["content"] == "1"
