"""What else could be done, timed in the same run: a plain child process, `docker exec`, a new image."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import uuid
import warnings
from typing import Any

from trace_assets.sandbox import image as images
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.docker import DockerBackend, DockerContainer
from trace_assets.sandbox.pool import SandboxPool, open_pool
from trace_assets.sandbox.timing import ACTION, EXAMPLE, Figure, figure, scaled, seconds


def plain_process(starts: int = 10, repeat: int = 2000) -> list[Figure]:
    """A child process without isolation: started anew, and spoken to in the same protocol."""
    fresh = seconds(starts, lambda: subprocess.run([sys.executable, "-S", "-c", "pass"], check=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0))
    with pool, pool.environment(EXAMPLE).reset(1) as session:
        step = seconds(repeat, lambda: session.step(ACTION))
    return [
        figure("plain process: start and end", "ms", scaled(fresh, 1e3)),
        figure("plain process: step", "us", scaled(step, 1e6)),
    ]


def docker_exec(pool: SandboxPool, repeat: int = 10) -> Figure:
    """`docker exec` of an interpreter that does nothing, in a container that runs already."""
    assert isinstance(pool.backend, DockerBackend)
    api = pool.backend.client().api
    with pool.environment(EXAMPLE).reset(1) as session:
        container = session._leaf.sandbox.container
        assert isinstance(container, DockerContainer)

        def run() -> None:
            api.exec_start(api.exec_create(container.id, ["python3", "-S", "-c", "pass"])["Id"])

        return figure("docker exec of one command", "ms", scaled(seconds(repeat, run), 1e3))


def offline_image(client: Any) -> list[Figure]:
    """Make the image from Debian packages, as where no registry is reached, and take it away again."""
    base, tag = f"trace-bench-base:{uuid.uuid4().hex[:8]}", f"trace-bench:{uuid.uuid4().hex[:8]}"
    try:
        began = time.perf_counter()
        images.make_offline_base(client, base)
        images.build(client, tag, base)
        taken = time.perf_counter() - began
        size = client.images.get(tag).attrs["Size"] / 1e6
    finally:
        for name in (tag, base):
            with contextlib.suppress(Exception):
                client.images.remove(name)
    return [figure("offline image: time", "s", [taken], 15), figure("offline image: size", "MB", [size], 60)]
