"""The OpenEnv package, served by the real openenv and played through its own client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.environments.exports.conftest import SEEDS, Action, Export, interpreter_with, native, scripts
from trace_assets.sandbox import SandboxPool


def whole_scripts(pool: SandboxPool, source: str, seed: int) -> list[list[Action]]:
    """Scripts as here, and the solution with several calls a message."""
    best = pool.environment(source).oracle(seed)
    calls = [call for message in best for call in message.get("tool_calls") or ()]
    together = [{"role": "assistant", "content": "Looking.", "tool_calls": calls}, best[-1]]
    return [*scripts(pool, source, seed), together]


def test_same_seed_and_actions_give_the_same_observations_and_rewards(
    export: Export, pool: SandboxPool, sources: dict[str, str]
) -> None:
    python = interpreter_with("openenv.core")
    recipe = "write_against_state"
    folder = export(recipe, "openenv")
    episodes = [
        {"seed": seed, "actions": actions}
        for seed in SEEDS
        for actions in whole_scripts(pool, sources[recipe], seed)
    ]
    script = Path(__file__).with_name("play_openenv.py")
    run = subprocess.run(
        [python, str(script), str(folder), "GWriteAgainstState"],
        input=json.dumps(episodes),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    there = json.loads(run.stdout.splitlines()[-1])
    tools = pool.environment(sources[recipe]).tools()
    rewards = set()
    for episode, told in zip(episodes, there, strict=True):
        here = native(pool, sources[recipe], episode["seed"], episode["actions"])
        assert told["tools"] == tools
        assert (told["first"], told["verdict"]) == (here["first"], here["verdict"])
        assert [one["messages"] for one in told["answers"]] == [one["messages"] for one in here["answers"]]
        assert float(told["reward"]).hex() == here["verdict"]["reward"].hex()
        rewards.add(told["reward"])
    assert 1.0 in rewards and len(rewards) > 1


def test_every_file_is_there_and_is_python_or_says_what_it_is(export: Export) -> None:
    folder = export("object_untouched", "openenv")
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"openenv.yaml", "client.py", "models.py", "server/app.py", "server/Dockerfile"} <= names
    for path in folder.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert "nobody has reviewed" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def episode(tmp_path: Path, export: Export, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = export("object_untouched", "openenv")

    def made(source: str) -> Any:
        (folder / "server" / "environment.txt").write_text(source, encoding="utf-8")
        space: dict[str, Any] = {"__name__": "episode", "__file__": str(folder / "server" / "episode.py")}
        exec((folder / "server" / "episode.py").read_text(encoding="utf-8"), space)
        space["DEADLINE_SECONDS"] = 0.5
        return space["Episode"]()

    return made


def test_a_child_that_hangs_dies_or_chatters_is_an_error_of_the_server(
    episode: Any, sources: dict[str, str]
) -> None:
    bad = {
        "no answer": "def tools():\n    while True: pass\n",
        "it died": "import os\ndef tools():\n    os._exit(3)\n",
        "KeyError": "def tools():\n    raise KeyError('x')\n",
        "failed": "x = [0] * 10**10\n",
    }
    for words, source in bad.items():
        child = episode(source)
        with pytest.raises(RuntimeError, match=words):
            child.ask("tools")
    noisy = episode(
        "import sys\nprint('{\"ok\": 1}')\nsys.stdout.flush()\ndef tools():\n    print('x')\n    return [2]\n"
    )
    assert noisy.ask("tools") == [2]
    noisy.close()
    noisy.close()
