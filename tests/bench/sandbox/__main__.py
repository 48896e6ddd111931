"""`python -m tests.bench.sandbox`: every target of the sandbox, measured here."""

from __future__ import annotations

import argparse
import json
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from tests.bench.sandbox import baselines, damage
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.docker import DockerBackend
from trace_assets.sandbox.pool import SandboxPool, open_pool
from trace_assets.sandbox.timing import EXAMPLE, Figure, figure, seconds, speed

_HEAD = ["", "unit", "n", "p50", "p95", "target", ""]


def measure(pool: SandboxPool, arguments: argparse.Namespace) -> list[Figure]:
    """All figures, in the order of the table."""
    found = speed(pool, arguments.starts, arguments.repeat)
    found.append(resets_in_all(pool, repeat=arguments.repeat // 20))
    found += [damage.kills(pool, arguments.starts), damage.memory(pool)]
    found += damage.leftovers(pool, arguments.episodes)
    hasty = pool.config.model_copy(update={"deadline_seconds": 0.3})
    with open_pool(hasty) as second:
        found.append(damage.control(second, arguments.starts))
    found += baselines.plain_process(arguments.starts, arguments.repeat)
    if isinstance(pool.backend, DockerBackend):
        found.append(baselines.docker_exec(pool, arguments.starts))
        if arguments.image:
            found += baselines.offline_image(pool.backend.client())
    return found


def resets_in_all(pool: SandboxPool, sandboxes: int = 4, repeat: int = 100) -> Figure:
    """Resets a second over several sandboxes, each asked by a thread of its own."""
    environments = [pool.environment(f"{EXAMPLE}# {number}\n") for number in range(sandboxes)]
    for one in environments:
        one.tools()
    with ThreadPoolExecutor(sandboxes) as threads:

        def all_at_once() -> None:
            list(threads.map(lambda one: [one.reset(1).close() for _ in range(repeat)], environments))

        taken = seconds(5, all_at_once)
    rates = [sandboxes * repeat / one for one in taken]
    return figure(f"resets in {sandboxes} sandboxes", "1/s", rates, 500, at_most=False)


def _machine() -> str:
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{os.cpu_count()} cores, Linux {platform.release()}, load average {load}"


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 1, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|---|--:|--:|--:|--:|---|", *lines[1:]])


def main() -> None:
    """Print the figures beside their targets."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sandbox", description=__doc__)
    parser.add_argument("--backend", default="docker", choices=["docker", "bubblewrap", "auto"])
    parser.add_argument("--transport", default="auto", choices=["auto", "socket", "attach"])
    parser.add_argument("--starts", type=int, default=10, help="sandboxes started anew, and killed")
    parser.add_argument("--repeat", type=int, default=2000, help="requests timed")
    parser.add_argument("--episodes", type=int, default=500, help="episodes of the search for leftovers")
    parser.add_argument("--image", action="store_true", help="also make the offline image anew")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    config = SandboxConfig(backend=arguments.backend, transport=arguments.transport, spares=0)
    with open_pool(config) as pool:
        began = _machine()
        transport = getattr(pool.backend, "transport", "socket")
        head = f"{pool.isolation_level} ({transport}), sandbox version {pool.version}"
        figures = measure(pool, arguments)
    if arguments.json:
        document = {"sandbox": head, "before": began, "after": _machine()}
        rows = [asdict(one) | {"hit": one.hit} for one in figures]
        print(json.dumps(document | {"figures": rows}, indent=2))
        return
    rows_of_text = [_HEAD, *(one.cells() for one in figures)]
    print(f"{head}\n{began}; after the run: {_machine()}\n")
    print(_markdown(rows_of_text) if arguments.markdown else _table(rows_of_text))
    missed = sum(one.hit is False for one in figures)
    print(f"\n{missed} of {sum(one.hit is not None for one in figures)} targets missed")


if __name__ == "__main__":
    main()
