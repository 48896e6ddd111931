"""Every detector family's recipe: who has the capability earns all, who lacks just it earns clearly less."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from careful_agent import CarefulAgent
from clinic import clinic_contract
from recipe_cases import CASES, REAL, cases, load, spec_of, tau2_contract

from tests.audit_fixtures.runner import ZOO_PERMUTATION
from tests.docs.recipes import page
from tests.quick import one_of_each
from trace_assets.diagnosis.detectors import FAMILIES as DETECTORS
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.audit.check import Purpose, Sizes
from trace_assets.environments.audit.false_looks import NO_LOOK as NO_LOOKS
from trace_assets.environments.audit.needed_looks import ANY_ORDER, NO_DEED
from trace_assets.environments.audit.paid_decisions import NO_RUNS
from trace_assets.environments.audit.policy_rule import NO_LIST, NO_RECORD, NO_RULE
from trace_assets.environments.audit.policy_sentences import NO_DECISION, NO_SENTENCE
from trace_assets.environments.audit.purpose import NO_LOOK
from trace_assets.environments.audit.told import ONE_DECISION
from trace_assets.environments.audit.trials import FREE_ERRORS, NOTHING_BACK, NOTHING_REFUSED, WORDS_BESIDE
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.writer import RECIPES, environment_of, write_environment
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec
from trace_assets.sandbox import SandboxConfig, SandboxPool, open_pool
from trace_assets.settings import Synthesis

SEEDS = range(64)
NOON = datetime(2024, 5, 15, 15)
"""What the airline's policy calls now."""
needs_tau2 = pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")
TAU2 = [
    pytest.param(*case, marks=needs_tau2)
    for case in cases("tau2:retail", "tau2:airline", "tau2:telecom_solo")
]


@pytest.fixture(scope="session")
def clinic() -> TargetContract:
    return clinic_contract()


@pytest.fixture(scope="session")
def contracts(contract: TargetContract, clinic: TargetContract) -> dict[str, TargetContract]:
    return {"embedded": contract, "clinic": clinic}


@pytest.fixture(scope="session")
def written(contracts: dict[str, TargetContract]) -> dict[tuple[str, str], str]:
    return {}


def source_of(
    written: dict[tuple[str, str], str], contracts: dict[str, TargetContract], case: tuple[str, str]
) -> str:
    desk, family = case
    if case not in written:
        known = contracts.get(desk) or tau2_contract(desk)
        written[case] = write_environment(spec_of(desk, family), known).source
    return written[case]


def played(
    module: Any, seed: int, script: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    module.reset(seed)
    steps = []
    for message in script:
        steps.append(module.step(message))
        if steps[-1]["done"] or steps[-1]["truncated"]:
            break
    return steps, module.verdict()


def test_families_have_recipes_and_cases() -> None:
    # A family without a recipe diagnoses all the same; a writer of another kind may take its capabilities.
    without = {"limit_exceeded", "unasked_condition"}
    without |= {"denied_without_look"}
    without |= {"unread_prerequisite", "write_against_clauses", "stale_value", "unfinished_deed"}
    without |= {"customary_step", "unread_pages", "call_in_prose", "unseen_answer", "no_answer"}
    without |= {"other_record_taken", "described_record_left", "second_request_left", "unasked_deletion"}
    without |= {"request_left_unmentioned", "change_against_request", "refusal_untold"}
    without |= {"empty_result_believed"}
    without |= {"other_sum", "untold_figure", "situational_step", "other_than_asked", "other_choice_taken"}
    without |= {"promise_unkept", "wrong_figure", "unasked_fact"}
    without |= {"barred_by_own_change", "whole_for_part", "unnamed_choice", "agreed_deed_left", "wrong_count"}
    without |= {"alike_left_out", "other_record_told", "wrong_extreme"}
    assert set(RECIPES) == {detector.name for detector in DETECTORS} - without - {"listed_unopened"}
    of_a_desk = {"write_on_kind"}  # no other target has a rule of what things are called
    dated = {"write_past_date"}  # telecom's lines alone end; a made-up shop has dates in a test of its own
    assert set(CASES["clinic"]) == set(RECIPES) - of_a_desk - dated
    assert set(RECIPES) - set(CASES["tau2:retail"]) == {"write_against_policy", *of_a_desk, *dated}
    answers = {"write_after_refusal", "write_without_consent"}
    assert set(RECIPES) - set(CASES["embedded"]) == {*answers, "write_against_policy", *dated}
    assert set(CASES["tau2:airline"]) == set(RECIPES) - of_a_desk - dated


def test_the_page_is_what_the_code_says() -> None:
    kept = Path(__file__).parents[2] / "docs" / "recipes.md"
    assert kept.read_text(encoding="utf-8") == page()
    for other, words in (
        ("guide.md", f"{len(RECIPES)} detector families have one"),
        ("analyst.md", f"There are {len(DETECTORS)} families of detectors."),
    ):
        assert words in kept.with_name(other).read_text(encoding="utf-8"), words
    assert all(f"| `{detector.name}` |" in page() for detector in DETECTORS if detector.name in RECIPES)


@pytest.mark.parametrize(("desk", "family"), [*cases("embedded", "clinic"), *TAU2])
def test_the_capability_is_what_pays(written, contracts, desk: str, family: str) -> None:
    module = load(source_of(written, contracts, (desk, family)))
    acted = Counter[bool]()
    for seed in SEEDS:
        script = module.oracle(seed)
        steps, verdict = played(module, seed, script)
        assert (verdict["reward"], verdict["success"]) == (1.0, True), (seed, verdict)
        assert steps[-1]["done"] and len(steps) == len(script) <= 12
        for idle in (
            [],
            [{"role": "assistant", "content": "Goodbye."}],
            [{"role": "assistant", "content": ""}],
        ):
            assert played(module, seed, idle)[1]["reward"] == 0.0
        calls = [call["name"] for message in script for call in message.get("tool_calls", ())]
        acted[any(name != module.PLAN["read"] for name in calls)] += 1
    assert acted[True] >= 0.4 * len(SEEDS), "acting must be right half of the time"
    able = [CarefulAgent(module).play(seed) for seed in SEEDS]
    assert fmean(verdict["success"] for verdict in able) == 1.0
    lacking = [CarefulAgent(module, lacks=family).play(seed) for seed in SEEDS]
    assert fmean(verdict["success"] for verdict in lacking) <= 0.6
    assert fmean(verdict["reward"] for verdict in lacking) <= 0.76
    assert all(0.0 <= verdict["reward"] < 1.0 for verdict in lacking if not verdict["success"])


@pytest.mark.parametrize(("desk", "family"), [*cases("embedded", "clinic"), *TAU2])
def test_scenes_look_like_the_targets(written, contracts, desk: str, family: str) -> None:
    source = source_of(written, contracts, (desk, family))
    contract = contracts.get(desk) or tau2_contract(desk)
    assert len(source.encode()) < 150_000
    assert "trace_assets" not in source and "tau2" not in source.replace(f"`{desk}`", "")
    module = load(source)
    assert module.tools() == [tool.openai() for tool in contract.tools]
    shape = contract.result(module.PLAN["read"])
    assert shape is not None
    texts, kinds = set(), set()
    for seed in range(200):
        first = module.reset(seed)
        assert [m["role"] for m in first] == ["system", "user"]
        assert first[0]["content"] == contract.policy
        assert "{" not in first[1]["content"], first[1]["content"]
        texts.add(first[1]["content"])
        kinds.add("".join(c for c in first[1]["content"] if c.islower() or c == " "))
    assert len(texts) >= 196 and len(kinds) >= 20
    steps, _ = played(module, 0, module.oracle(0))
    said = [m for step in steps for m in step["messages"] if m["role"] == "user"]
    assert not said or contract.protocol.user_messages > 1


@needs_tau2
def test_what_the_policy_lists_is_paid_and_not_what_one_field_says() -> None:
    """Business, insured and young reservations may be cancelled, whichever detector asks for it."""
    contract = tau2_contract("tau2:airline")
    one_field = {"tool": "cancel_reservation", "field": "cabin", "value": "basic_economy", "instead": ""}
    for detector, given in (
        ("write_against_policy", {"tool": "cancel_reservation"}),
        ("write_against_state", one_field),
        ("write_without_read", {"tool": "cancel_reservation", "read": "get_reservation_details"}),
    ):
        module = load(write_environment(spec("tau2:airline", detector, **given), contract).source)
        alone = Counter[str]()
        for seed in range(200):
            request = module.reset(seed)[-1]["content"]
            (record,) = module._episode["records"].values()
            young = (NOON - datetime.fromisoformat(record["created_at"])).total_seconds() <= 24 * 3600
            covered = record["insurance"] == "yes" and "covered by insurance" in request
            met = {"young": young, "business": record["cabin"] == "business", "insured": covered}
            calls = [c["name"] for m in module.oracle(seed) for c in m.get("tool_calls", ())]
            assert ("cancel_reservation" in calls) == any(met.values()), (seed, met)
            if list(met.values()).count(True) == 1:
                alone.update(name for name, holds in met.items() if holds)
            cabin_alone = record["cabin"] != "basic_economy"
            alone["against the field"] += cabin_alone != any(met.values())
        assert min(alone[name] for name in ("young", "business", "insured", "against the field")) >= 5, alone


@pytest.mark.parametrize("family", sorted(CASES["clinic"]))
def test_undeclared_and_wrong_calls_are_answered_as_errors(written, contracts, family: str) -> None:
    module = load(source_of(written, contracts, ("clinic", family)))
    module.reset(3)
    wrong = [
        ("no_such_tool", {}),
        ("get_visit", {}),
        ("get_visit", {"id": 7}),
        ("move_visit", {"x": []}),
    ]
    for name, arguments in wrong:
        call = {"id": "c", "name": name, "arguments": arguments}
        told = module.step({"role": "assistant", "tool_calls": [call]})["messages"]
        assert [(m["role"], m["tool_call_id"], m["is_error"]) for m in told] == [("tool", "c", True)]
        assert told[0]["content"].startswith("Error")
    assert module.verdict()["reward"] == 0.0


def test_what_targets_answer_with_is_kept(written, contracts) -> None:
    module = load(source_of(written, contracts, ("clinic", "object_untouched")))
    plan = module.PLAN
    assert (plan["read_key"], plan["wraps"]) == ("id", {"drop_tests": ["test_ids"]})
    assert plan["copies"] == {"change_kind": {"tests": ["test_id"]}}
    assert plan["effects"]["cancel_visit"] == {"status": "cancelled"}
    seed = next(s for s in SEEDS if "change the kind" in module.reset(s)[1]["content"])
    script = module.oracle(seed)
    steps, _ = played(module, seed, script)
    said = {
        call["name"]: (call["arguments"], json.loads(step["messages"][0]["content"]))
        for message, step in zip(script, steps, strict=True)
        for call in message.get("tool_calls", ())
    }
    given, told = said["change_kind"]
    assert told == {"message": "Kind changed", "visit": told["visit"]}
    assert told["visit"]["visit_id"] == given["visit_id"] and told["visit"]["kind"] == given["kind"]
    assert given["tests"] == [{"test_id": one["test_id"]} for one in told["visit"]["tests"]]
    assert all(note == {"by": "nurse"} for note in told["visit"]["notes"].values())


def test_a_target_that_refuses_by_itself_is_not_to_be_tried(written, contracts) -> None:
    module = load(source_of(written, contracts, ("clinic", "write_against_state")))
    script = module.oracle(1)
    assert script[-2]["tool_calls"][0]["name"] == "transfer_to_nurse"
    visit = script[0]["tool_calls"][0]["arguments"]["id"]
    cancel = {"id": "x", "name": "cancel_visit", "arguments": {"visit_id": visit, "reason": "no time"}}
    tried = [script[0], {"role": "assistant", "tool_calls": [cancel]}, *script[1:]]
    steps, verdict = played(module, 1, tried)
    assert steps[1]["messages"][0]["content"] == "Error: Visit that is over cannot be cancelled"
    assert not verdict["success"] and verdict["reward"] < 0.5


# -- what does not fit --------------------------------------------------------------------------------------


def spec(target: str, detector: str, **arguments: Any) -> CapabilitySpec:
    return CapabilitySpec(
        capability_id="c",
        target=target,
        name="n",
        description="d",
        detector=detector,
        detector_args=arguments,
    )


@pytest.mark.parametrize(
    ("each", "words"),
    [
        (
            spec("embedded", "write_after_refusal", tool="cancel_order"),
            "users of 'embedded' send one message",
        ),
        (spec("embedded", "write_without_consent", tool="cancel_order"), "bring trajectories in which users"),
        (spec("embedded", "skipped_check", tool="get_parcel"), "no tool 'get_parcel'"),
        (spec("embedded", "skipped_check"), r"no 'tool' among .* diagnose again"),
        (
            spec("embedded", "unsupported_argument", argument="age"),
            "no request for a writing tool is known .* 'age'",
        ),
        (
            spec("embedded", "unsupported_argument", argument="item", tool="refund_item"),
            "no request for 'refund_item' is known in which 'item' is said",
        ),
        (
            spec("embedded", "unanswered_state", read="", field="", value="Data is off", tool="transfer"),
            "'Data is off' is a line of text",
        ),
        (
            spec(
                "embedded",
                "unanswered_state",
                read="get_order",
                field="status",
                value="lost",
                tool="transfer",
            ),
            "was not seen to show status = 'lost'",
        ),
        (spec("clinic", "write_after_refusal", tool="drop_tests"), "do not show when 'drop_tests' is right"),
        (spec("clinic", "write_without_consent", tool="transfer_to_nurse"), "no successful trajectory reads"),
        (
            spec(
                "clinic", "unanswered_state", read="get_patient", field="name", value="x", tool="move_visit"
            ),
            "'get_patient' was not seen to show name",
        ),
    ],
)
def test_what_is_missing_is_said(contracts, each: CapabilitySpec, words: str) -> None:
    with pytest.raises(InputError, match=words):
        write_environment(each, contracts[each.target])


def test_identifiers_of_digits_have_one_form(clinic: TargetContract) -> None:
    digits = {"identifier": True, "values": ["10012", "10344", "20441"]}
    plain = clinic.phrasing.model_copy(update={"values": {**clinic.phrasing.values, "visit_id": digits}})
    contract = clinic.model_copy(update={"phrasing": plain})
    with pytest.raises(InputError, match="can be written in one way only; roll out more"):
        write_environment(spec("clinic", "repeated_error"), contract)


def test_a_tool_of_unknown_values_cannot_be_asked_for(clinic: TargetContract) -> None:
    tools = tuple(
        one.model_copy(
            update={
                "parameters": {
                    **one.parameters,
                    "properties": {**one.parameters["properties"], "mood": {"type": "string"}},
                    "required": [*one.parameters["required"], "mood"],
                }
            }
        )
        if one.name == "drop_tests"
        else one
        for one in clinic.tools
    )
    contract = clinic.model_copy(update={"tools": tools})
    with pytest.raises(InputError, match=r"'drop_tests' is known .* no values of its argument 'mood'"):
        write_environment(spec("clinic", "write_without_consent", tool="drop_tests"), contract)


# -- the audit ----------------------------------------------------------------------------------------------

WHOLE = Sizes(compared=3, diversity=128, floor=16, attack=16, replayed=2, mutated=8)
SMALL = Sizes(compared=2, diversity=40, floor=8, attack=8, replayed=1, mutated=4)
NOTHING_TO_TELL = {NO_RUNS, NO_RECORD, NO_RULE, NO_LIST, NO_LOOK, ONE_DECISION, ANY_ORDER, NO_DEED}
NOTHING_TO_TELL |= {NO_DECISION, NO_SENTENCE}
NOTHING_TO_TELL |= {NO_LOOKS, FREE_ERRORS, NOTHING_BACK, NOTHING_REFUSED, WORDS_BESIDE}
FEW = [
    ("clinic", "write_against_policy"),
    ("embedded", "unrecovered_error"),
    ("embedded", "unsupported_argument"),
    ("embedded", "unverified_write"),
    ("clinic", "write_after_refusal"),
    ("clinic", "write_without_consent"),
]
"""One of each kind of scene that the audit of the planted three does not reach."""


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=300))
    with opened:
        yield opened


def audited(
    written: Any, contracts: Any, pool: SandboxPool, case: tuple[str, str], sizes: Sizes, seeds: int
) -> None:
    environment = environment_of(spec_of(*case), source_of(written, contracts, case), "recipe")
    contract = contracts.get(case[0]) or tau2_contract(case[0])
    checks = audit(
        environment,
        pool,
        contract,
        Synthesis(audit_seeds=seeds),
        sizes=sizes,
        permutation=ZOO_PERMUTATION,
        purpose=Purpose(spec_of(*case)),
    )
    assert {c.check_id: c.evidence for c in checks if c.status == "fail" and c.severity == "error"} == {}
    assert verdict_of(checks) == (True, ())
    skipped = {
        c.check_id: c.evidence
        for c in checks
        if c.status == "skip" and c.level not in ("statistical", "fidelity", "judged")
    }
    assert {
        name: why for name, why in skipped.items() if why.partition(" (0 of ")[0] not in NOTHING_TO_TELL
    } == {}


@pytest.mark.parametrize(("desk", "family"), one_of_each(FEW, then=1))
def test_recipes_pass_the_audit(written, contracts, pool, desk: str, family: str) -> None:
    audited(written, contracts, pool, (desk, family), SMALL, 8)


@pytest.mark.slow
@pytest.mark.parametrize(("desk", "family"), [*cases("embedded", "clinic"), *TAU2])
def test_every_recipe_passes_the_whole_audit(written, contracts, pool, desk: str, family: str) -> None:
    audited(written, contracts, pool, (desk, family), WHOLE, 16)
