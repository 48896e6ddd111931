"""A model that finds the same again in other words: who it is stays, and with it labels and environments."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer
from honest_reader import MARK, HonestReader

from trace_assets.assets.capability_dictionary import discover
from trace_assets.assets.labels import write_batch_capabilities
from trace_assets.assets.selected_capabilities import write_spec
from trace_assets.diagnosis.llm.found_again import by_wording, recognise, recognise_question
from trace_assets.diagnosis.llm.merging import Merged, model_capability_id
from trace_assets.diagnosis.triage import triage
from trace_assets.records import BatchCapability, Capability, Proposal, Trajectory, Triage
from trace_assets.settings import Discovery, load_settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study

Open = Callable[..., Any]
WORDS = {
    "a": ("look up the order first", "Before cancelling, the agent has to read the order it is about."),
    "b": ("refuse late refunds", "When the return window is closed the agent must not refund the item."),
}


def capability(name: str, description: str = "", **more: Any) -> Capability:
    return Capability(
        capability_id=model_capability_id("x", name),
        target="x",
        name=name,
        description=description or f"{name} whenever it is due",
        analyst="model:m",
        **more,
    )


def merged(*capabilities: Capability) -> Merged:
    proposals = [
        Proposal(
            target="x",
            analyst="model:m",
            proposal_id=f"p{place}-1",
            discovery_pass=place,
            name=one.name,
            description=one.description,
            merged_into=one.capability_id,
            merged_by="model",
        )
        for place, one in enumerate(capabilities, 1)
    ]
    return Merged(list(capabilities), proposals, len(capabilities), "model")


KNOWN = [capability(*WORDS["a"], proposed_by=("t1",)), capability(*WORDS["b"], proposed_by=("t2",))]
AGAIN = [
    capability("never cancel unread", "An order is fetched ahead of any cancellation.", proposed_by=("t9",)),
    capability("Refuse late refunds!", "Other words.", n_proposals=7),
    capability("greet politely", "A greeting opens every conversation."),
]


@pytest.mark.parametrize("usable", [True, False])
def test_known_ones_keep_id_and_words_and_it_is_recorded_who_knew_them(
    open_analyst: Open, usable: bool
) -> None:
    def answer(messages: Any) -> dict[str, Any]:
        return {"same": [{"new": "N1", "known": "K1"}]} if usable else {"pairs": []}

    with ChatServer(answer) as server, open_analyst(server.url, repairs=1) as (_, opened):
        done = recognise(opened, Discovery(model="m"), merged(*AGAIN), KNOWN)
    told = server.bodies[0]["messages"][1]["content"]
    assert "refuse late" not in told.lower(), "what has an equal name is not asked about"
    a, b = (one.capability_id for one in KNOWN)
    ids = [one.capability_id for one in done.capabilities]
    assert ids[1:] == [b, AGAIN[2].capability_id]
    assert (ids[0] == a) == usable
    assert done.capabilities[1].description == WORDS["b"][1]
    assert done.capabilities[1].n_proposals == 7
    assert done.complete and bool(done.unrecognised) != usable
    assert [row.merged_into for row in done.proposals] == ids
    who = [row.recognised_by for row in done.proposals]
    assert who == ["model" if usable else "none", "name", "none"]
    assert done.n_recognised == (2 if usable else 1)


def test_no_two_of_one_run_become_one() -> None:
    question = recognise_question(Discovery(model="m"), [AGAIN[0], AGAIN[2]], KNOWN)

    def complaints(*pairs: tuple[str, str]) -> str:
        same = [{"new": new, "known": known} for new, known in pairs]
        return "; ".join(question.read(json.dumps({"same": same}))[1])

    assert complaints(("N1", "K1"), ("N2", "K2")) == complaints() == ""
    assert "K1 is in more than one" in complaints(("N1", "K1"), ("N2", "K1"))
    assert "N1 is in more than one" in complaints(("N1", "K1"), ("N1", "K2"))
    assert complaints(("N3", "K1")) == "", "a pair of what there is not is left out"
    assert complaints(("N1", "P1")) == ""

    twin = capability("look up the order at first", WORDS["a"][1], proposed_by=("t1",))
    other = capability("look up the order first now", WORDS["a"][1])
    for order in ([twin, other], [other, twin]):
        found = by_wording(order, KNOWN)
        assert {name: one.capability_id for name, (one, _) in found.items()} == {
            twin.capability_id: KNOWN[0].capability_id
        }


def test_without_both_old_and_new_ones_nobody_is_asked(open_analyst: Open) -> None:
    with open_analyst("http://127.0.0.1:9/v1") as (_, opened):
        for found, known in ((AGAIN, []), (KNOWN, KNOWN), (KNOWN, [*KNOWN, capability("more")])):
            assert recognise(opened, Discovery(model="m"), merged(*found), known).complete


@pytest.fixture
def rereader(reader: HonestReader) -> Callable[[str], Callable[[Sequence[dict[str, str]]], dict[str, Any]]]:
    """The honest reader, who words every merged capability with a mark."""

    def marked(mark: str) -> Callable[[Sequence[dict[str, str]]], dict[str, Any]]:
        def answer(messages: Sequence[dict[str, str]]) -> dict[str, Any]:
            said = reader.answer(messages)
            for group in said.get("groups", ()):
                group["name"] = f"{group['name']}{MARK}{mark}"
                group["description"] = f"{mark} {len(group['description'])}"
            return said

        return answer

    return marked


@pytest.mark.ci
def test_a_second_discovery_in_other_words_moves_nothing(
    tmp_path: Path, trajectories: list[Trajectory], rereader: Any
) -> None:
    def study(url: str, **more: Any) -> Study:
        given = {"discovery.analyst": "model", "discovery.model": "m", "analyst.base_url": url, **more}
        opened = Study(
            Home.open(tmp_path / "home"),
            load_settings(None, [f"{key}={value}" for key, value in given.items()]),
        )
        write_trajectories(opened.store, trajectories, "b")
        opened.store.write(triage(trajectories), Triage, "b")
        return opened

    with ChatServer(rereader("first words")) as server:
        first = study(server.url)
        found = discover(first)
        name = first.store.read(Capability)[0].capability_id
        write_batch_capabilities(first, "b")
        versions = found.version, first.store.version(BatchCapability, "b"), write_spec(first, name).version
        before = first.store.read(Capability)
        assert {row.recognised_by for row in first.store.read(Proposal)} == {"none"}
    with ChatServer(rereader("words that are wholly other")) as server:
        second = study(server.url, **{"discovery.seed": 1})
        again = discover(second)
        assert again.checks[0].passed, again.checks[0].detail
        write_batch_capabilities(second, "b")
        spec = write_spec(second, name).version
        assert (again.version, second.store.version(BatchCapability, "b"), spec) == versions
        assert [(one.capability_id, one.name) for one in second.store.read(Capability)] == [
            (one.capability_id, one.name) for one in before
        ]
        assert again.figures["recognised"] == len(before) >= 2
        rows = second.store.read(Proposal)
        assert {row.recognised_by for row in rows} == {"model"}
        assert {row.merged_into for row in rows} == {one.capability_id for one in before}
        third = discover(study(server.url, **{"discovery.seed": 1}))
        assert (third.version, third.figures["model_calls"]) == (again.version, 0)


def test_a_cap_before_the_question_leaves_the_dictionary_as_it_is(tmp_path: Path, open_analyst: Open) -> None:
    with open_analyst("http://127.0.0.1:9/v1", cap_calls=0) as (_, opened):
        done = recognise(opened, Discovery(model="m"), merged(*AGAIN), KNOWN)
    assert not done.complete
    assert [one.capability_id for one in done.capabilities] == [KNOWN[1].capability_id]
    assert [row.merged_into for row in done.proposals] == [None, KNOWN[1].capability_id, None]
