from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.environments.exports import runtime
from trace_assets.environments.exports.package import Subject, export_environment
from trace_assets.environments.exports.runtime import call_action, say_action
from trace_assets.sandbox import SandboxPool

collect_ignore = ["play_openenv.py", "serve_calls.py", "play_verifiers.py", "scripted_harness.py"]
"""Run by other interpreters."""
BACKEND = "unsafe-subprocess"
SEEDS = (0, 1, 5)
OTHER_PYTHON = "TRACE_EXPORTS_PYTHON"

Action = dict[str, Any]
Export = Callable[[str, str], Path]


@pytest.fixture
def export(pool: SandboxPool, sources: dict[str, str], tmp_path: Path) -> Export:
    """Export a recipe's environment to a form; return the folder."""

    def exported(recipe: str, form: str) -> Path:
        subject = Subject(
            f"g-{recipe}",
            f'Capability "{recipe}"',
            sources[recipe],
            pool.environment(sources[recipe]),
            BACKEND,
        )
        folder = tmp_path / f"{form}_{recipe}"
        export_environment(subject, form, folder)
        return folder

    return exported


@pytest.fixture(autouse=True)
def _same_pool(pool: SandboxPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exported packages of this process share the tests' sandboxes."""
    monkeypatch.setattr(runtime, "shared_pool", lambda backend: pool)


@pytest.fixture
def import_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, str], ModuleType]]:
    names: list[str] = []

    def imported(folder: Path, name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(folder))
        names.append(name)
        return importlib.import_module(name)

    yield imported
    for name in names:
        for loaded in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            del sys.modules[loaded]


def one_call_each(script: list[Action]) -> list[Action]:
    """Return a script with one call or one text a message."""
    actions: list[Action] = []
    for message in script:
        for call in message.get("tool_calls") or ():
            actions.append(call_action(len(actions) + 1, call["name"], call["arguments"]))
        if not message.get("tool_calls"):
            actions.append(say_action(message.get("content") or ""))
    return actions


def scripts(pool: SandboxPool, source: str, seed: int) -> list[list[Action]]:
    """Return what is played: the solution, a clumsy agent, a silent one, one that stops half-way."""
    environment = pool.environment(source)
    best = one_call_each(environment.oracle(seed))
    first = environment.tools()[0]["function"]["name"]
    clumsy = [call_action(1, first, {}), call_action(2, first, {"order": 7, "odd": [1, {"a": None}]})]
    return [best, [*clumsy, *best[:1], say_action("Bye – ünïcode.")], [], best[:-1]]


def native(pool: SandboxPool, source: str, seed: int, actions: list[Action]) -> dict[str, Any]:
    """Play in the sandbox as the project itself does."""
    with pool.environment(source).reset(seed) as session:
        answers = []
        for action in actions:
            answers.append(session.step(action))
            if session.done or session.truncated:
                break
        return {"first": session.messages, "answers": answers, "verdict": session.verdict()}


def interpreter_with(module: str) -> str:
    """Return a Python that can import a package, or skip."""
    python = os.environ.get(OTHER_PYTHON) or sys.executable
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(
            f"{python} has no usable {module}: pip install it there, or name another in {OTHER_PYTHON}"
        )
    return python
