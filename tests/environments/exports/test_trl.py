"""The class for TRL's environment_factory: used as TRL uses it, and equal to the sandbox bit for bit."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.environments.exports.conftest import SEEDS, Action, Export, native, scripts
from trace_assets.environments.exports.package import Subject, export_environment
from trace_assets.errors import InputError
from trace_assets.sandbox import SandboxPool

RECIPES = ("object_untouched", "write_against_state", "write_without_read")
Import = Callable[[Path, str], ModuleType]


def opened(export: Export, import_package: Import, recipe: str) -> tuple[ModuleType, type]:
    name = f"g_{recipe}"
    module = import_package(export(recipe, "trl"), name)
    return module, getattr(module, "".join(part.capitalize() for part in name.split("_")))


def tools_of(environment: Any) -> dict[str, Callable[..., str]]:
    """The public methods, found as TRL 1.16 finds them."""
    return {
        name: getattr(environment, name)
        for name, _ in inspect.getmembers(type(environment), predicate=inspect.isfunction)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    }


def played(
    module: ModuleType, environment: Any, row: dict[str, Any], actions: list[Action]
) -> dict[str, Any]:
    """Play as TRL's trainer does: reset by the row's columns, tools by keyword, the reward at the end."""
    prompt = row["prompt"]
    prompt = [*prompt[:-1], {**prompt[-1], "content": prompt[-1]["content"] + environment.reset(**row)}]
    told, completion = [], []
    for action in actions:
        for call in action["tool_calls"]:
            told.append(tools_of(environment)[call["name"]](**call["arguments"]))
        completion.append({"role": "assistant", "content": action["content"] or ""})
        if action["tool_calls"]:
            completion[-1]["tool_calls"] = action["tool_calls"]
    reward = module.closing_reward(prompts=[prompt], completions=[completion], environments=[environment])
    return {"prompt": prompt, "told": told, "reward": reward[0]}


@pytest.mark.parametrize("recipe", RECIPES)
def test_same_seed_and_actions_give_the_same_observations_and_rewards(
    recipe: str, export: Export, import_package: Import, pool: SandboxPool, sources: dict[str, str]
) -> None:
    module, made = opened(export, import_package, recipe)
    environment, rewards = made(), set()
    for row in module.rows(SEEDS):
        for actions in scripts(pool, sources[recipe], row["seed"]):
            here = native(pool, sources[recipe], row["seed"], actions)
            there = played(module, environment, row, actions)
            assert there["prompt"] == [{"role": m["role"], "content": m["content"]} for m in here["first"]]
            told = [
                m["content"] for answer in here["answers"] for m in answer["messages"] if m["role"] == "tool"
            ]
            assert there["told"] == told
            assert there["reward"].hex() == here["verdict"]["reward"].hex()
            rewards.add(there["reward"])
    assert 1.0 in rewards and len(rewards) > 1


@pytest.mark.train
def test_tool_schemas_as_transformers_reads_them_are_the_targets(
    export: Export, import_package: Import, pool: SandboxPool, sources: dict[str, str]
) -> None:
    utils = pytest.importorskip("transformers.utils")
    _, made = opened(export, import_package, "write_against_state")
    wanted = {
        one["function"]["name"]: one for one in pool.environment(sources["write_against_state"]).tools()
    }
    found = {name: utils.get_json_schema(method) for name, method in tools_of(made()).items()}
    assert found.keys() == wanted.keys()
    for name, schema in found.items():
        schema["function"].pop("return", None)
        closed = schema["function"]["parameters"] | {"additionalProperties": False}  # no hint can say this
        assert schema["function"] | {"parameters": closed} == wanted[name]["function"]


def test_a_self_scored_class_has_get_reward_and_only_that_one(
    export: Export, import_package: Import, pool: SandboxPool, sources: dict[str, str]
) -> None:
    module, made = opened(export, import_package, "object_untouched")
    environment = module.GObjectUntouchedSelfScored()
    assert not hasattr(made(), "get_reward")
    environment.reset(seed=1)
    assert environment.get_reward() == native(pool, sources["object_untouched"], 1, [])["verdict"]["reward"]
    assert environment.get_reward() == environment.get_reward()


def test_a_fault_has_no_reward(
    import_package: Import, pool: SandboxPool, tmp_path: Path, sources: dict[str, str]
) -> None:
    broken = sources["write_without_read"] + "\n\ndef verdict():\n    raise RuntimeError('x')\n"
    export_environment(Subject("b", "b", broken, pool.environment(broken), "docker"), "trl", tmp_path / "b")
    module = import_package(tmp_path / "b", "b")
    environment = module.B()
    environment.reset(seed=0)
    assert module.closing_reward(completions=["Bye."], environments=[environment]) == [None]


def test_what_cannot_be_carried_is_refused_with_a_reason(
    pool: SandboxPool, tmp_path: Path, sources: dict[str, str]
) -> None:
    talking = sources["write_without_read"] + (
        "\n\n_first = oracle\n\n\ndef oracle(seed):\n"
        "    return [{'role': 'assistant', 'content': 'Which one?'}, *_first(seed)]\n"
    )
    named = sources["write_without_read"].replace("'get_order'", "'get-order'")
    for source, words in (
        (talking, "export it to openenv"),
        (named, "cannot be the name of a Python method"),
    ):
        with pytest.raises(InputError, match=words):
            export_environment(
                Subject("x", "x", source, pool.environment(source), "docker"), "trl", tmp_path / "x"
            )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("important")
    good = sources["write_without_read"]
    subject = Subject("x", "x", good, pool.environment(good), "docker")
    with pytest.raises(InputError, match="something else"):
        export_environment(subject, "trl", tmp_path / "full")
    with pytest.raises(InputError, match="there is no export to 'gym'"):
        export_environment(subject, "gym", tmp_path / "new")
    first = export_environment(subject, "trl", tmp_path / "new")
    assert export_environment(subject, "trl", tmp_path / "new") == first


def test_a_process_that_played_ends_quietly_and_leaves_no_sandbox(export: Export) -> None:
    folder = export("object_untouched", "trl")
    play = "import g_object_untouched as p; e = p.GObjectUntouched(); print(e.reset(seed=3)); e.get_order()"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", play],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[3])])},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip()
