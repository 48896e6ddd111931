from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.selection import empty_contrast, select, shortcoming
from trace_assets.records import Capability, Contrast, Label, SelectedCapability, Triage
from trace_assets.settings import ContrastSection, Selection

FAILED, PASSED = range(0, 100), range(100, 200)
"""Numbers of the failed and of the passed trajectories in every study here."""


def study(
    lacking: Mapping[str, Sequence[int]],
    relevant: Mapping[str, Sequence[int]] | None = None,
    first_message: Mapping[str, int] | None = None,
) -> tuple[list[Label], list[Triage]]:
    triage = [
        Triage(
            trajectory_id=f"r{i:03}",
            target="t",
            task_id=f"t/{i:03}",
            outcome="failed" if i in FAILED else "passed",
            fault="agent" if i in FAILED else None,
            rule="test",
        )
        for i in range(200)
    ]
    labels = [
        Label(
            trajectory_id=f"r{i:03}",
            capability_id=name,
            labeller="x",
            label="LACKING"
            if i in numbers
            else "PRESENT"
            if i in (relevant or {}).get(name, range(200))
            else "NA",
            evidence=((first_message or {})[name],) if i in numbers and name in (first_message or {}) else (),
        )
        for name, numbers in lacking.items()
        for i in range(200)
    ]
    return labels, triage


def decide(
    labels: list[Label], triage: list[Triage], section: Selection | None = None
) -> dict[str, SelectedCapability]:
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    capabilities = [
        Capability(
            capability_id=row.capability_id,
            target="t",
            name=row.capability_id.upper(),
            description="",
            analyst="x",
        )
        for row in rows
    ]
    decided = select(rows, capabilities, labels, triage, section or Selection())
    assert sorted(row.rank for row in decided) == list(range(1, len(rows) + 1))
    return {row.capability_id: row for row in decided}


def test_independent_deficits_are_all_kept_by_coverage() -> None:
    result = decide(*study({"a": [*range(40), 100], "b": range(40, 70), "c": range(70, 95)}))
    assert [(row.rank, row.kept) for row in result.values()] == [(1, True), (2, True), (3, True)]
    assert result["b"].marginal_coverage == pytest.approx(0.30)
    assert "30 of 100 failures" in result["b"].reason


def test_a_second_name_for_one_deficit_is_not_bought() -> None:
    result = decide(*study({"a": range(50), "b": range(48), "c": range(60, 90)}))
    assert [name for name, row in result.items() if row.kept] == ["a", "c"]
    assert result["b"].reason == "its failures are already covered by 'A': adds 0 of 100"
    assert result["b"].rank == 3


def test_the_earlier_of_two_that_go_together_is_the_cause() -> None:
    lacking = {"consequence": range(52), "cause": range(50)}
    late = decide(*study(lacking, first_message={"consequence": 9, "cause": 3}))
    assert (late["cause"].kept, late["consequence"].kept) == (True, False)
    assert "already covered by 'CAUSE': adds 2 of 100" in late["consequence"].reason
    early = decide(*study(lacking, first_message={"consequence": 3, "cause": 9}))
    assert (early["cause"].kept, early["consequence"].kept) == (False, True)


def test_a_symptom_of_everything_does_not_hide_the_causes() -> None:
    # The symptom shows in all failures of both causes and, without meaning, in a fifth of the others.
    lacking = {"symptom": [*range(76), *range(100, 120)], "a": range(35), "b": range(35, 70)}
    result = decide(*study(lacking, first_message={"symptom": 8, "a": 2, "b": 2}))
    assert [name for name, row in result.items() if row.kept] == ["a", "b"]
    assert "explained by 'A'" in result["symptom"].reason and "gap is 0." in result["symptom"].reason
    # When it comes first it is the cause, and nothing remains for the others.
    first = decide(*study(lacking, first_message={"symptom": 1, "a": 2, "b": 2}))
    assert [name for name, row in first.items() if row.kept] == ["symptom"]


def test_two_that_reach_beyond_a_third_replace_it() -> None:
    result = decide(*study({"a": range(20, 60), "b": range(0, 40), "c": range(40, 80)}))
    assert [name for name, row in result.items() if row.kept] == ["b", "c"]
    assert result["a"].marginal_coverage == 0


@pytest.mark.parametrize(
    ("lacking", "relevant", "words"),
    [
        ([*range(30), *range(100, 120)], range(200), "gap 0.10 ["),
        (range(8), [*range(20), *PASSED], "coverage 0.08 ["),
        (range(50), [*range(50), *range(100, 105)], "only 5 relevant successes, 10 are needed"),
        (range(50), range(50), "gap undefined: relevant to 50 of 100 failures and 0 of 100 successes"),
        ([*range(10), 100, 101, 102, 103], [*range(15), *range(100, 110)], "q value"),
    ],
)
def test_what_fails_alone_says_why(lacking: Sequence[int], relevant: Sequence[int], words: str) -> None:
    result = decide(*study({"a": lacking}, {"a": relevant}))["a"]
    assert not result.kept and result.marginal_coverage is None
    assert words in result.reason


def test_all_shortcomings_are_named_at_once() -> None:
    row = contrast(*study({"a": [*range(4), 100]}, {"a": range(8)}), ContrastSection(resamples=100), "t")[0]
    assert shortcoming(row, Selection()).count(";") >= 2


def test_labelling_passes_that_disagree_block() -> None:
    labels, triage = study({"a": range(60)})
    rng = random.Random(0)
    third = [
        one.model_copy(update={"labelling_pass": turn, "label": rng.choice(("LACKING", "PRESENT"))})
        for turn in (1, 2)
        for one in labels
    ]
    result = decide(labels + third, triage, Selection(min_gap=0.0, min_coverage=0.0))["a"]
    assert "labelling passes agree to alpha" in result.reason


def test_no_more_than_allowed() -> None:
    lacking = {name: range(20 * place, 20 * place + 20) for place, name in enumerate("abcd")}
    result = decide(*study(lacking), Selection(max_capabilities=2, min_gap=0.1))
    assert [name for name, row in result.items() if row.kept] == ["a", "b"]
    assert (
        result["d"].reason
        == "2 capabilities are already taken, the most allowed: it would add 20 of 100 failures"
    )


def test_order_of_rows_does_not_matter() -> None:
    labels, triage = study({"a": range(50), "b": range(48), "c": range(60, 90)})
    expected = decide(labels, triage)
    random.Random(0).shuffle(labels)
    random.Random(1).shuffle(triage)
    assert decide(labels, triage) == expected


def test_nothing_to_decide() -> None:
    assert select([], [], [], [], Selection()) == []


def test_empty_contrast_of_the_published_label_counts_is_flagged() -> None:
    # Reference, one capability: 42 LACKING / 0 PRESENT on failures, 0 LACKING / 7 PRESENT on successes. Seven
    # successes may all have it by chance; ten or more that needed it and none that lacked it are suspicious.
    few = contrast(*study({"a": range(42)}, {"a": [*range(42), *range(100, 107)]}), ContrastSection(), "t")
    many = contrast(*study({"a": range(42)}, {"a": [*range(42), *range(100, 112)]}), ContrastSection(), "t")
    fine = contrast(*study({"a": [*range(42), 100]}, {"a": range(200)}), ContrastSection(), "t")
    assert empty_contrast([*few, *fine]) == []
    assert empty_contrast([*few, *many, *fine]) == many
    undefined = Contrast.model_validate({**many[0].model_dump(), "er_passed": None})
    assert empty_contrast([undefined]) == []
