"""The verifiers v1 taskset, played by the real engine behind a scripted model server."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.environments.exports.conftest import Action, Export, interpreter_with, native, scripts
from trace_assets.environments.exports.runtime import say_action
from trace_assets.sandbox import SandboxPool

ROOT = Path(__file__).resolve().parents[3]


def ending_in_words(actions: list[Action]) -> list[Action]:
    """A chat loop ends with words: a script that does not gets some."""
    return actions if actions and not actions[-1]["tool_calls"] else [*actions, say_action("Hm.")]


@pytest.mark.slow
def test_same_seed_and_actions_give_the_same_observations_and_rewards(
    export: Export, pool: SandboxPool, sources: dict[str, str]
) -> None:
    python = interpreter_with("verifiers.v1, msgspec, jsonschema, docker, jinja2, polars")
    recipe = "write_without_read"
    folder = export(recipe, "verifiers")
    episodes = [
        {"seed": seed, "actions": ending_in_words(actions)}
        for seed in (0, 5)
        for actions in scripts(pool, sources[recipe], seed)[:3]
    ]
    run = subprocess.run(
        [python, str(Path(__file__).with_name("play_verifiers.py")), str(folder), f"g_{recipe}"],
        input=json.dumps(episodes),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    there = json.loads(run.stdout.splitlines()[-1])
    rewards = set()
    wanted = {one["function"]["name"]: one["function"] for one in pool.environment(sources[recipe]).tools()}
    for episode, told in zip(episodes, there, strict=True):
        here = native(pool, sources[recipe], episode["seed"], episode["actions"])
        assert told["errors"] == [], run.stderr[-3000:]
        assert {one["function"]["name"]: one["function"] for one in told["tools"]} == wanted
        first = [(m["role"], m["content"]) for m in told["messages"][: len(here["first"])]]
        assert first == [(m["role"], m["content"]) for m in here["first"]]
        seen = [m["content"] for m in told["messages"] if m["role"] == "tool"]
        assert seen == [
            m["content"] for answer in here["answers"] for m in answer["messages"] if m["role"] == "tool"
        ]
        assert told["rewards"]["environment_reward"] == pytest.approx(here["verdict"]["reward"], abs=0)
        rewards.add(told["rewards"]["environment_reward"])
    assert 1.0 in rewards and len(rewards) > 1


def test_the_package_holds_the_environment_and_names_what_it_defines(
    export: Export, pool: SandboxPool, sources: dict[str, str]
) -> None:
    folder, package = export("object_untouched", "verifiers"), "g_object_untouched"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    modules = {f"{package}/{name}.py" for name in ("__init__", "taskset", "tool_server")}
    data = {f"{package}/environment.txt", f"{package}/tools.json"}
    assert names == modules | data | {"pyproject.toml", "README.md", ".trace-export.json"}
    source = sources["object_untouched"]
    assert (folder / package / "environment.txt").read_text(encoding="utf-8") == source
    tools = json.loads((folder / package / "tools.json").read_text(encoding="utf-8"))
    assert [one.get("function", one)["name"] for one in tools] == [
        one["function"]["name"] for one in pool.environment(source).tools()
    ]
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == package.replace("_", "-")
    assert project["tool"]["setuptools"] == {
        "packages": [package],
        "package-data": {package: ["environment.txt", "tools.json"]},
    }
    trees = {name: ast.parse((folder / name).read_text(encoding="utf-8")) for name in modules}
    for tree in trees.values():  # what one module takes from another is defined there
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
                other = trees[f"{(node.module or '').replace('.', '/')}.py"]
                assert {alias.name for alias in node.names} <= _defined(other)


def _defined(tree: ast.Module) -> set[str]:
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {
                one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)
            }
    return names
