"""What an environment is given for seeds belongs to its text: drawn once, kept secret, never replaced."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Environment, EnvironmentCheck
from trace_assets.resources.sandbox import (
    AUDIT,
    LOST,
    audited_episodes,
    keep_audited,
    known_permutation,
    permutation_for,
    seeds_fingerprint,
)
from trace_assets.sandbox.reward_verification import Sample
from trace_assets.store.files import environment_file
from trace_assets.store.item_locks import due_items
from trace_assets.study import Study
from trace_assets.workflows.made_with import marked_items

ID = "text-1"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.open(tmp_path)


def environment(environment_id: str = ID) -> Environment:
    return Environment(
        environment_id=environment_id, capability_id="bells", target="embedded", writer="test", source="x"
    )


def audited_home(study: Study) -> None:
    finding = EnvironmentCheck(
        environment_id=ID,
        capability_id="bells",
        check_id="trace.size",
        level="static",
        status="pass",
        severity="error",
        evidence="seen",
    )
    study.store.write([environment()], Environment, "bells")
    study.store.write([finding], EnvironmentCheck, "bells")


def test_one_is_drawn_for_a_text_and_stays(study: Study) -> None:
    drawn = permutation_for(study, ID)
    assert permutation_for(study, ID).key == drawn.key == known_permutation(study, environment()).key
    assert permutation_for(study, "text-2").key != drawn.key, "a changed text has other seeds"
    assert seeds_fingerprint(study, ID) == drawn.fingerprint and drawn.key.hex() not in drawn.fingerprint


def test_two_homes_draw_two(study: Study, tmp_path: Path) -> None:
    other = Study.open(tmp_path / "other")
    assert permutation_for(other, ID).key != permutation_for(study, ID).key


def test_nobody_else_may_read_it(study: Study) -> None:
    permutation_for(study, ID)
    keep_audited(study, ID, [])
    for name in ("seeds", "audit"):
        file = environment_file(study.home, ID, name)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_one_that_is_lost_makes_the_audit_due(study: Study) -> None:
    audited_home(study)
    assert marked_items(study) == {(AUDIT, "bells"): LOST}, "a home of an earlier version has none"
    permutation_for(study, ID)
    assert marked_items(study) == {}
    environment_file(study.home, ID, "seeds").unlink()
    assert marked_items(study) == {(AUDIT, "bells"): LOST} and seeds_fingerprint(study, ID) == ""
    assert due_items(study.home) == {}, "to look changes nothing"
    with pytest.raises(InputError, match=r"environment of 'bells' has to be audited again .*trace sync"):
        known_permutation(study, environment())
    assert due_items(study.home) == {(AUDIT, "bells"): LOST}


def test_no_flipped_bit_is_another_permutation(study: Study) -> None:
    drawn = permutation_for(study, ID)
    file = environment_file(study.home, ID, "seeds")
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bytes(flipped))
        assert seeds_fingerprint(study, ID) in ("", drawn.fingerprint)
    for n in range(0, len(whole) - 1, 7):
        file.write_bytes(whole[:n])
        assert seeds_fingerprint(study, ID) == ""


@pytest.mark.parametrize("text", ["[" * 100_000, "null", "[]", '{"environment_id": "text-1"}', ""])
def test_what_is_no_such_file_is_a_lost_one(study: Study, text: str) -> None:
    permutation_for(study, ID)
    environment_file(study.home, ID, "seeds").write_text(text)
    assert seeds_fingerprint(study, ID) == ""


def test_the_file_of_another_text_is_a_lost_one(study: Study) -> None:
    permutation_for(study, "text-2")
    theirs = environment_file(study.home, "text-2", "seeds").read_bytes()
    permutation_for(study, ID)
    environment_file(study.home, ID, "seeds").write_bytes(theirs)
    assert seeds_fingerprint(study, ID) == ""


def test_an_audits_episodes_are_kept_as_they_were_played(study: Study) -> None:
    action = {"role": "assistant", "content": "ä\ud800", "tool_calls": []}
    kept = [Sample(7, (action,), {"reward": 0.1, "success": False, "checks": []})]
    assert audited_episodes(study, ID) == []
    keep_audited(study, ID, kept)
    assert audited_episodes(study, ID) == kept
    row = json.loads(environment_file(study.home, ID, "audit").read_text())
    row["value"][0][2]["reward"] = 1.0
    environment_file(study.home, ID, "audit").write_text(json.dumps(row))
    assert audited_episodes(study, ID) == [], "altered ones are none"
