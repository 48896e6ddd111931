from __future__ import annotations

import pytest

from trace_assets.diagnosis.policy_contrast import contrast_policies
from trace_assets.records import Label, LabelValue, PolicyContrast, Triage
from trace_assets.settings import ContrastSection
from trace_assets.stats.paired import mcnemar

SECTION = ContrastSection(resamples=200, permutations=500)


def study(
    weak: list[tuple[bool, LabelValue]], strong: list[tuple[bool, LabelValue]]
) -> tuple[list[Label], list[Triage], dict[str, str]]:
    """One trial a task and policy: whether it failed, and the label of the capability `c`."""
    labels, triage, policies = [], [], {}
    for policy, runs in (("weak", weak), ("strong", strong)):
        for task, (failed, value) in enumerate(runs):
            name = f"{policy}-{task:03}"
            policies[name] = policy
            triage.append(
                Triage(
                    trajectory_id=name,
                    target="t",
                    task_id=f"t/{task:03}",
                    outcome="failed" if failed else "passed",
                    fault="agent" if failed else None,
                    rule="test",
                )
            )
            labels.append(Label(trajectory_id=name, capability_id="c", labeller="x", label=value))
    return labels, triage, policies


def compared(
    weak: list[tuple[bool, LabelValue]], strong: list[tuple[bool, LabelValue]]
) -> tuple[PolicyContrast, PolicyContrast]:
    failures, capability = contrast_policies(*study(weak, strong), {"c": "C"}, SECTION, "t")
    return failures, capability


def test_what_training_mended() -> None:
    weak = [(True, "LACKING")] * 12 + [(False, "PRESENT")] * 18
    strong = [(False, "PRESENT")] * 10 + [(True, "LACKING")] * 2 + [(False, "PRESENT")] * 18
    failures, row = compared(weak, strong)
    assert (failures.weak, failures.strong, failures.capability_id) == ("weak", "strong", "")
    assert (failures.weak_rate, failures.strong_rate) == (pytest.approx(0.4), pytest.approx(2 / 30))
    assert (row.name, row.n_tasks, row.n_mended, row.n_broken, row.n_gained) == ("C", 30, 10, 0, 10)
    assert row.difference == pytest.approx(1 / 3)
    assert row.difference_low is not None and 0.1 < row.difference_low < 1 / 3
    assert row.p_value == pytest.approx(mcnemar(10, 0)) == row.q_value


def test_what_training_broke_though_it_passes_more() -> None:
    weak = [(True, "PRESENT")] * 10 + [(False, "PRESENT")] * 10
    strong = [(False, "LACKING")] * 8 + [(False, "PRESENT")] * 2 + [(True, "LACKING")] * 2
    strong += [(False, "PRESENT")] * 8
    failures, row = compared(weak, strong)
    assert failures.difference is not None and failures.difference > 0
    assert row.difference == pytest.approx(-0.5)
    assert (row.n_mended, row.n_broken, row.n_lost) == (0, 10, 2)


def test_only_tasks_that_need_it_under_both_count() -> None:
    weak: list[tuple[bool, LabelValue]] = [(True, "LACKING")] * 6 + [(False, "NA")] * 10
    strong: list[tuple[bool, LabelValue]] = [(False, "NA")] * 6 + [(False, "PRESENT")] * 10
    failures, row = compared(weak, strong)
    assert failures.n_tasks == 16 and row.n_tasks == 0
    assert (row.weak_rate, row.difference, row.p_value, row.q_value) == (None,) * 4


def test_a_fault_of_others_is_no_failure_of_the_policy() -> None:
    weak = [(True, "LACKING")] * 12 + [(False, "PRESENT")] * 4
    labels, triage, policies = study(weak, [(False, "PRESENT")] * 16)
    spoilt = [
        row.model_copy(update={"fault": "user_simulator"}) if row.trajectory_id == "weak-000" else row
        for row in triage
    ]
    failures, _ = contrast_policies(labels, spoilt, policies, {}, SECTION, "t")
    assert failures.n_tasks == 15 and failures.weak_rate == pytest.approx(11 / 15)


def test_too_few_shared_tasks_are_compared_only_when_asked() -> None:
    labels, triage, policies = study([(True, "LACKING")] * 4, [(False, "PRESENT")] * 4)
    assert contrast_policies(labels, triage, policies, {}, SECTION, "t") == []
    rows = contrast_policies(labels, triage, policies, {}, SECTION, "t", only=("weak", "strong"))
    assert [row.n_tasks for row in rows] == [4, 4]
