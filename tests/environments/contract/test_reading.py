"""What a contract reads off conversations: answers, errors, askings, protocol, and a masked sample."""

from __future__ import annotations

import random
import re

import pytest

from trace_assets.environments.contract import protocol
from trace_assets.environments.contract.answers import answered_calls, masked, templates_of
from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.environments.contract.protocol import masked_text, reference_of
from trace_assets.records import Message, ToolCall, ToolSpec, Trajectory

READ = ToolSpec(name="get_order", parameters={"properties": {"order_id": {"type": "string"}}})
WRITE = ToolSpec(name="return_items", description="Return items of a delivered order.")


def conversation(number: int, status: str, ok: bool = True) -> Trajectory:
    """A user who says who he is, then what he wants, in words of his own; an order with items in a list."""
    order, items = f"#W{1000 + number}", [f"{number}1", f"{number}2"]
    record = (
        f'{{"order_id": "{order}", "status": "{status}", "items": [{{"item_id": "{items[0]}"}}, '
        f'{{"item_id": "{items[1]}"}}], "cards": {{"card_{number}9": {{"brand": "visa"}}}}}}'
    )
    refused = status != "delivered"
    read = ToolCall(id="call_1", name="get_order", arguments={"order_id": order})
    write = ToolCall(id="call_1", name="return_items", arguments={"order_id": order, "item_ids": items})
    look = ToolCall(id="u1", name="check_bar", arguments={})
    error = f"Error: order {order} with items {items} is not delivered"
    return Trajectory(
        trajectory_id=f"run-{number}",
        task_id=f"shop/{number}",
        target="shop",
        task_batch="b",
        policy="p",
        success=ok,
        stop="completed",
        messages=(
            Message(role="assistant", content="Hi! How can I help?"),
            Message(role="user", content=f"I am ann_{number}@x.org and need something."),
            Message(role="user", tool_calls=(look,), requestor="user"),
            Message(
                role="tool", content="bar: on", tool_call_id="u1", tool_name="check_bar", requestor="user"
            ),
            Message(
                role="user", content=f"Well, {['please', 'kindly', 'do'][number % 3]} return all of {order}!"
            ),
            Message(role="assistant", tool_calls=(read,)),
            Message(role="tool", content=record, tool_call_id="call_1", tool_name="get_order"),
            Message(role="assistant", tool_calls=(write,)),
            Message(
                role="tool",
                content=error if refused else record.replace("delivered", "return requested"),
                tool_call_id="call_1",
                tool_name="return_items",
            ),
            Message(role="assistant", content="I am sorry." if refused else "Done."),
            Message(role="user", content="Thanks! ###STOP###"),
        ),
    )


@pytest.fixture(scope="module")
def runs() -> list[Trajectory]:
    return [conversation(n, "pending" if n % 5 == 0 else "delivered", ok=n % 4 != 3) for n in range(40)]


@pytest.fixture(scope="module")
def shop(runs: list[Trajectory]) -> TargetContract:
    return contract_of("shop", [READ, WRITE], "Be kind.", runs)


def test_an_answer_belongs_to_the_last_call_of_its_id(runs: list[Trajectory]) -> None:
    assert [(call.name, is_error) for call, _, is_error in answered_calls(runs[0])] == [
        ("get_order", False),
        ("return_items", True),
    ]
    assert [call.name for call, _, _ in answered_calls(runs[0], "user")] == ["check_bar"]


def test_a_guard_is_learned_without_equal_wordings(shop: TargetContract) -> None:
    guard = shop.guard("return_items")
    assert guard is not None
    assert (guard.read, guard.object_argument, guard.read_argument) == ("get_order", "order_id", "")
    assert (guard.field, guard.allowed, guard.forbidden) == ("status", ("delivered",), ("pending",))
    assert guard.refusal == "Error: order {order_id} with items ['{item_ids}', '{item_ids}'] is not delivered"
    assert guard.selects["item_ids"] == "items[].item_id"
    assert guard.read_first == 1.0


def test_what_users_say_is_kept_with_slots(shop: TargetContract) -> None:
    (asking,) = shop.askings
    assert asking.tool == "return_items"
    assert set(asking.wordings) == {
        f"Well, {word} return all of {{order_id}}!" for word in ("please", "kindly", "do")
    }


def test_ids_as_keys_are_a_map(shop: TargetContract) -> None:
    shape = shop.result("get_order")
    assert shape is not None
    assert "additionalProperties" in shape.json_schema["properties"]["cards"]
    assert not shape.compact
    write = shop.result("return_items")
    assert write is not None
    assert (write.n, write.n_errors) == (32, 8)


def test_both_sides_and_the_protocol(shop: TargetContract) -> None:
    assert [tool.name for tool in shop.user_tools] == ["check_bar"]
    assert shop.inferred == ("check_bar",)
    assert shop.user_results[0].usual == "bar: on"
    told = shop.protocol
    assert (told.first_speaker, told.last_speaker, told.user_messages) == ("assistant", "user", 3)
    assert (told.user_calls, told.ends_with_text, told.end_signs) == (True, False, ("###STOP###",))
    assert shop.lengths.spreads["user_messages"].median == 3


def test_an_agent_that_works_alone_owns_the_tools_of_the_user(runs: list[Trajectory]) -> None:
    look = ToolSpec(name="get_order", parameters={})
    alone = [
        run.model_copy(
            update={"messages": tuple(m for m in run.messages if m.requestor != "user" or m.content)}
        )
        for run in runs
    ]
    contract = contract_of("shop", [WRITE], "", alone, user_tools=[look, ToolSpec(name="never_called")])
    assert [tool.name for tool in contract.tools] == ["return_items", "get_order", "never_called"]
    assert contract.user_tools == ()


def test_order_does_not_show(runs: list[Trajectory], shop: TargetContract) -> None:
    for seed in range(3):
        shuffled = random.Random(seed).sample(runs, len(runs))
        assert contract_of("shop", [READ, WRITE], "Be kind.", shuffled).fingerprint() == shop.fingerprint()
    assert TargetContract.model_validate_json(shop.model_dump_json()) == shop


def test_what_the_system_messages_say_alike_is_the_policy(runs: list[Trajectory]) -> None:
    def told(words: str, run: Trajectory) -> Trajectory:
        return run.model_copy(update={"messages": (Message(role="system", content=words), *run.messages)})

    alike = [told("Never shout.", run) for run in runs]
    assert contract_of("shop", [READ], "", alike).policy == "Never shout."
    dated = [told(f"Never shout.\nToday is day {n}.", run) for n, run in enumerate(runs)]
    assert contract_of("shop", [READ], "", dated).policy == "Never shout."
    assert contract_of("shop", [READ], "", [*alike[:3], runs[3], *alike[4:]]).policy == "Never shout."
    apart = [told(f"Rule {n}.", run) for n, run in enumerate(runs)]
    assert contract_of("shop", [READ], "", apart).policy == ""
    assert contract_of("shop", [READ], "Be brief.", alike).policy == "Be brief."


def test_the_sample_holds_no_identifier_and_is_bounded(
    runs: list[Trajectory], shop: TargetContract, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [turn.text for one in shop.reference.episodes for turn in one.turns]
    assert not any(re.search(r"\d", text) for text in texts)
    assert not any("@x.org" in text for text in texts)
    assert len(shop.reference.episodes) == len(runs)
    assert shop.reference.n_successes == sum(run.success is True for run in runs) == 30
    monkeypatch.setattr(protocol, "MAX_EPISODES", 5)
    few = reference_of(runs)
    assert len(few.episodes) == 5
    assert all(one.success for one in few.episodes)
    assert few.episodes == reference_of(runs[::-1]).episodes


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Error: Payment method not found", "Error: Payment method not found"),
        ("pay with gift_1 or gift_12", "pay with {payment_id} or gift_12"),
    ],
)
def test_masking_replaces_whole_words_only(text: str, wanted: str) -> None:
    assert masked(text, {"insurance": "no", "ways": [{"payment_id": "gift_1"}]}) == wanted


def test_templates_count_what_they_merge() -> None:
    texts = {f"no seat on flight HAT{n:03d}": 2 for n in range(30)} | {"too late": 1}
    assert [(error.text, error.n) for error in templates_of(texts)] == [
        ("no seat on flight {value}", 60),
        ("too late", 1),
    ]


def test_masked_text_is_linear() -> None:
    assert masked_text("a_" * 50_000 + "!") == "a_" * 50_000 + "!"
    assert masked_text("1." * 50_000).startswith("#")
