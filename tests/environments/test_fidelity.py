"""Fidelity: the embedded recipes are like their target, and each measure sees what it is made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.audit_fixtures.runner import ZOO_PERMUTATION
from trace_assets.environments.audit import fidelity
from trace_assets.environments.audit.check import Finding, Subject
from trace_assets.environments.audit.fidelity import (
    FIDELITY_CHECKS,
    bigrams,
    differences,
    divergence,
    error_form,
    features_of,
    halves,
    told_apart,
)
from trace_assets.environments.audit.fidelity_results import added_in, answer_distance, compare
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.json_schema import infer_schema
from trace_assets.environments.contract.protocol import Reference, SampledEpisode, Turn
from trace_assets.environments.contract.shapes import ResultShape
from trace_assets.environments.writers.writer import environment_id
from trace_assets.records import Environment
from trace_assets.sandbox import SandboxPool
from trace_assets.settings import Synthesis

FEW = Synthesis(audit_seeds=24)


def run(source: str, contract: TargetContract | None, pool: SandboxPool) -> dict[str, Finding]:
    environment = Environment(
        environment_id=environment_id(source), capability_id="c", target="embedded", writer="t", source=source
    )
    subject = Subject(environment, pool, FEW, contract, permutation=ZOO_PERMUTATION)
    return {check.check_id.removeprefix("trace.fidelity."): check.run(subject) for check in FIDELITY_CHECKS}


@pytest.fixture(scope="module", params=["object_untouched", "write_against_state", "write_without_read"])
def findings(
    request: pytest.FixtureRequest, sources: dict[str, str], contract: TargetContract, pool: SandboxPool
) -> dict[str, Finding]:
    return run(sources[request.param], contract, pool)


def test_recipes_are_like_the_embedded_target(findings: dict[str, Finding]) -> None:
    assert {name: finding.status for name, finding in findings.items()} == dict.fromkeys(findings, "pass")
    for name in ("schema", "result_shape", "error_shape"):
        assert findings[name].value == 0.0
    assert (findings["tool_ngrams"].value or 0.0) < 0.1
    auc = findings["auc"]
    assert auc.low is not None and auc.value is not None and auc.high is not None
    assert auc.low <= auc.value <= auc.high


RECORD = infer_schema(
    [{"id": f"#W{n:03d}", "when": "2024-05-01", "n": n, "parts": [{"sku": "a"}]} for n in range(99)]
)


@pytest.mark.parametrize(
    ("value", "added"),
    [
        ({"id": "#W1", "when": "2024-05-02", "n": 1, "parts": []}, []),
        ({"id": "#W1", "when": "2024-05-02", "n": 1, "parts": [], "x": 0}, ["x"]),
        ({"id": "#W1", "when": "2024-05-02", "n": 1, "parts": [{"sku": "a", "y": 1}]}, ["parts[].y"]),
    ],
)
def test_fields_that_a_result_adds(value: Any, added: list[str]) -> None:
    assert [name for name, _ in added_in(value, RECORD)] == added


def test_without_anything_to_compare_with_it_says_so(
    sources: dict[str, str], contract: TargetContract, pool: SandboxPool
) -> None:
    source = sources["write_without_read"]
    assert {f.evidence for f in run(source, None, pool).values()} == {
        "no target contract was given to compare with"
    }
    bare = run(source, contract.model_copy(update={"reference": Reference()}), pool)
    assert bare.pop("schema").status == bare.pop("added_fields").status == "pass"  # a contract says enough
    assert {(f.status, f.evidence) for f in bare.values()} == {
        ("skip", "the contract holds no real episodes to compare with")
    }
    few = Reference(episodes=contract.reference.episodes[:7], sequences=contract.reference.sequences[:1])
    scarce = run(source, contract.model_copy(update={"reference": few}), pool)
    assert {name for name, f in scarce.items() if f.status == "skip"} == {"tool_ngrams", "lengths", "auc"}
    assert all("are needed" in f.evidence for f in scarce.values() if f.status == "skip")


def test_no_classifier_tells_real_episodes_from_real_ones(contract: TargetContract) -> None:
    episodes = sorted(contract.reference.episodes, key=lambda one: one.task)
    features = np.array([features_of(one.turns) for one in episodes])
    tasks = [one.task for one in episodes]
    values, missed = [], 0
    for seed in range(8):
        side = dict(
            zip(sorted(set(tasks)), np.random.default_rng(seed).random(len(tasks)) < 0.5, strict=False)
        )
        found = told_apart(features, np.array([side[task] for task in tasks]), tasks)
        assert found.value is not None and found.low is not None and found.high is not None
        values.append(found.value)
        missed += not found.low <= 0.5 <= found.high
    assert abs(float(np.mean(values)) - 0.5) < 0.06
    assert missed <= 2


def test_a_classifier_tells_other_words_surely() -> None:
    def episode(words: str) -> tuple[Turn, ...]:
        return (
            Turn(role="user", text=words, characters=len(words)),
            Turn(role="tool", text="ok", characters=2),
        )

    real = [episode(f"cancel my {item} please") for item in ("lamp", "desk", "mug", "rug") for _ in range(6)]
    other = [episode(f"{item}: abort it now") for item in ("lamp", "desk", "mug", "rug") for _ in range(6)]
    told = np.array([False] * len(real) + [True] * len(other))
    groups = list(map(str, range(len(told))))
    assert told_apart(np.array([features_of(t) for t in [*real, *other]]), told, groups).value == 1.0


def test_what_the_agent_says_is_not_looked_at() -> None:
    turns = (Turn(role="user", text="hello", characters=5),)
    spoken = (*turns, Turn(role="assistant", text="words of the agent", characters=18))
    assert (features_of(turns) == features_of(spoken)).all()
    assert len(features_of(())) == fidelity.WORDS + fidelity.CHARACTERS + 6


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"id": "#W1", "when": "2024-05-02", "n": 1, "parts": []}, ""),
        ({"id": "#W1", "when": "2024-05-02", "n": 1.5, "parts": []}, "n is number instead of integer"),
        ({"id": "#W1", "when": "May 2nd", "n": 1, "parts": []}, "when is not built like the target's"),
        ({"id": "W-1", "when": "2024-05-02", "n": 1, "parts": []}, "id is not built like the target's"),
        ({"id": "#W1", "when": "2024-05-02", "n": 1}, "lacks parts"),
        ("done", "result is string instead of object"),
    ],
)
def test_places_of_a_result(value: Any, fault: str) -> None:
    faults: list[str] = []
    wrong, places = compare(value, RECORD, "", faults)
    assert (wrong, len(faults)) == ((1, 1) if fault else (0, 0))
    assert not fault or fault.replace(" ", "") in faults[0].replace(" .", "").replace(" ", "")
    assert places >= 1


def test_a_tool_of_one_text_says_nothing_else() -> None:
    shape = ResultShape(tool="t", json_schema=infer_schema(["Transfer successful"] * 9), n=9)
    assert answer_distance("Transfer successful", shape) == (0.0, [])
    assert answer_distance("transferred", shape)[0] == 1.0


def test_forms_of_errors() -> None:
    assert error_form('{"error": "x", "code": 1}') == ("json", "code", "error")
    assert error_form("Error: x") == error_form("error: y y") != error_form("x: y")[:1]
    assert error_form("[1]") == ("text", "")


def test_divergence_is_symmetric_and_bounded() -> None:
    one: Sequence[Sequence[str]] = [["get", "put"], ["get", "get", "put"]]
    other: Sequence[Sequence[str]] = [["put", "get"]]
    a, b = bigrams(one), bigrams(other)
    assert divergence(a, b) == pytest.approx(divergence(b, a))
    assert divergence(a, b) == pytest.approx(1.0)
    assert divergence(a, bigrams([*one, *one])) == pytest.approx(0.0)
    assert 0.0 <= halves([["get", "put"]] * 20) < 1e-9


def test_every_difference_of_a_schema_has_its_place() -> None:
    wanted = {"f": {"parameters": {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]}}}
    same = {"f": {"parameters": {"required": ["b", "a"], "properties": {"a": {"type": "string"}}}}}
    assert list(differences(wanted, same)) == []
    given = {
        "f": {"parameters": {"properties": {"a": {"type": "number"}, "c": {}}, "required": ["a"]}},
        "g": {},
    }
    assert list(differences(wanted, given)) == [
        "f.parameters.properties.a.type is 'number' instead of 'string'",
        "adds f.parameters.properties.c",
        "f.parameters.required is ['a'] instead of ['a', 'b']",
        "adds g",
    ]


def test_lengths_name_what_lies_outside(
    sources: dict[str, str], contract: TargetContract, pool: SandboxPool
) -> None:
    def stretched(one: SampledEpisode) -> SampledEpisode:
        turns = tuple(turn.model_copy(update={"characters": 50 * turn.characters}) for turn in one.turns)
        return one.model_copy(update={"turns": (*turns, *turns)})

    long = tuple(map(stretched, contract.reference.episodes))
    reference = contract.reference.model_copy(update={"episodes": long})
    found = run(sources["write_without_read"], contract.model_copy(update={"reference": reference}), pool)[
        "lengths"
    ]
    assert (found.status, found.value) == ("fail", 1.0)
    assert all(name in found.evidence for name in fidelity.MEASURES)
