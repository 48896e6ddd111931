"""A recorded model on environments by an author who had not seen the checks: what it rejects, and what not.

Of sixteen that no other check sees it rejects all but two, and none of eighteen sound ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.audit_fixtures.unforeseen.runner import unforeseen
from tests.environments.judge.scripted import subject_of
from tests.environments.test_unforeseen import NOT_SEEN
from trace_assets.resources.analysts import open_judge
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study

RECORDING = Path(__file__).parent / "recordings" / "unforeseen.jsonl"
ASKED = [f"trace.judge.{name}" for name in ("oracle", "untold", "lacking", "reworded")]
"""What was recorded; agents that are told take one request a move."""
STILL_NOT_SEEN = {("broken", "hotel_right_booking"), ("broken", "retail_cheapest_variant")}
QUICK = {("broken", "bank_fee_refund"), ("mispaired", "retail_all_pages"), ("sound", "airline_cancel_rule")}
SHOWN = [one for one in unforeseen() if one.kind == "sound" or (one.kind, one.name) in NOT_SEEN]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(
            one.kind,
            one.name,
            id=f"{one.kind}: {one.name}",
            marks=[] if (one.kind, one.name) in QUICK else [pytest.mark.slow],
        )
        for one in SHOWN
    ],
)
def test_the_recorded_judge_rejects_what_no_other_check_sees(kind: str, name: str, tmp_path: Path) -> None:
    given = ["synthesis.judge=strong-general-model", f"writer.recording={RECORDING}"]
    judge = open_judge(Study(Home.open(tmp_path), load_settings(None, given)), "cap", "environment_audit")
    found = findings(subject_of(name, judge, kind), ASKED)
    failed = {check: one.evidence for check, one in found.items() if one.status == "fail"}
    wanted = (kind != "sound") != ((kind, name) in STILL_NOT_SEEN)
    assert bool(failed) == wanted, failed


def test_there_are_as_many_sound_ones_as_others() -> None:
    assert len(SHOWN) == 36 and sum(one.kind == "sound" for one in SHOWN) == 18
