"""What shuffled outcomes come to, who is kept in spite of figures, and policies compared with themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from tests.diagnosis.test_selection import study
from tests.simulations.world import Planted, World, draw
from trace_assets.diagnosis.chance import Findings, Null, chance_null, shuffled
from trace_assets.diagnosis.contrast import contrast, contrast_matrix
from trace_assets.diagnosis.detector_analyst import trajectories_hash
from trace_assets.diagnosis.label_matrix import LACKING, NO_EVIDENCE, PRESENT, LabelMatrix
from trace_assets.diagnosis.selection import select, select_matrix
from trace_assets.errors import InputError
from trace_assets.records import Capability, ProposedFinding
from trace_assets.resources.analysts import chosen_policy
from trace_assets.settings import ContrastSection, Discovery, Selection
from trace_assets.stats.stratified import common_gap, stratified_gap, stratified_p_value
from trace_assets.stats.tests import gap_p_value

SECTION = ContrastSection(resamples=200, permutations=500)
IDLE = World("idle", tasks=50, trials=2, planted=tuple(Planted(f"c{n}", lack=0.3) for n in range(4)))
LOOSE = Selection(min_relevant=8, min_gap=0.05, min_gap_low=-1, min_coverage_low=0)
NONE, ALL = Null(np.ones(999)), Null(np.full(999, 1e-9))


@pytest.mark.slow
def test_what_means_nothing_is_rarely_as_clear_as_the_clearest() -> None:
    """The share is a p-value: of studies without any effect it is at most 0.2 in about one of five."""
    shares = []
    for number in range(30):
        matrix = draw(IDLE, np.random.default_rng(number)).matrix
        null = chance_null(matrix, Findings.of_candidates(matrix), SECTION, LOOSE, shuffles=39)
        again = chance_null(matrix, Findings.of_candidates(matrix), SECTION, LOOSE, shuffles=1, seed=1)
        shares.append(null.share(float(again.least[0])))
    assert sum(share <= 0.2 for share in shares) <= 14  # 6 expected at most


def test_the_null_needs_no_labels_of_the_study_and_repeats_itself() -> None:
    matrix = draw(IDLE, np.random.default_rng(0)).matrix
    findings = Findings.of_candidates(matrix)
    first = chance_null(matrix, findings, SECTION, LOOSE, shuffles=99)
    blank = replace(matrix, codes=matrix.codes * 0)
    again = chance_null(blank, findings, SECTION, LOOSE, shuffles=99)
    assert again.least.tolist() == first.least.tolist() and again.least[0] < 1
    other = chance_null(matrix, findings, SECTION, LOOSE, shuffles=99, seed=1)
    assert other.least.tolist() != first.least.tolist()


@pytest.mark.parametrize("several", [False, True])
def test_a_null_up_to_a_p_value_says_the_same_up_to_it(several: bool) -> None:
    matrix = two_policies(cost=0.8) if several else draw(IDLE, np.random.default_rng(0)).matrix
    findings = Findings.of_candidates(matrix)
    whole = chance_null(matrix, findings, SECTION, LOOSE, shuffles=99)
    part = chance_null(matrix, findings, SECTION, LOOSE, 0.2, shuffles=99)
    within = [float(value) for value in whole.least if value <= 0.2]
    assert within and all(part.share(value) == whole.share(value) for value in [*within, 0.2])
    assert (part.least > 0.2).sum() == (part.least == 1).sum() > 0


def test_more_findings_make_luck_more_likely() -> None:
    matrix = draw(replace(IDLE, tasks=80), np.random.default_rng(3)).matrix
    one = chance_null(
        matrix.take([0]), Findings.of_candidates(matrix.take([0])), SECTION, LOOSE, shuffles=199
    )
    all_ = chance_null(matrix, Findings.of_candidates(matrix), SECTION, LOOSE, shuffles=199)
    assert one.share(0.05) < all_.share(0.05)


def deficit() -> tuple[list[Capability], LabelMatrix]:
    matrix = draw(
        World("w", tasks=80, trials=2, planted=(Planted("a", lack=0.5, cost=0.9), Planted("b"))),
        np.random.default_rng(0),
    ).matrix
    names = [
        Capability(capability_id=name, target="t", name=name.upper(), description="", analyst="x")
        for name in matrix.capabilities
    ]
    return names, matrix


def test_what_shuffles_show_as_often_is_not_kept_and_says_so() -> None:
    _, matrix = deficit()
    rows = contrast_matrix(matrix, SECTION, "t")
    assert [row.capability_id for row in select_matrix(rows, matrix, Selection()) if row.kept] == ["a"]
    kept = select_matrix(rows, matrix, Selection(), null=lambda _: NONE)
    assert [(row.capability_id, row.chance) for row in kept if row.kept] == [("a", 0.001)]
    lucky = select_matrix(rows, matrix, Selection(), null=lambda _: ALL)
    assert not any(row.kept for row in lucky)
    first = next(row for row in lucky if row.capability_id == "a")
    assert first.chance == 1 and first.verdict == "promising"
    assert "with outcomes shuffled something at least as clear is found in 100.0 % of studies" in first.reason
    indifferent = select_matrix(rows, matrix, Selection(max_chance=1), null=lambda _: ALL)
    assert [row.capability_id for row in indifferent if row.kept] == ["a"]


def test_what_is_rarer_than_one_in_a_hundred_shuffles_is_kept_whatever_q_is() -> None:
    _, matrix = deficit()
    rows = [row.model_copy(update={"q_value": 0.2}) for row in contrast_matrix(matrix, SECTION, "t")]
    assert not any(row.kept for row in select_matrix(rows, matrix, Selection()))
    kept = select_matrix(rows, matrix, Selection(), null=lambda _: NONE)
    assert [row.capability_id for row in kept if row.kept] == ["a"]


def test_the_null_is_not_asked_where_nothing_stands_alone() -> None:
    matrix = draw(IDLE, np.random.default_rng(0)).matrix
    rows = contrast_matrix(matrix, SECTION, "t")
    strict = Selection(min_gap=0.99)
    decided = select_matrix(rows, matrix, strict, null=lambda _: pytest.fail("asked"))
    assert all(row.chance is None for row in decided)


# Findings as tables have them.


def finding(codes: np.ndarray, hashed: str, name: str = "f") -> ProposedFinding:
    return ProposedFinding(
        target="t",
        capability_id=name,
        name=name,
        detector="idle_loop",
        picked=False,
        norm=0.5,
        n_lacking=1,
        n_present=1,
        labels="".join(map(str, codes)),
        trajectories_hash=hashed,
    )


def test_findings_are_read_in_the_order_of_the_trajectories() -> None:
    codes = np.array([[LACKING, PRESENT, LACKING]], dtype=np.int8)
    matrix = LabelMatrix(
        ("own",), ("z", "a", "m"), np.arange(3), np.array([True, False, True]), codes, codes.astype(np.int32)
    )
    row = finding(np.array([0, 1, 2]), trajectories_hash(["a", "m", "z"]))
    own = Capability(capability_id="own", target="t", name="own", description="", analyst="model:x")
    found = Findings.of_tables(matrix, [row], [own], Discovery())
    assert found.codes.tolist() == [[2, 0, 1], codes[0].tolist()]  # a model's candidate stands beside it
    assert found.norms.tolist() == [0.5, 0]
    other = finding(np.array([0, 1, 2]), trajectories_hash(["a", "m", "y"]))
    assert Findings.of_tables(matrix, [other], [own], Discovery()).codes.tolist() == codes.tolist()
    by_model = replace(matrix, coders=(("model:x", 1),))
    assert Findings.of_tables(by_model, [row], [own], Discovery()).codes.tolist() == codes.tolist()


# What a person believes in.


def test_an_override_keeps_and_is_never_called_found() -> None:
    labels, triage = study({"good": range(50), "none": [*range(0, 30), *range(100, 130)]})
    rows = contrast(labels, triage, SECTION, "t")
    names = [
        Capability(
            capability_id=row.capability_id,
            target="t",
            name=row.capability_id.upper(),
            description="",
            analyst="x",
        )
        for row in rows
    ]
    for key in ("none", "NONE"):
        section = Selection(overrides={key: "customers complain", "good": "sure of it"})
        decided = {row.capability_id: row for row in select(rows, names, labels, triage, section)}
        assert decided["good"].verdict == "kept" and not decided["good"].overridden_by
        asked = decided["none"]
        assert asked.kept and asked.verdict == "override" and asked.overridden_by == "customers complain"
        assert asked.reason.startswith("kept by override, not found (customers complain): gap ")
        assert asked.rank == 2


def test_an_override_needs_words() -> None:
    with pytest.raises(ValidationError, match="say in a few words why 'x' is kept"):
        Selection(overrides={"x": "because"})


# Policies.


def two_policies(cost: float) -> LabelMatrix:
    """A weak policy that lacks it and fails often, a strong one that does neither."""
    rng = np.random.default_rng(4)
    tasks = np.repeat(np.arange(80), 2)
    weak = np.tile([True, False], 80)
    lacking = rng.random(160) < np.where(weak, 0.6, 0.05)
    failed = rng.random(160) < np.where(weak, 0.6, 0.1) * (1 - cost) + cost * lacking
    codes = np.where(lacking, LACKING, PRESENT).astype(np.int8)[None]
    return LabelMatrix(
        ("c",),
        (),
        tasks,
        failed,
        codes,
        np.full(codes.shape, NO_EVIDENCE, dtype=np.int32),
        policy=np.where(weak, 1, 0),
        policies=("strong", "weak"),
    )


def test_a_weak_policy_beside_a_strong_one_is_no_gap() -> None:
    matrix = two_policies(cost=0)
    pooled = contrast_matrix(replace(matrix, policy=None), SECTION, "t")[0]
    row = contrast_matrix(matrix, SECTION, "t")[0]
    assert pooled.p_value is not None and pooled.p_value < 0.01 and pooled.gap and pooled.gap > 0.2
    assert row.p_value is not None and row.p_value > 0.05
    assert row.policy_gap is not None and row.policy_gap_low is not None and row.policy_gap_low < 0.05
    assert row.policies == ("strong", "weak")
    decided = select_matrix([row], matrix, Selection())[0]
    assert not decided.kept and "within policies the gap" in decided.reason


def test_what_costs_within_policies_is_found() -> None:
    row = contrast_matrix(two_policies(cost=0.8), SECTION, "t")[0]
    assert row.p_value is not None and row.p_value < 0.01 and row.policy_gap_low and row.policy_gap_low > 0.2


def test_shuffles_leave_each_policy_its_failures() -> None:
    matrix = two_policies(cost=0)
    after = shuffled(matrix.tasks, matrix.failed, np.random.default_rng(0), matrix.policy)
    assert matrix.policy is not None and after.tolist() != matrix.failed.tolist()
    for who in (0, 1):
        assert after[matrix.policy == who].sum() == matrix.failed[matrix.policy == who].sum()


def test_with_one_policy_the_stratified_p_is_that_of_the_gap() -> None:
    rng = np.random.default_rng(1)
    tasks, lacking = np.repeat(np.arange(20), 3), rng.random(60) < 0.4
    failed = rng.random(60) < 0.3 + 0.3 * lacking
    masks = lacking & failed, failed, lacking & ~failed, ~failed
    counts = [np.bincount(tasks[mask], minlength=20) for mask in masks]
    exact = gap_p_value(*counts, 1000, rng)
    sampled = stratified_p_value(lacking, failed, tasks, np.zeros(60, dtype=np.int64), 20_000, rng)
    assert exact is not None and sampled == pytest.approx(exact, abs=0.015)


def test_the_gap_within_policies_alone_is_that_of_the_estimate() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        lacking, failed = rng.random((2, 30)) < 0.4
        tasks, policy = rng.integers(0, 8, 30), rng.integers(0, 3, 30)
        counts = np.zeros((8, 3, 4), dtype=np.int64)
        for place, mask in enumerate((lacking & failed, failed, lacking & ~failed, ~failed)):
            np.add.at(counts[:, :, place], (tasks[mask], policy[mask]), 1)
        assert common_gap(lacking, failed, policy) == stratified_gap(counts, resamples=2).value


@pytest.mark.parametrize("taken", [0, 1, 9])
def test_a_draw_of_the_only_kind_left_uses_up_no_random_number(taken: int) -> None:
    rng, left = np.random.default_rng(1), np.array([9, 10, 40])
    before = rng.bit_generator.state
    drawn = rng.hypergeometric(left, np.zeros(3, dtype=np.int64), np.full(3, taken))
    assert drawn.tolist() == [taken] * 3 and rng.bit_generator.state == before


def test_a_gap_within_policies_is_nothing_without_both_sides() -> None:
    only_failures = np.array([[[1, 2, 0, 0]], [[2, 2, 0, 0]]])
    assert stratified_gap(only_failures).value is None
    one_task = stratified_gap(np.array([[[1, 1, 0, 1]]]))
    assert one_task.value == 1 and one_task.low is None


def test_a_policy_is_named_by_its_beginning_and_a_typo_gets_a_suggestion() -> None:
    known = ["gpt-4.1", "gpt-4.1-mini", "qwen2.5:7b"]
    assert chosen_policy("qwen", known) == "qwen2.5:7b" and chosen_policy("gpt-4.1", known) == "gpt-4.1"
    with pytest.raises(InputError, match=r"several policies begin with 'gpt': gpt-4\.1, gpt-4\.1-mini"):
        chosen_policy("gpt", known)
    with pytest.raises(InputError, match=r"no policy is called 'qwem2\.5:7b'; did you mean 'qwen2\.5:7b'"):
        chosen_policy("qwem2.5:7b", known)


def test_null_share_counts_the_study_itself() -> None:
    assert NONE.share(0.5) == 0.001 and ALL.share(0.5) == 1
