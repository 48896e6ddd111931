"""Each operator on scripts that are written down here: which mutants it makes, and where it makes none."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from trace_assets.diagnosis.detectors.mutation import hands_over, leaves_words
from trace_assets.environments.audit import mutation
from trace_assets.environments.audit.added_changes import ADDED
from trace_assets.environments.audit.mutation import MUTATIONS, NEIGHBOURS, Mutant
from trace_assets.environments.audit.scripted_rollouts import HANDED_OVER
from trace_assets.stats.intervals import score_interval, wilson

Action = dict[str, Any]


def call(name: str, ident: str = "c", **arguments: Any) -> dict[str, Any]:
    return {"id": ident, "name": name, "arguments": arguments}


def acts(*calls: dict[str, Any], content: str | None = None) -> Action:
    said = {} if content is None else {"content": content}
    return {"role": "assistant", **said, "tool_calls": list(calls)}


def say(text: str) -> Action:
    return {"role": "assistant", "content": text}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}


class Probe:
    """Oracles by seed; tools whose names begin with `get` only look."""

    def __init__(
        self,
        scripts: Callable[[int], list[Action]],
        tools: list[dict[str, Any]] | None = None,
        answers: Mapping[int, Any] | None = None,
    ) -> None:
        self.scripts, self._tools, self.answers = scripts, tools or [], answers or {}

    def oracle(self, seed: int) -> list[Action]:
        return self.scripts(seed)

    def tools(self) -> list[dict[str, Any]]:
        return self._tools

    def writes(self, name: str) -> bool:
        return not name.startswith("get")

    def hands_over(self, name: str) -> bool:
        return hands_over(name)

    def leaves_words(self, name: str) -> bool:
        return leaves_words(name)

    def only_acknowledges(self, name: str) -> bool:
        return name == "get_on"

    def first(self, seed: int) -> list[dict[str, Any]]:
        return [{"role": "user", "content": "please"}]

    def aside(self, seed: int) -> list[dict[str, Any]]:
        return []

    def best(self, seed: int) -> Any:
        steps = len(self.oracle(seed))
        plain = {"messages": [{"role": "tool", "content": "fine", "is_error": False}]}
        return SimpleNamespace(first=[], answers=[self.answers.get(place, plain) for place in range(steps)])


def mutants(name: str, probe: Probe, seed: int = 5) -> list[list[Action]]:
    """Apply an operator; the script itself is never touched."""
    before = copy.deepcopy(probe.oracle(seed))
    apply = next(one.apply for one in MUTATIONS if one.name == name)
    made = list(apply(probe, seed, random.Random(0)))  # type: ignore[arg-type]
    assert probe.oracle(seed) == before and before not in made
    return made


def fixed(*script: Action, **more: Any) -> Probe:
    return Probe(lambda seed: copy.deepcopy(list(script)), **more)


LOOK, WRITE, END = acts(call("get", id="A1")), acts(call("pay", id="A1", amount=7)), say("Done.")


# --- what harms


def test_every_change_is_left_out_once() -> None:
    two = acts(call("pay", id="A1"), call("get", id="A1"), call("close", id="A1"))
    assert mutants("drop_write", fixed(LOOK, two, END)) == [
        [LOOK, acts(call("get", id="A1"), call("close", id="A1")), END],
        [LOOK, acts(call("pay", id="A1"), call("get", id="A1")), END],
    ]
    assert mutants("drop_write", fixed(LOOK, WRITE, END)) == [[LOOK, END]], "an empty message goes with it"
    spoken = acts(call("pay", id="A1"), content="I pay.")
    assert mutants("drop_write", fixed(spoken, END)) == [[acts(content="I pay."), END]]
    assert mutants("drop_write", fixed(LOOK, END)) == []


def test_an_id_becomes_the_next_one_that_is_known() -> None:
    other = acts(call("get", id="B2"))
    (made,) = mutants("swap_id", fixed(LOOK, other, WRITE, END))
    assert made == [LOOK, other, acts(call("pay", id="B2", amount=7)), END]


def test_ids_come_from_other_seeds_where_the_episode_has_one_only() -> None:
    def far(distance: int) -> Probe:
        return Probe(lambda seed: [acts(call("pay", id="A1" if seed < 5 + distance else "B2")), END])

    (made,) = mutants("swap_id", far(NEIGHBOURS - 1))
    assert made[0]["tool_calls"][0]["arguments"] == {"id": "B2"}
    assert mutants("swap_id", far(NEIGHBOURS)) == []
    earlier = Probe(lambda seed: [acts(call("pay", id="A1" if seed >= 5 else "B2")), END])
    assert mutants("swap_id", earlier) == [], "seeds before it are not asked"


@pytest.mark.parametrize("value", ["lamp", 7, None, True, ["A1"], {"a": "A1"}])
def test_what_is_no_id_is_left_alone(value: Any) -> None:
    probe = Probe(lambda seed: [acts(call("pay", id=value if seed == 5 else "B2")), END])
    assert mutants("swap_id", probe) == []


def test_an_id_is_taken_from_the_same_argument_and_from_texts_alone() -> None:
    probe = Probe(
        lambda seed: (
            [acts(call("pay", id="A1"), call("get", other="C3"), call("get", id=7)), END]
            if seed == 5
            else [acts(call("get", id="D4")), END]
        )
    )
    (made,) = mutants("swap_id", probe)
    assert made[0]["tool_calls"][0]["arguments"] == {"id": "D4"}


def test_amounts_are_off_by_one_and_truth_values_no_amounts() -> None:
    script = [acts(call("get", n=3), call("pay", amount=7, rate=1.5, fast=True, label="A1")), END]
    made = [one[0]["tool_calls"][1]["arguments"] for one in mutants("off_by_one", fixed(*script))]
    assert len(made) == 2
    assert abs(made[0]["amount"] - 7) == 1 and made[0]["rate"] == 1.5
    assert abs(made[1]["rate"] - 1.5) == 1 and made[1]["amount"] == 7
    assert all(one["fast"] is True and one["label"] == "A1" for one in made)


COLOURS = tool("paint", colour={"enum": ["red", "blue"]}, wet={"type": "boolean"}, size={"type": "integer"})


def painted(seed: int) -> list[Action]:
    odd = bool(seed % 2)
    return [acts(call("paint", colour="red" if odd else "blue", wet=odd, size=3, shape=seed)), END]


def test_values_become_another_of_the_schemas_or_the_other_truth_value() -> None:
    made = [one[0]["tool_calls"][0]["arguments"] for one in mutants("other_value", Probe(painted, [COLOURS]))]
    same = {"size": 3, "shape": 5}
    assert made == [{"colour": "blue", "wet": True, **same}, {"colour": "red", "wet": False, **same}]
    for chance in range(9):  # a value is never drawn in place of itself
        rng, probe = random.Random(chance), Probe(painted, [COLOURS])
        assert len(list(mutation.other_value(probe, 5, rng))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("tools", [[], [tool("another")], [tool("paint")], [tool("paint", colour=True)]])
def test_without_a_schema_only_truth_values_have_another(tools: list[dict[str, Any]]) -> None:
    (made,) = mutants("other_value", Probe(painted, tools))
    assert made[0]["tool_calls"][0]["arguments"]["wet"] is False


def test_a_value_that_is_the_same_on_every_seed_is_a_convention() -> None:
    always = Probe(lambda seed: [acts(call("paint", colour="red", wet=True)), END], [COLOURS])
    assert mutants("other_value", always) == []
    late = Probe(lambda seed: painted(seed) if seed < 5 + NEIGHBOURS - 1 else painted(seed + 1), [COLOURS])
    assert len(mutants("other_value", late)) == 2
    elsewhere = Probe(
        lambda seed: [
            acts(call("paint", colour="red")),
            acts(call("draw", colour="red" if seed == 5 else "blue")),
        ],
        [COLOURS, tool("draw", colour={"enum": ["red", "blue"]})],
    )
    assert [one[1]["tool_calls"][0]["arguments"] for one in mutants("other_value", elsewhere)] == [
        {"colour": "blue"}
    ], "what another tool is given does not count"


SHOP = [tool("get", id={}), tool("pay", id={}, amount={}), tool("close", id={}), tool("open_shop")]


def test_another_change_is_made_to_the_same_object() -> None:
    (made,) = mutants("other_tool", fixed(LOOK, WRITE, END, tools=SHOP))
    assert made == [LOOK, acts({**call("close", id="A1")}), END]
    assert mutants("other_tool", fixed(LOOK, WRITE, END, tools=SHOP[:2])) == []
    assert len(mutants("other_tool", fixed(LOOK, WRITE, END, tools=[*SHOP, tool("ban", id={})]))) == 1


def test_one_more_change_is_made_before_the_closing_words() -> None:
    (made,) = mutants("extra_write", fixed(LOOK, WRITE, END, tools=SHOP))
    added = {"id": "mutant", "name": "close", "arguments": {"id": "A1"}}
    assert made == [LOOK, WRITE, {"role": "assistant", "tool_calls": [added]}, END]
    (last,) = mutants("extra_write", fixed(LOOK, WRITE, tools=SHOP))
    assert last == [LOOK, WRITE, {"role": "assistant", "tool_calls": [added]}], "a script that ends in a call"
    handed = [SHOP[0], tool("transfer_to_human_agents", id={})]
    assert len(mutants("extra_write", fixed(LOOK, WRITE, END, tools=handed))) == 1
    assert mutants("extra_write", fixed(LOOK, END, tools=handed)) == [], "a refusal may be handed over"
    assert len(mutants("extra_write", fixed(LOOK, END, tools=SHOP))) == 1, "but not acted on"
    closed = acts(call("close", id="A1"))
    assert mutants("extra_write", fixed(LOOK, WRITE, closed, END, tools=SHOP)) == [], "both were made already"


def test_every_object_gets_its_own_extra_change() -> None:
    second = acts(call("get", id="B2"))
    made = mutants("extra_write", fixed(LOOK, second, WRITE, END, tools=SHOP))
    added = [one[-2]["tool_calls"][0] for one in made]
    assert [one["arguments"]["id"] for one in added] == ["A1", "B2"]
    assert added[0]["name"] == "close" and added[1]["name"] in ("pay", "close")


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("There are 12 left.", {"13", "14", "15"}),
        ("It is 5", {"6", "7", "8"}),
        ("Order A12 has 3.", {"4", "5", "6"}),
        ("1.5 kg", None),
        ("It costs 3.50", None),
        ("W1", None),
        ("1234567890", None),
        ("none", None),
        (" " * 1000 + "5", None),
    ],
)
def test_another_number_is_said(words: str, numbers: set[str] | None) -> None:
    made = mutants("wrong_answer", fixed(LOOK, say(words)))
    if numbers is None:
        assert made == []
    else:
        ((look, said),) = made
        assert look == LOOK
        right = next(part for part in words.replace(".", " ").split() if part.isdigit())
        head, _, tail = words.partition(f" {right}") if f" {right}" in words else ("", "", words)
        assert said in [say(f"{head} {number}{tail}") for number in numbers]


def test_where_something_is_changed_the_words_are_not_the_deed() -> None:
    assert mutants("wrong_answer", fixed(LOOK, WRITE, say("There are 12 left."))) == []


# --- what does no harm

SECOND = acts(call("get", id="B2"))
REFUSED = {"messages": [{"role": "tool", "content": "no", "is_error": True}]}
BROKEN = {"messages": [{"role": "tool", "content": "no", "error": True}]}


def again(ident: str) -> Action:
    return {
        "role": "assistant",
        "tool_calls": [{"id": "attack_0", "name": "get", "arguments": {"id": ident}}],
    }


def test_each_read_is_repeated_at_once() -> None:
    assert mutants("repeat_read", fixed(LOOK, WRITE, SECOND, END)) == [
        [LOOK, again("A1"), WRITE, SECOND, END],
        [LOOK, WRITE, SECOND, again("B2"), END],
    ]


@pytest.mark.parametrize("answer", [REFUSED, BROKEN])
def test_a_read_that_was_refused_is_none(answer: Any) -> None:
    assert mutants("repeat_read", fixed(LOOK, SECOND, END, answers={0: answer})) == [
        [LOOK, SECOND, again("B2"), END]
    ]
    assert mutants("late_read", fixed(LOOK, END, answers={0: answer})) == []


def test_several_calls_in_one_message_are_no_read_and_neither_are_words() -> None:
    two = acts(call("get", id="A1"), call("get", id="B2"))
    assert mutants("repeat_read", fixed(two, say("hm"), END)) == []


def test_a_read_is_made_again_before_closing() -> None:
    assert mutants("late_read", fixed(LOOK, WRITE, END)) == [[LOOK, WRITE, again("A1"), END]]
    assert mutants("late_read", fixed(LOOK, WRITE)) == [[LOOK, WRITE, again("A1")]]
    (made,) = mutants("late_read", fixed(LOOK, SECOND, END))
    assert made in [[LOOK, SECOND, again(ident), END] for ident in ("A1", "B2")]


def test_neighbouring_reads_change_places() -> None:
    assert mutants("swap_reads", fixed(LOOK, SECOND, WRITE, END)) == [[SECOND, LOOK, WRITE, END]]
    third = acts(call("get", id="C3"))
    assert mutants("swap_reads", fixed(LOOK, SECOND, third, END)) == [
        [SECOND, LOOK, third, END],
        [LOOK, third, SECOND, END],
    ]


def test_reads_with_something_between_them_or_of_the_same_thing_stay() -> None:
    assert mutants("swap_reads", fixed(LOOK, WRITE, SECOND, END)) == []
    assert mutants("swap_reads", fixed(LOOK, LOOK, END)) == []
    told = {"messages": [{"role": "tool", "content": "see B2", "is_error": False}]}
    assert mutants("swap_reads", fixed(LOOK, SECOND, END, answers={0: told})) == []


def test_what_is_answered_alike_everywhere_is_no_read() -> None:
    waits = acts(call("get_on", id="A1"))
    assert mutants("repeat_read", fixed(waits, WRITE, END)) == []


def test_calls_get_ids_that_differ() -> None:
    script = [acts(call("get", id="A1"), call("pay", id="A1")), END]
    (made,) = mutants("other_call_ids", fixed(*script))
    ids = [one["id"] for one in made[0]["tool_calls"]]
    assert len(set(ids)) == 2 and "c" not in ids
    assert [(one["name"], one["arguments"]) for one in made[0]["tool_calls"]] == [
        ("get", {"id": "A1"}),
        ("pay", {"id": "A1"}),
    ]


def test_arguments_are_given_in_the_reverse_order() -> None:
    ((look, write, end),) = _by_key_order(LOOK, WRITE, END)
    assert list(write["tool_calls"][0]["arguments"]) == ["amount", "id"]
    assert (look, write, end) == (LOOK, WRITE, END), "equal but for the order"
    assert _by_key_order(LOOK, END) == []


def _by_key_order(*script: Action) -> list[list[Action]]:
    return list(mutation.other_key_order(fixed(*script), 5, random.Random(0)))  # type: ignore[arg-type]


def test_closing_words_are_framed() -> None:
    assert mutants("polite", fixed(LOOK, END)) == [
        [LOOK, say("Thank you for your patience. Done. Have a nice day!")]
    ]
    assert mutants("polite", fixed(LOOK)) == []
    assert mutants("polite", fixed(acts(call("get", id="A1"), content="x"))) == []
    assert mutants("polite", Probe(lambda seed: [])) == []
    assert mutants("polite", fixed(say(""))) == []


def test_what_each_operator_deserves_is_a_rule() -> None:
    assert {one.name: (one.effect, one.adds) for one in MUTATIONS} == {
        **dict.fromkeys(
            ("drop_write", "swap_id", "off_by_one", "other_value", "other_tool"), ("harmful", False)
        ),
        **dict.fromkeys(("other_items", "other_words", "other_amount", "other_digits"), ("harmful", False)),
        **dict.fromkeys(("extra_write", "wrong_first", "other_object", "paid_twice"), ("harmful", True)),
        **dict.fromkeys(("wrong_answer", "other_order", "unasked", "other_figure"), ("harmful", False)),
        **dict.fromkeys(("repeat_read", "late_read", "swap_reads", "other_call_ids"), ("harmless", False)),
        **dict.fromkeys(("other_key_order", "polite"), ("harmless", False)),
    }


# --- the rate


def rated(monkeypatch: pytest.MonkeyPatch, equivalent: int = 0, **operators: list[bool]) -> Any:
    """Judge mutants, one a seed of each operator, that were right or not."""
    played = [
        Mutant(name, seed, 0.25, right)
        for name, all_of in operators.items()
        for seed, right in enumerate(all_of)
    ]
    monkeypatch.setattr(mutation, "_mutants", lambda *_: (played, equivalent))
    subject: Any = SimpleNamespace(rules=SimpleNamespace(min_operator_rate=0.5))
    return mutation._rate(subject, "harmful", "most", 0.75)


def test_the_interval_counts_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    for right in (True, False):
        found = rated(monkeypatch, a=[right] * 4, b=[right] * 3)
        assert (found.value, found.n) == (right, 7)
        assert (found.low, found.high) == wilson(4 * right, 4)
    found = rated(monkeypatch, a=[True] * 4, b=[True, True, True, False])
    assert (found.value, found.n) == (7 / 8, 8)
    assert (found.low, found.high) == score_interval(7 / 8, 4)


def test_all_mutants_and_each_operator_have_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    good = rated(monkeypatch, a=[True] * 2, b=[True, False])
    assert (good.status, good.bound) == ("pass", "most, each operator >= 50%")
    assert good.evidence == "a 2/2, b 1/2; such as b on seed 1: reward 0.25"
    assert rated(monkeypatch, a=[True] * 2, b=[True, False, False]).status == "fail"
    assert rated(monkeypatch, a=[True] * 9, b=[True, False, False]).status == "fail", "10 of 12, but 1 of 3"
    found = rated(monkeypatch, a=[True], equivalent=2)
    assert found.evidence == "a 1/1; 2 not counted: equivalent, or too long"
    assert rated(monkeypatch, equivalent=2).status == "skip"


def played(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    reward: float,
    success: bool,
    *,
    script: list[Action],
    oracle: Sequence[Action] = (LOOK, WRITE, END),
    in_words: bool = False,
    refused: tuple[int, str] | None = None,
) -> bool | None:
    """Play a mutant whose reward is given; return whether it is right, None where it counts for nothing.

    The oracle earns 0.9; `refused` is an answer that is an error, and the field that says so.
    """
    answers: list[dict[str, Any]] = [{"messages": [{"role": "tool"}, {"role": "user"}]} for _ in script]
    if refused:
        answers[refused[0]]["messages"][0][refused[1]] = True
    one = SimpleNamespace(answers=answers, actions=script, reward=reward, success=success)
    probe = SimpleNamespace(
        best=lambda seed: SimpleNamespace(reward=0.9),
        play=lambda seed, script: one,
        oracle=lambda seed: oracle,
        hands_over=hands_over,
    )
    monkeypatch.setattr(mutation, "refused_in_words", lambda subject: in_words)
    subject: Any = SimpleNamespace(probe=probe, rules=SimpleNamespace(min_mutant_loss=0.25))
    made = mutation._play(subject, next(one for one in MUTATIONS if one.name == name), 5, script)
    assert made is None or (made.operator, made.seed, made.reward) == (name, 5, reward)
    return made and made.right


def test_a_harmful_mutant_must_lose_and_a_harmless_one_must_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def right(name: str, reward: float, success: bool) -> bool | None:
        return played(monkeypatch, name, reward, success, script=[LOOK, WRITE, END])

    assert right("swap_id", 0.65, False) is True
    assert right("swap_id", 0.66, False) is False, "it lost too little"
    assert right("swap_id", 0.0, True) is False
    assert right("polite", 0.9, True) is True
    assert right("polite", 0.89, True) is False
    assert right("polite", 1.0, False) is False


@pytest.mark.parametrize("field", ["is_error", "error"])
def test_an_added_change_that_is_refused_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    more = acts({"id": ADDED, "name": "pay", "arguments": {"id": "A1", "amount": 8}})
    for script, added in (([LOOK, more, END], 1), ([LOOK, more, WRITE], 1), ([LOOK, LOOK, more], 2)):
        for place in range(3):
            right = played(monkeypatch, "extra_write", 0.9, True, script=script, refused=(place, field))
            assert right is (None if place == added else False)
    assert (
        played(monkeypatch, "other_tool", 0.9, True, script=[LOOK, WRITE, END], refused=(1, field)) is False
    )


def test_a_hand_over_that_is_left_out_counts_for_nothing_where_words_refuse_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def right(*left_out: dict[str, Any], success: bool = True, in_words: bool = True) -> bool | None:
        oracle = [LOOK, acts(*left_out), END]
        return played(
            monkeypatch, "drop_write", 0.0, success, script=[LOOK, END], oracle=oracle, in_words=in_words
        )

    hand_over = call("transfer_to_human_agents", reason="amount")
    assert right(hand_over) is None
    assert right(hand_over, in_words=False) is False and right(hand_over, success=False) is True
    assert right(hand_over, call("pay", id="A1")) is False


def test_some_mutants_a_seed_are_played_of_each_operator_of_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(subject: Any, one: Any, seed: int, script: list[Action]) -> Mutant | None:
        return None if one.name == "off_by_one" else Mutant(one.name, seed, 0.0, True)

    monkeypatch.setattr(mutation, "_play", play)
    monkeypatch.setattr(mutation, "corrections_count", lambda subject: False)
    many: Any = fixed(acts(*(call("pay", id="A1", amount=n) for n in range(5))))
    many.chance = random.Random
    sizes = SimpleNamespace(mutated=2)
    subject: Any = SimpleNamespace(probe=many, seeds=[1, 2, 3], sizes=sizes, purpose=None)
    found, equivalent = mutation._mutants(subject, "harmful")
    of_each = [(name, n) for name in ("drop_write", "wrong_first", "paid_twice") for n in (1, 1, 2, 2)]
    assert [(one.operator, one.seed) for one in found] == of_each
    assert equivalent == 2 * mutation.MOST_A_SEED


def test_whoever_is_served_can_be_handed_over_and_a_key_cannot() -> None:
    said = (
        "Hand a donor over to the doctor on duty.",
        "Hands over the case.",
        "Hand the key over.",
        "Hands.",
    )
    assert [bool(HANDED_OVER.search(one)) for one in said] == [True, True, False, False]


def test_a_wrong_change_comes_first_or_hits_another_object_that_is_shown() -> None:
    shown = {0: {"messages": [{"role": "tool", "content": "A1, A2", "is_error": False}]}}
    probe: Any = fixed(LOOK, WRITE, END, answers=shown)
    probe.chance = random.Random
    first = [script[1]["tool_calls"][0]["arguments"] for script in mutants("wrong_first", probe)]
    assert first == [{"id": "A1", "amount": 7 + by} for by in (-2, -1, 1, 2)]
    (other,) = mutants("other_object", probe)
    assert [one["arguments"]["id"] for a in other for one in a.get("tool_calls", ())] == ["A1", "A1", "A2"]
    alone: Any = fixed(LOOK, WRITE, END)
    assert mutants("other_object", alone) == []
    meant: Any = fixed(LOOK, acts(call("book", pet="rex", treatment="A1")), END, answers=shown)
    meant.chance = random.Random
    (other,) = mutants("other_object", meant)
    assert other[2]["tool_calls"][0]["arguments"] == {"pet": "rex", "treatment": "A2"}


def test_what_pays_is_done_twice_and_what_sets_is_not() -> None:
    (made,) = mutants("paid_twice", fixed(LOOK, WRITE, END))
    assert [one["name"] for a in made for one in a.get("tool_calls", ())] == ["get", "pay", "pay"]
    assert mutants("paid_twice", fixed(LOOK, acts(call("set_limit", id="A1")), END)) == []
    assert mutants("paid_twice", fixed(LOOK, acts(call("cancel_order", id="A1")), END)) == []


def test_two_digits_change_places_where_nothing_shows_the_other_figure() -> None:
    def made(**arguments: Any) -> list[dict[str, Any]]:
        shown = {0: {"messages": [{"role": "tool", "content": "12:30", "is_error": False}]}}
        probe = fixed(LOOK, acts(call("set", id="A12", **arguments)), END, answers=shown)
        return [script[1]["tool_calls"][0]["arguments"] for script in mutants("other_digits", probe)]

    assert made(amount=370, at="10:45") == [
        {"id": "A12", "amount": 730, "at": "10:45"},
        {"id": "A12", "amount": 370, "at": "01:45"},
    ]
    assert made(rate=0.5, at="21:30", many=77, sure=True, said="at 12 or 3") == []
