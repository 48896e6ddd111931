"""`python -m tests.bench.policies MODEL`: the same episodes with every engine, timed side by side.

Plays the embedded target's discovery tasks with the transformers engine, with vLLM in this process, with a
vLLM server that has many requests in flight, and with the same server asked one request at a time. Rewards
are compared task by task: a fast engine that plays worse is no faster. Needs an interpreter with vLLM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from trace_assets.errors import TraceError, Unavailable
from trace_assets.policies.protocol import Policy
from trace_assets.records import Task
from trace_assets.rollouts.episode import Rollout, Trial
from trace_assets.rollouts.runner import roll_out
from trace_assets.serving.server import ModelServer
from trace_assets.settings import Targets
from trace_assets.stats.paired import Comparison, compare
from trace_assets.system.machine import free_port
from trace_assets.system.vllm import Launch, find_vllm
from trace_assets.targets.embedded.target import EmbeddedTarget

WARM_UP = 8
"""Episodes played before the clock starts: kernels are chosen, caches filled."""
Played = dict[str, list[float]]
"""Task id to the rewards of its episodes."""


@dataclass(frozen=True)
class Engine:
    """What is compared.

    Attributes:
        name: In the table.
        opened: Opens the policy, and closes it with all that was started for it.
        in_flight: Episodes at once.
        tasks: How many of the tasks are played; 0 for all.
    """

    name: str
    opened: Callable[[], Any]
    in_flight: int
    tasks: int = 0


@dataclass(frozen=True)
class Round:
    """All tasks once, with one engine."""

    episodes: int
    tokens: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Figures:
    """What one engine did.

    Attributes:
        name: The engine.
        in_flight: Episodes at once.
        start_seconds: Until it could answer.
        rounds: Each round's counts.
        rewards: Of all rounds.
    """

    name: str
    in_flight: int
    start_seconds: float
    rounds: list[Round]
    rewards: Played


def measure(engine: Engine, tasks: Sequence[Task], options: argparse.Namespace) -> Figures:
    """Play the tasks with one engine, round after round.

    Raises:
        Unavailable: An episode broke: what is timed would not be what was asked for.
    """
    target, rewards, rounds = EmbeddedTarget(Targets()), dict[str, list[float]](), list[Round]()
    chosen = tasks[: engine.tasks] if engine.tasks else tasks
    began = time.perf_counter()
    with engine.opened() as policy, asyncio.Runner() as runner:
        started = time.perf_counter() - began

        def play(trials: Sequence[Trial]) -> list[Rollout]:
            played = runner.run(
                roll_out(target, trials, policy, max_turns=options.max_turns, concurrency=engine.in_flight)
            )
            broken = [one.trajectory.error for one in played if one.trajectory.reward is None]
            if broken:
                raise Unavailable(f"{len(broken)} episodes of '{engine.name}' broke: {broken[0]}")
            return played

        play([Trial(task, trial=-1, seed=-1) for task in chosen[:WARM_UP]])
        for number in range(options.rounds):
            before, cpu = time.perf_counter(), cpu_seconds()
            played = play([Trial(task, trial=number, seed=number) for task in chosen])
            rounds.append(
                Round(
                    len(played),
                    sum(sum(one.tokens.mask) for one in played if one.tokens),
                    time.perf_counter() - before,
                    cpu_seconds() - cpu,
                )
            )
            for one in played:
                rewards.setdefault(one.trajectory.task_id, []).append(one.trajectory.reward or 0.0)
        runner.run(policy.close())
    return Figures(engine.name, engine.in_flight, started, rounds, rewards)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that descend from it, so far."""
    import psutil

    own = psutil.Process()
    spent = 0.0
    for process in [own, *own.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        spent += times.user + times.system
    return spent


def against(figures: Figures, base: Figures) -> Comparison:
    """Compare rewards on the tasks that both played, with a bootstrap over tasks."""
    both = [task for task in base.rewards if task in figures.rewards]

    def sums(rewards: Played) -> tuple[Any, Any]:
        return (
            np.array([sum(rewards[task]) for task in both]),
            np.array([len(rewards[task]) for task in both]),
        )

    return compare(*sums(figures.rewards), *sums(base.rewards))


@contextmanager
def _opened(make: Callable[[], Policy]) -> Iterator[Policy]:
    yield make()  # `measure` closes it, on the loop that it was used from


def _transformers(options: argparse.Namespace) -> Policy:
    import torch

    from trace_assets.policies.transformers_engine import TransformersPolicy

    if options.threads:
        torch.set_num_threads(options.threads)
    return TransformersPolicy(options.model, max_new_tokens=options.max_new_tokens)


def _in_process(options: argparse.Namespace) -> Policy:
    from trace_assets.policies.vllm_engine import VllmPolicy

    return VllmPolicy(
        options.model,
        max_new_tokens=options.max_new_tokens,
        dtype=options.dtype,
        max_num_seqs=options.in_flight,
        extra=options.extra,
    )


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[Policy]:
    from trace_assets.policies.openai_server import OpenAIPolicy

    port = free_port()
    launch = Launch(
        str(options.model),
        "base",
        port=port,
        dtype=options.dtype,
        max_num_seqs=options.in_flight,
        extra=options.extra,
    )
    with (
        tempfile.TemporaryDirectory(prefix="trace-bench-") as folder,
        ModelServer(launch, Path(folder) / "log", command=find_vllm(options.vllm)),
    ):
        yield OpenAIPolicy(
            launch.base_url,
            "base",
            max_new_tokens=options.max_new_tokens,
            timeout_seconds=600.0,
            return_token_ids=True,
        )


def engines(options: argparse.Namespace) -> list[Engine]:
    """Return what is compared; the first is what the others are compared with."""
    many, server = options.in_flight, partial(_server, options)
    return [
        Engine("transformers", partial(_opened, partial(_transformers, options)), many),
        Engine("vLLM in this process", partial(_opened, partial(_in_process, options)), many),
        Engine("vLLM server", server, many),
        Engine("vLLM server, one request at a time", server, 1, options.single),
    ]


def rows(found: Sequence[Figures]) -> list[list[str]]:
    """Return the table's rows: medians over rounds, and the range of what is timed."""
    table = []
    for one in found:
        against_base = against(one, found[0])
        rates = [each.episodes / each.seconds for each in one.rounds]
        tokens = [each.tokens / each.seconds for each in one.rounds]
        spent = [1000 * each.cpu_seconds / each.episodes for each in one.rounds]
        table.append(
            [
                one.name,
                f"{one.rounds[0].episodes} x {len(one.rounds)}",
                f"{one.in_flight}",
                f"{one.start_seconds:.1f}",
                f"{median(rates):.1f} ({min(rates):.1f}-{max(rates):.1f})",
                f"{median(tokens):.0f} ({min(tokens):.0f}-{max(tokens):.0f})",
                f"{median(spent):.0f}",
                _estimate(against_base.arm, ".3f"),
                "" if one is found[0] else f"{_estimate(against_base.delta, '+.3f')}, {against_base.n_tasks}",
            ]
        )
    return table


HEAD = (
    *("engine", "episodes x rounds", "in flight", "start, s", "episodes/s", "generated tokens/s"),
    *("CPU ms an episode", "reward [95 %]", "difference from the first [95 %], tasks"),
)


def _estimate(value: Any, form: str) -> str:
    if value.value is None or value.low is None:
        return "-"
    return f"{value.value:{form}} [{value.low:{form}}, {value.high:{form}}]"


def _machine() -> str:
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, load average {load}"


def main() -> None:
    """Print what each engine does, and how its rewards compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.policies", description=__doc__)
    parser.add_argument("model", type=Path, help="model folder of the embedded target's agent")
    parser.add_argument("--tasks", type=int, default=256, help="discovery tasks, one episode each a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=128, help="episodes at once")
    parser.add_argument("--single", type=int, default=32, help="tasks for one request at a time")
    parser.add_argument("--max-turns", type=int, default=12)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="float32", help="of vLLM; the transformers engine has float32")
    parser.add_argument("--threads", type=int, default=0, help="of the transformers engine; 0: torch's own")
    parser.add_argument("--vllm", default="", help="vLLM's program; empty looks beside this interpreter")
    parser.add_argument("--extra", action="append", default=[], help="further argument of vLLM's; repeatable")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = _machine()
    try:
        tasks = EmbeddedTarget(Targets(discovery_tasks=options.tasks)).tasks("discovery")
        found = [measure(engine, tasks, options) for engine in engines(options)]
    except TraceError as error:
        parser.exit(error.exit_code, f"{error}\n")
    if options.json:
        print(json.dumps({"before": before, "after": _machine(), "engines": [asdict(one) for one in found]}))
        return
    print(f"{before}; after the run: {_machine()}\n")
    for cells in (HEAD, tuple("---" for _ in HEAD), *rows(found)):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
