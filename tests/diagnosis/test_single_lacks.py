"""What single failures lack: shown by others, lacked by no success, and told where nothing else explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.diagnosis.test_failure_causes import SURPLUS, capability, contrast, lacks, one_cause
from trace_assets.diagnosis.candidates import Pool
from trace_assets.diagnosis.detectors import FAMILIES, Proposal
from trace_assets.diagnosis.label_matrix import CODES
from trace_assets.diagnosis.single_lacks import MOST, single_lacks
from trace_assets.records import SingleLack

NA, SHOWN, LACKED = (CODES[name] for name in ("NA", "PRESENT", "LACKING"))
PASSED = np.array([True, True, True, True, False, False])
FAMILY = {one.name: one for one in FAMILIES}


def pool(*rows: tuple[str, Sequence[int]]) -> Pool:
    codes = np.array([row for _, row in rows], dtype=np.int8)
    return Pool(
        tuple(FAMILY[name] for name, _ in rows),
        tuple(Proposal({"tool": f"t{place}"}, "Do it", "") for place in range(len(rows))),
        codes,
        np.zeros(codes.shape, dtype=np.int32),
    )


def found(of: Pool, *picked: int, as_if: bool = False) -> list[tuple[int, int]]:
    return [(column, row) for column, _, row, _ in single_lacks(of, PASSED, ~PASSED, picked, as_if=as_if)]


ALONE = (SHOWN, SHOWN, SHOWN, NA, LACKED, NA)


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (ALONE, [(4, 0)]),
        ((SHOWN, SHOWN, NA, NA, LACKED, NA), []),  # hardly any success shows it
        ((SHOWN, SHOWN, SHOWN, LACKED, LACKED, NA), []),  # a success lacks it
        ((SHOWN, SHOWN, SHOWN, NA, LACKED, LACKED), [(4, 0), (5, 0)]),
    ],
)
def test_no_success_lacks_it_and_several_show_it(codes: Sequence[int], told: list[tuple[int, int]]) -> None:
    assert found(pool(("idle_loop", codes))) == told


def test_candidates_are_left_out_and_so_is_what_speaks_of_all_tools() -> None:
    assert found(pool(("idle_loop", ALONE)), 0) == []
    whole = pool(("repeated_error", ALONE))
    object.__setattr__(whole, "proposals", (Proposal({"tool": ""}, "Do it", ""),))
    assert found(whole) == []


def test_what_the_policy_says_comes_first_and_few_are_kept() -> None:
    of = pool(*(("idle_loop", ALONE) for _ in range(MOST)), ("write_against_rule", ALONE))
    assert [row for _, row in found(of)] == [MOST, *range(MOST - 1)]


def test_of_a_success_that_is_told_which_it_would_lack_if_it_had_failed() -> None:
    codes = (SHOWN, SHOWN, SHOWN, LACKED, NA, NA)
    assert found(pool(("idle_loop", codes))) == []
    assert found(pool(("idle_loop", codes)), as_if=True) == [(3, 0)]
    assert found(pool(("idle_loop", (SHOWN, SHOWN, LACKED, LACKED, NA, NA))), as_if=True) == []


def lack(number: int, detector: str, **args: Any) -> SingleLack:
    return SingleLack(
        trajectory_id=SURPLUS.trajectory_id,
        number=number,
        target="gym",
        capability_id=f"c{number}",
        name=f"Do {number}",
        detector=detector,
        detector_args=args,
        n_lacking=1,
        n_present=3,
        evidence=(3,),
        rationale="it did not",
    )


FIRST, FITS = lack(0, "idle_loop"), lack(1, "write_against_rule", tool="book_course")


def test_it_explains_a_failure_that_nothing_else_explains() -> None:
    cause = one_cause([], [], singles=[FIRST])
    assert (cause.capability, cause.rule, cause.words) == (None, "idle_loop", "Do 0: it did not")
    assert (cause.confidence, cause.source) == ("low", "rule")
    # The surplus booking is what the second would come from.
    assert one_cause([], [], singles=[FIRST, FITS]).rule == "write_against_rule"


def test_a_candidate_comes_before_it() -> None:
    named = [capability("a")]
    assert one_cause([lacks(SURPLUS.trajectory_id, "a", 3)], named, singles=[FITS]).capability == "a"


def test_a_candidate_whose_lack_goes_with_passing_explains_nothing() -> None:
    named, row = [capability("a")], contrast("a", 0.1, 4)
    spared = row.model_copy(update={"n_failed_lacking": 1, "n_failed_relevant": 9, "n_passed_relevant": 12})
    labels = [lacks(SURPLUS.trajectory_id, "a", 3)]
    assert one_cause(labels, named, contrasts=[spared]).capability is None
    assert one_cause(labels, named, contrasts=[spared], singles=[FIRST]).rule == "idle_loop"
    assert (
        one_cause(labels, named, contrasts=[spared], repaired={(SURPLUS.trajectory_id, "a"): True}).capability
        == "a"
    )
