"""How whole diagnoses are scored: what is matched, wanted and counted, and what a judge is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truth.graded import ask, claims_of, judged
from tests.truth.grades import judgements, label_key
from tests.truth.matching import Matched, answered, capability_key, packet
from tests.truth.readings import PassedReading
from tests.truth.scores import Share
from tests.truth.test_unread import cause
from tests.truth.whole import Home, Said, figures, passed_figures, wanted
from trace_assets.records import Capability, Trajectory


def capability(name: str) -> Capability:
    return Capability(capability_id=name, target="x", name=name, description=f"To {name}.", analyst="model:m")


LOOK, ASK = capability("look"), capability("ask")


def reading(run: str, lacking: str = "look_first", fault: str = "agent") -> dict[str, Any]:
    return {
        "run": run,
        "fault": fault,
        "capability": lacking,
        "cause": f"{run} went wrong",
        "decisive_message": 3,
    }


READINGS = [reading("a"), reading("b"), reading("c", "other: ask"), reading("d", "", "ground_truth")]


def row(judge: str, **same: list[str]) -> dict[str, Any]:
    keys = [capability_key(LOOK), capability_key(ASK)]
    pairs = {one: {"same": [], "part": []} for one in ("a", "b", "c", "control")}
    for run, names in same.items():
        pairs[run] = {"same": [capability_key(capability(name)) for name in names], "part": []}
    return {"judge": judge, "capabilities": keys, "pairs": pairs}


def test_a_packet_tells_words_alone_and_its_answer_is_read_back() -> None:
    asked = packet([LOOK, ASK, LOOK], READINGS, seed=1)
    assert sorted(asked.runs.values()) == ["a", "b", "c"] and len(asked.capabilities) == 2
    assert '"lacking": "look first"' in asked.text and "a went wrong" in asked.text
    assert '"a"' not in asked.text
    number = next(key for key, run in asked.runs.items() if run == "b")
    look = next(key for key, said in asked.capabilities.items() if said == capability_key(LOOK))
    reply = {one: {"same": [], "part": []} for one in asked.runs} | {
        number: {"same": [look, "C9"], "part": []}
    }
    matched = Matched([answered(asked, f"Here:\n{json.dumps(reply)}", "m")])
    assert [matched.of(run, LOOK) for run in ("a", "b", "d")] == ["none", "same", None]
    assert packet([LOOK, ASK], READINGS, seed=2).text != asked.text
    with pytest.raises(ValueError, match=number):
        answered(asked, json.dumps({key: said for key, said in reply.items() if key != number}), "m")


def test_of_several_judges_the_least_counts_and_control_is_told_apart() -> None:
    matched = Matched([row("m", a=["look"], control=["ask"]), row("n", b=["look"])])
    assert [matched.of(run, LOOK) for run in ("a", "b")] == ["none", "none"]
    shares = matched.shares(["a", "b", "c"], [capability_key(ASK)])
    assert shares == {
        "m": ((1, 6), (1, 2)),
        "n": ((1, 6), (0, 2)),
    }
    assert matched.shares(["a"], ["unknown"]) == {}


def test_what_is_wanted_and_what_became_of_it() -> None:
    said = Said({"look": LOOK, "ask": ASK}, {"look": "promising", "ask": "rejected"}, {"look": "few"}, [], {})
    (found,) = wanted(READINGS, said, Matched([row("m", a=["look", "ask"])]))  # `ask` is lacking once alone
    assert (found.name, found.n, found.verdict, found.by, found.reason) == (
        "look_first",
        2,
        "promising",
        "look",
        "few",
    )
    (missed,) = wanted(READINGS, said, Matched([row("m", c=["look"])]))
    assert missed.verdict == ""


def test_what_is_counted() -> None:
    causes = [cause("a", "agent", 3), cause("b", "agent", 4), cause("c", "agent", 9), cause("d", "agent", 1)]
    named = [
        one.model_copy(update={"capability": key})
        for one, key in zip(causes, ("look", "ask", None, "ask"), strict=True)
    ]
    lacks = {"a": ["look", "ask"], "b": ["ask", "look"], "d": ["ask"]}
    case = ASK.model_copy(update={"parent": "look"})
    said = Said({"look": LOOK, "ask": case}, {}, {}, named, lacks, {"a": ["look"], "d": ["ask"]})
    got = figures(READINGS, said, Matched([row("m", a=["look"], b=["look"], control=["ask"])]))
    assert got["party right"] == Share(3, 4)
    assert got["wanted capabilities: candidate or better"] == Share(1, 1)
    assert got["wanted capabilities: kept or promising"] == Share(0, 1)
    assert got["the cause is among the candidates"] == Share(2, 3)
    assert got["the cause is among the candidates that are no case's parent"] == Share(0, 3)
    assert got["the cause is among what the run lacks"] == Share(2, 3)
    assert got["the capability named says the cause"] == Share(1, 3)
    assert got["the cause is among the candidates that say nothing of control"] == Share(2, 3)
    assert got["the capability named says the cause and nothing of control"] == Share(1, 3)
    fits_all = figures(READINGS, said, Matched([row("m", a=["look"], b=["look"], control=["look"])]))
    assert fits_all["the cause is among the candidates that say nothing of control"] == Share(0, 3)
    assert fits_all["the capability named says the cause and nothing of control"] == Share(0, 3)
    assert got["agent's failures without a capability"] == Share(1, 3)
    assert got["LACKING says the cause"] == Share(2, 5)
    assert got["LACKING that is called decisive says the cause"] == Share(1, 2)


def test_what_is_said_of_passed_runs_is_held_against_what_was_read_there() -> None:
    passed = [
        PassedReading("p", "f", "look_first", "LACKING"),
        PassedReading("q", "f", "look_first", "PRESENT"),
    ]
    passed.append(PassedReading("q", "f", "other", "LACKING"))  # of which there is no candidate
    lacks = {"p": ["look"], "q": ["ask"]}
    said = Said({"look": LOOK, "ask": ASK}, {"look": "kept"}, {}, [], lacks)
    matched = Matched([row("m", a=["look"], b=["look"])])
    assert list(passed_figures(["p", "q", "r"], passed, READINGS, said, matched).values()) == [
        Share(2, 3),
        Share(1, 3),
        Share(1, 1),
        Share(1, 1),
    ]


def test_claims_and_control_stand_shuffled_and_the_least_judgement_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(
        "h", READINGS, Said({"look": LOOK, "ask": ASK}, {}, {}, [], {"a": ["look"]}), Said({}, {}, {}, [], {})
    )
    claims = claims_of(home, control=1, seed=0)
    assert {(one.capability.name, one.made) for one in claims["a"]} == {("look", True), ("ask", False)}
    run = Trajectory.model_validate(
        {
            "trajectory_id": "a",
            "target": "x",
            "task_id": "x/1",
            "task_batch": "x",
            "trial": 0,
            "policy": "p",
            "success": False,
            "messages": [{"role": "user", "content": "Where is it?"}],
        }
    )
    asked = ask({"a": claims["a"]}, {"a": READINGS[0]}, {"a": run})
    assert (
        "Where is it?" in asked.text
        and "a went wrong" in asked.text
        and "made" not in asked.text.lower().split()
    )
    name = next(key for key, one in asked.claims["E1"].items() if one.made)
    other = next(key for key, one in asked.claims["E1"].items() if not one.made)
    rows, control = judged(asked, json.dumps({"E1": {name: "decisive", other: "false"}}), "m")
    more, _ = judged(asked, json.dumps({"E1": {name: "deficiency", other: "occurs"}}), "n")
    assert control == ["false"] and len(rows) == len(more) == 1
    with pytest.raises(ValueError, match=f"E1, {other}"):
        judged(asked, json.dumps({"E1": {name: "decisive"}}), "m")
    (tmp_path / "graded.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in (*rows, *more)))
    monkeypatch.setattr("tests.truth.grades.TABLES", tmp_path)
    judgements.cache_clear()
    assert judgements("graded") == {label_key("a", LOOK): (True, True, False)}
    judgements.cache_clear()
