import json
import re
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.writer import (
    RecipeWriter,
    Writer,
    environment_id,
    write_environment,
    write_together,
)
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec
from trace_assets.targets.embedded.target import EmbeddedTarget

SEEDS = range(200)


def spec(detector: str | None, **arguments: str) -> CapabilitySpec:
    return CapabilitySpec(
        capability_id="c",
        target="embedded",
        name="n",
        description="d",
        detector=detector,
        detector_args=arguments,
    )


def load(source: str) -> Any:
    """Execute a module of this project's own recipes here, to look at it closely."""
    module = types.ModuleType("environment")
    exec(source, module.__dict__)
    return module


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "c1", "name": name, "arguments": arguments}]}


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def earned(module: Any, seed: int, agent: Callable[[str], list[dict[str, Any]]]) -> dict[str, Any]:
    """The verdict on an agent that maps the request to its messages."""
    messages = module.reset(seed)
    for message in agent(messages[-1]["content"]):
        step = module.step(message)
        if step["truncated"] or step["done"]:
            break
    verdict: dict[str, Any] = module.verdict()
    return verdict


@pytest.fixture()
def module(capability: CapabilitySpec, sources: dict[str, str]) -> object:
    return load(sources[str(capability.detector)])


def orders(text: str) -> list[str]:
    return re.findall(r"[A-Z]\d+", text)


def test_a_recipe_is_a_writer() -> None:
    assert isinstance(RecipeWriter("object_untouched"), Writer)


def test_oracle_earns_everything_and_silence_nothing(module) -> None:
    for seed in SEEDS:
        plan = module.oracle(seed)
        assert earned(module, seed, lambda _, plan=plan: plan)["reward"] == 1.0
        assert earned(module, seed, lambda _: [say("Goodbye.")])["reward"] == 0.0
        assert earned(module, seed, lambda _: [])["reward"] == 0.0


def test_always_handing_over_does_not_pay(module) -> None:
    def hand_over(text: str) -> list[dict]:
        looked = [call("get_order", order=order) for order in orders(text)]
        moved = [call("transfer", order=order, reason="other") for order in orders(text)]
        return [*looked, *moved, say("The case is transferred.")]

    assert fmean(earned(module, seed, hand_over)["success"] for seed in SEEDS) <= 0.5
    assert fmean(earned(module, seed, hand_over)["reward"] for seed in SEEDS) < 0.6


def test_the_planted_deficits_cost(sources) -> None:
    cancel = load(sources["write_without_read"])
    blind = [
        earned(
            cancel, s, lambda t: [call("cancel_order", order=orders(t)[0]), say("The order is cancelled.")]
        )
        for s in SEEDS
    ]
    assert not any(verdict["success"] for verdict in blind)
    several = load(sources["object_untouched"])
    for seed in SEEDS:
        if len(several.reset(seed)) and len(orders(several.reset(seed)[-1]["content"])) == 2:
            first = orders(several.reset(seed)[-1]["content"])[0]
            half = [m for m in several.oracle(seed) if first in json.dumps(m)] + several.oracle(seed)[-1:]
            assert 0 < earned(several, seed, lambda _, half=half: half)["reward"] < 0.5


@pytest.mark.parametrize("name", ["write_without_read", "write_against_state"])
def test_conditions_are_half_and_half(sources, name: str) -> None:
    module = load(sources[name])
    acts = [[c["name"] for m in module.oracle(s) for c in m.get("tool_calls", ())][-1] for s in SEEDS]
    assert acts.count("transfer") == len(SEEDS) / 2


def test_collateral_writes_cost(module) -> None:
    for seed in range(20):
        plan = module.oracle(seed)

        def meddle(text: str, plan=plan) -> list[dict]:
            return [*plan[:-1], call("update_address", order=orders(text)[0], city="Nowhere"), plan[-1]]

        verdict = earned(module, seed, meddle)
        assert not verdict["success"]
        assert verdict["reward"] < 0.5


def test_bad_calls_cost_and_are_answered_in_the_targets_shape(module) -> None:
    plan = module.oracle(3)
    module.reset(3)
    answers = [
        module.step(call("no_such_tool"))["messages"][0],
        module.step(call("get_order", order="Z0"))["messages"][0],
        module.step(call("get_order"))["messages"][0],
    ]
    assert all(answer["is_error"] and "error" in json.loads(answer["content"]) for answer in answers)
    for message in plan:
        module.step(message)
    assert module.verdict()["reward"] == pytest.approx(1 - 3 * 0.05)


def test_tools_and_first_messages_are_the_targets(module, target: EmbeddedTarget) -> None:
    assert module.tools() == [tool.openai() for tool in target.tools]
    messages = module.reset(0)
    assert [m["role"] for m in messages] == ["system", "user"]
    assert messages[0]["content"] == target.policy


def test_results_look_like_the_targets(module, target: EmbeddedTarget, trajectories) -> None:
    real = next(m.content for t in trajectories for m in t.messages if m.tool_name == "get_order")
    order = orders(module.reset(8)[-1]["content"])[0]
    shown = module.step(call("get_order", order=order))["messages"][0]["content"]
    assert list(json.loads(shown)) == list(json.loads(real))
    assert json.dumps(json.loads(shown)) == shown
    assert json.loads(shown)["order"] == order


def test_writes_show_in_the_record(sources) -> None:
    module = load(sources["object_untouched"])
    order = orders(module.reset(0)[-1]["content"])[0]
    before = json.loads(module.step(call("get_order", order=order))["messages"][0]["content"])
    module.step(call("update_address", order=order, city="Elsewhere"))
    item = before["items"][0]["name"]
    module.step(call("exchange_item", order=order, item=item, colour="mauve"))
    after = json.loads(module.step(call("get_order", order=order))["messages"][0]["content"])
    assert (after["city"], after["items"][0]["colour"]) == ("Elsewhere", "mauve")


def test_seeds_differ_and_repeat(module) -> None:
    texts = [json.dumps(module.reset(seed)) for seed in range(1000)]
    assert len(set(texts)) > 990
    assert [json.dumps(module.reset(seed)) for seed in range(50)] == texts[:50]


def test_no_wording_comes_from_elsewhere_than_discovery(module, contract: TargetContract) -> None:
    known = {pattern.text for pattern in contract.phrasing.patterns}
    assert {wording["text"] for wish in module.PLAN["wishes"] for wording in wish["wordings"]} <= known


def test_module_runs_alone_with_the_standard_library(sources, tmp_path: Path) -> None:
    for name, source in sources.items():
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        code = (
            f"import {name} as e; e.reset(1); [e.step(m) for m in e.oracle(1)]; print(e.verdict()['reward'])"
        )
        done = subprocess.run(
            [sys.executable, "-S", "-s", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "1.0"
        assert "trace_assets" not in source


def test_same_contract_same_module(contract: TargetContract, sources, specs) -> None:
    for name, each in specs.items():
        again = write_environment(each, contract)
        assert again.source == sources[name]
        assert again.environment_id == environment_id(sources[name])
        assert again.writer == f"recipe:{name}"


@settings(max_examples=examples(40), deadline=None)
@given(
    actions=st.lists(
        st.one_of(
            st.builds(say, st.text(max_size=20)),
            st.builds(
                lambda n, a: call(n, **a),
                st.sampled_from(["get_order", "cancel_order", "refund_item", "transfer", "x"]),
                st.dictionaries(
                    st.sampled_from(["order", "item", "reason", "odd"]),
                    st.one_of(
                        st.none(), st.integers(), st.text(max_size=5), st.just("K1234"), st.lists(st.none())
                    ),
                ),
            ),
        ),
        max_size=6,
    ),
    seed=st.integers(0, 10**9),
)
def test_nothing_an_agent_says_breaks_it(sources, actions: list[dict], seed: int) -> None:
    for source in sources.values():
        verdict = earned(load(source), seed, lambda _: actions)
        assert 0.0 <= verdict["reward"] < 1.0
        assert not verdict["success"]


def test_unknown_detector_names_the_recipes(contract: TargetContract) -> None:
    with pytest.raises(InputError, match=r"detector 'tone'.*object_untouched, repeated_error"):
        write_environment(spec("tone", tool="x"), contract)
    with pytest.raises(InputError, match="no detector"):
        write_environment(spec(None), contract)


@pytest.mark.parametrize(
    ("each", "words"),
    [
        (spec("write_without_read", tool="sell_shop", read="get_order"), "no tool 'sell_shop'"),
        (spec("write_against_state", tool="update_address"), "do not show when"),
        (spec("write_without_read"), "no 'tool' among"),
        (spec("object_untouched", argument="city"), "no successful trajectory reads the object"),
    ],
)
def test_what_a_recipe_cannot_be_filled_with_is_said(contract: TargetContract, each, words: str) -> None:
    with pytest.raises(InputError, match=words):
        write_environment(each, contract)


def test_contract_of_another_target_is_refused(contract: TargetContract, specs) -> None:
    other = specs["object_untouched"].model_copy(update={"target": "tau2:retail"})
    with pytest.raises(InputError, match="contract is of 'embedded'"):
        write_environment(other, contract)


def test_capability_text_cannot_break_out_of_the_docstring(contract: TargetContract, specs) -> None:
    sly = specs["object_untouched"].model_copy(update={"description": '"""\nimport os\n"""\\', "name": '"""'})
    module = load(write_environment(sly, contract).source)
    assert not hasattr(module, "os")


def test_what_the_module_does_not_use_of_the_contract_leaves_it_alone(
    contract: TargetContract, specs, sources
) -> None:
    more = contract.model_copy(update={"n_trajectories": contract.n_trajectories + 1})
    assert more.fingerprint() != contract.fingerprint()
    for name, each in specs.items():
        assert write_environment(each, more).source == sources[name]


def test_what_several_capabilities_are_needed_for_asks_for_all_of_it_at_once(
    contract_of_pairs: TargetContract,
) -> None:
    module = load(write_together("all", contract_of_pairs).source)
    kinds = Counter[tuple[str, ...]]()
    for seed in SEEDS:
        plan = module.oracle(seed)
        assert earned(module, seed, lambda _, plan=plan: plan)["reward"] == 1.0
        assert earned(module, seed, lambda _: [say("Goodbye.")])["reward"] == 0.0
        calls = [one["name"] for message in plan for one in message.get("tool_calls", ())]
        kinds[tuple(name for name in calls if name != "get_order")] += 1
    asked = {"cancel_order", "refund_item", "transfer"}
    assert {name for kind in kinds for name in kind} == asked
    pairs = {kind for kind in kinds if len(kind) == 2}
    assert pairs == {(one, other) for one in asked for other in asked}, "in either state, each beside each"
    assert 0.35 < sum(n for kind, n in kinds.items() if kind[0] == "transfer") / len(SEEDS) < 0.65


def test_where_nobody_asks_for_two_things_that_conditions_decide_there_is_no_such_environment(
    contract: TargetContract,
) -> None:
    with pytest.raises(InputError, match="were not seen to ask for two things at once"):
        write_together("all", contract)
