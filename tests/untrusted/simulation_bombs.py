"""tau2 files: large and deep simulations, countless ones, heads and tails without end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.untrusted.bombs import LITTLE, MB, bomb


def tau2_head(**changes: Any) -> bytes:
    """Return a simulation file up to its first simulation."""
    agent = {"implementation": "llm_agent", "llm": "m", "llm_args": {}}
    info = {
        "git_commit": "c",
        "agent_info": agent,
        "user_info": {"implementation": "user", "llm": "u"},
        "environment_info": {"domain_name": "shop"},
    }
    document = {"timestamp": "t", "info": {**info, **changes}, "tasks": [], "simulations": []}
    return json.dumps(document).encode()[:-2]


def simulation(number: int, **changes: Any) -> bytes:
    """Return a usable simulation."""
    row = {
        "id": f"sim-{number}",
        "task_id": str(number),
        "trial": 0,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0},
        "messages": [{"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "bye"}],
        **changes,
    }
    return json.dumps(row).encode()


def tau2(
    path: Path, *between: bytes | Iterable[bytes], head: bytes | None = None, tail: bytes = b"]}"
) -> None:
    """Write a good simulation, what is given, and another good one."""
    with path.open("wb") as file:
        file.write((head or tau2_head()) + simulation(1))
        for part in between:
            file.write(b",")
            for piece in [part] if isinstance(part, bytes) else part:
                file.write(piece)
        file.write(b"," + simulation(2) + tail)


BEGUN = b'{"id": "sim-9", "task_id": "9", "reward_info": {"reward": 1.0}, "messages": ['


@bomb("json", 2, "memory")
def a_large_simulation(path: Path) -> None:
    tau2(path, [BEGUN, b'{"role": "user", "content": "', *[b"x" * MB] * 80, b'"}]}'])


@bomb("json", 2)
def a_million_messages_in_a_simulation(path: Path) -> None:
    tau2(path, BEGUN + b", ".join([b'{"role": "user"}'] * 1_000_000) + b"]}")


@bomb("json", 3)
def many_messages_in_a_simulation(path: Path) -> None:
    tau2(path, BEGUN + b", ".join([b'{"role": "user"}'] * 60_000) + b"]}")


@bomb("json", 2, "nested")
def a_deep_simulation(path: Path) -> None:
    tau2(path, BEGUN + b'{"role": "user"}], "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@bomb("json", 2, "nested")
def deep_arguments_in_a_simulation(path: Path) -> None:
    call = b'{"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": '
    tau2(path, BEGUN + call + b'{"a":' * 600 + b"1" + b"}" * 600 + b"}]}]}")


@bomb("json", 2)
def a_long_id_in_a_simulation(path: Path) -> None:
    begun = BEGUN.replace(b"sim-9", b"i" * 2 * MB)
    tau2(path, begun + b", ".join([b'{"role": "user"}'] * 5000) + b"]}")


@bomb("json", 2, "nl_assertions")
def many_checks_in_a_simulation(path: Path) -> None:
    checks = [{"nl_assertion": "a", "met": True}] * 50_000
    tau2(path, simulation(3, reward_info={"reward": 1.0, "nl_assertions": checks}))


@bomb("json", None, "more than can be remembered", allowed=LITTLE)
def countless_simulations(path: Path) -> None:
    with path.open("wb") as file:
        file.write(tau2_head())
        file.write(b",".join(b'{"id":"%d","task_id":"1","messages":[]}' % n for n in range(400_000)))
        file.write(b"]}")


@bomb("json", 10_000, "occurs twice")
def one_simulation_again_and_again(path: Path) -> None:
    names = [*range(10_000), *range(10_000)]
    with path.open("wb") as file:
        file.write(tau2_head())
        file.write(b",".join(b'{"id":"%d","task_id":"1","messages":[]}' % n for n in names) + b"]}")


@bomb("json", 0, "memory")
def a_head_without_end(path: Path) -> None:
    head = tau2_head().replace(b'"simulations"', b'"more": ["' + b"x" * 60 * MB + b'"], "simulations"')
    tau2(path, head=head)


@bomb("json", 2)
def simulations_everywhere(path: Path) -> None:
    """The key of the array stands a hundred thousand times before it, in strings and in other objects."""
    decoys = b",".join([b'{"simulations": [{"id": "1"}]}'] * 100_000)
    head = tau2_head().replace(b'"tasks": []', b'"more": [' + decoys + b'], "tasks": []')
    tau2(path, head=head)


@bomb("json", 2)
def a_tail_without_end(path: Path) -> None:
    tau2(path, tail=b'], "more": "' + b"x" * 60 * MB + b'"}')


@bomb("json", None, "unfolds to more than")
def one_ticket_for_all(path: Path) -> None:
    """A task's text is put into each of 1,300 simulations."""
    head = tau2_head(agent_info={"implementation": "llm_agent_solo", "llm": "m"})
    task = json.dumps({"id": "1", "ticket": "t" * (MB * 3 // 10)}).encode()
    head = head.replace(b'"tasks": []', b'"tasks": [' + task + b"]")
    with path.open("wb") as file:
        row = b'{"id":"%d","task_id":"1","messages":[{"role":"user"}]}'
        file.write(head + b",".join(row % n for n in range(1300)) + b"]}")


@bomb("json", 2)
def a_byte_order_mark_before_simulations(path: Path) -> None:
    tau2(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
