"""The audit knows what an environment is for: those that teach something else are rejected, sound ones are not."""
# ruff: noqa: E501

from __future__ import annotations

from functools import cache

import pytest

from tests.audit_fixtures.purpose.broken import BROKEN, SOUND, Broken
from tests.audit_fixtures.purpose.runner import CAUGHT_BY, SPEC, audited, looked_at, purpose
from tests.quick import one_of_each
from trace_assets.environments.audit.battery import verdict_of
from trace_assets.environments.audit.check import Purpose
from trace_assets.environments.audit.fidelity_results import answer_distance, named_in
from trace_assets.environments.contract.decisions import chosen_runs, decisions_of, settled_labels
from trace_assets.environments.contract.shapes import ResultShape
from trace_assets.records import CapabilitySpec, Label
from trace_assets.sandbox import SandboxConfig, SandboxUnavailable, open_pool

REWORDED: dict[str, tuple[tuple[str, str], ...]] = {
    "as it is": (),
    "says it at length": (
        ('"It is cancelled."', '"I have looked at your reservation, and I went ahead: it is cancelled now."'),
        (
            '"I am sorry, I cannot cancel it."',
            '"Unfortunately none of the conditions holds, so it is not possible."',
        ),
    ),
    "says it in a word": (
        ('"It is cancelled."', '"Cancelled."'),
        ('"I am sorry, I cannot cancel it."', '"Unable."'),
    ),
    "hands over": (
        (
            'if now["may"] else ["get_reservation"]',
            'if now["may"] else ["get_reservation", "transfer_to_human"]',
        ),
        ('"arguments": thing}', '"arguments": {"summary": "asks to cancel"} if name[0] == "t" else thing}'),
        ('"I am sorry, I cannot cancel it."', '"A human will take it from here."'),
    ),
    "looks twice": (
        ('names = ["get_reservation", "cancel', 'names = ["get_reservation", "get_reservation", "cancel'),
    ),
    "no names": (('text = f"{rng.choice(PEOPLE)} here, ', 'text = f"'),),
    "another share": (
        (
            'rng.choice(["new", "business", "insured", "airline"])',
            'rng.choice(["business", "insured", "airline"])',
        ),
    ),
}
"""Sound environments whose right solutions are worded, or done, otherwise."""


@cache
def own_failed(source: str) -> set[str]:
    return failed(source, purpose())


def failed(source: str, about: Purpose) -> set[str]:
    return {name for name, one in looked_at(source, about).items() if one.status == "fail"}


@pytest.mark.parametrize("name", one_of_each(REWORDED, then=2))
def test_sound_ones_pass_however_they_word_it(name: str) -> None:
    source = Broken("sound", name, REWORDED[name]).source()
    found = looked_at(source)
    assert {one: f.evidence for one, f in found.items() if f.status == "fail"} == {}
    assert found["trace.purpose.labelled_runs"].status == "pass"
    assert found["trace.purpose.rule"].status == "pass"


@pytest.mark.parametrize(
    "one", one_of_each(BROKEN, lambda one: one.kind, then=1), ids=lambda one: f"{one.kind}: {one.name}"
)
def test_broken_ones_are_rejected(one: Broken) -> None:
    assert own_failed(one.source())


@pytest.mark.slow
def test_every_check_of_this_kind_catches_one_of_them() -> None:
    caught = set[str]()
    for one in BROKEN:
        if not set(CAUGHT_BY) <= caught:
            caught |= own_failed(one.source())
    assert set(CAUGHT_BY) <= caught


def test_inverted_rewards_are_named_by_the_labelled_runs() -> None:
    inverted = next(one for one in BROKEN if one.kind == "inverted")
    assert "trace.purpose.labelled_runs" in own_failed(inverted.source())


def test_without_labels_or_a_capability_it_says_what_was_not_looked_at() -> None:
    found = looked_at(SOUND, Purpose(SPEC))
    assert found["trace.purpose.labelled_runs"].evidence == "no labelled runs of its capability were given"
    mixed = Purpose(SPEC, [one.model_copy(update={"label": "PRESENT"}) for one in purpose().runs])
    assert looked_at(SOUND, mixed)["trace.purpose.labelled_runs"].status == "skip"


def test_labels_that_mean_nothing_reject_nothing() -> None:
    dealt = [
        one.model_copy(update={"label": ("PRESENT", "LACKING")[int(one.task_id[5:]) // 5 % 2]})
        for one in purpose().runs
    ]
    found = looked_at(SOUND, Purpose(SPEC, dealt))["trace.purpose.labelled_runs"]
    assert found.status == "skip" and "nothing that can be replayed" in found.evidence


def test_the_detectors_arguments_say_what_it_must_be_about() -> None:
    spec = CapabilitySpec(
        **{
            **SPEC.model_dump(),
            "detector": "write_against_state",
            "detector_args": {"tool": "upgrade_reservation"},
        }
    )
    assert "trace.purpose.tools" in failed(SOUND, Purpose(spec))


def test_a_state_that_the_policy_names_is_fine() -> None:
    schema = {"type": "object", "properties": {"status": {"type": "string", "enum": ["open", "late"]}}}
    shape = ResultShape(tool="get", json_schema=schema, n=40)
    named = "cancelled by airline".__eq__
    assert answer_distance('{"status": "cancelled by airline"}', shape, named)[0] == 0
    assert answer_distance('{"status": "cancelled by airline"}', shape)[0] == 1
    assert answer_distance('{"status": "late"}', shape)[0] == 0
    few = shape.model_copy(update={"n": 6})
    assert answer_distance('{"status": "somewhere"}', few)[0] == 0
    from tests.audit_fixtures.purpose.runner import contract

    assert named_in(contract())("cancelled by airline") and not named_in(contract())("locked")


def test_runs_are_kept_from_the_earliest_batches() -> None:
    heads = [(f"b{n // 60}", f"task{n}", f"run{n}") for n in range(180)]
    labels = {run: ("PRESENT", "LACKING")[n % 2] for n, (_, _, run) in enumerate(heads)}
    kept = chosen_runs(heads[:120], labels)  # type: ignore[arg-type]
    assert len(kept) == 80 and kept == chosen_runs(heads, labels)  # type: ignore[arg-type]


def test_decisions_hold_what_was_shown_first_and_ties_no_label() -> None:
    from tests.audit_fixtures.purpose.runner import labelled_runs

    run, label = labelled_runs()[0]
    one = decisions_of(run, label, "c")[0]
    assert one.calls[0] == "get_reservation" and one.shown["get_reservation.cabin"]
    rows = [
        Label(trajectory_id="t", capability_id="c", labeller="x", label=v) for v in ("PRESENT", "LACKING")
    ]
    assert settled_labels(rows) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "one", [Broken("sound", "as it is", ()), *BROKEN], ids=lambda one: f"{one.kind}: {one.name}"
)
def test_the_whole_audit_in_a_sandbox_says_the_same(one: Broken) -> None:
    try:
        pool = open_pool(SandboxConfig(backend="bubblewrap", spares=2))
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox: {error}")
    with pool:
        accepted, reasons = verdict_of(audited(one.source(), pool))
    assert accepted == (one.kind == "sound"), reasons
