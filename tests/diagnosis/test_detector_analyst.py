"""The analyst of detectors: on the order desk it must find exactly the mistakes that were planted."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from trace_assets.diagnosis.conformance import check_analyst
from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst, capability_id
from trace_assets.diagnosis.detectors.protocol import Proposal
from trace_assets.diagnosis.llm.analyst import rehearse
from trace_assets.diagnosis.selection import select
from trace_assets.diagnosis.triage import triage
from trace_assets.errors import InputError
from trace_assets.records import Capability, Trajectory
from trace_assets.settings import ContrastSection, Discovery, Selection
from trace_assets.targets.embedded.desk import TOOLS


def play(tasks: int) -> tuple[list[Trajectory], Mapping[str, str]]:
    made = rehearse(tasks)
    return made.trajectories, made.skills


@pytest.fixture(scope="module")
def desk() -> tuple[list[Trajectory], Mapping[str, str]]:
    return play(400)


@pytest.fixture(scope="module")
def small() -> list[Trajectory]:
    return play(60)[0]


PLANTED = {
    "cancel": ("write_without_read", {"tool": "cancel_order", "read": "get_order"}),
    "multi": ("object_untouched", {"argument": "order"}),
    "window": (
        "write_against_state",
        {"tool": "refund_item", "field": "window", "value": "closed", "instead": "transfer"},
    ),
}


@pytest.mark.parametrize(
    "tools", [pytest.param(TOOLS, id="specified"), pytest.param((), id="inferred", marks=pytest.mark.ci)]
)
def test_the_planted_deficits_are_the_first_candidates(
    desk: tuple[list[Trajectory], Mapping[str, str]], tools: Sequence[object]
) -> None:
    trajectories, skills = desk
    analyst = DetectorAnalyst(Discovery(), tools)  # type: ignore[arg-type]
    candidates = analyst.discover(trajectories)
    for skill, (family, args) in PLANTED.items():
        found = next(one for one in candidates[:3] if one.detector == family)
        assert args.items() <= found.detector_args.items()
        labels = analyst.label([one.blind() for one in trajectories], [found])
        lacking = Counter(skills[one.trajectory_id] for one in labels if one.label == "LACKING")
        needed = Counter(skills[one.trajectory_id] for one in labels if one.label != "NA")
        assert lacking[skill] >= 0.95 * lacking.total(), f"{found.name} stands for another deficit: {lacking}"
        assert needed[skill] >= 0.95 * needed.total(), f"{found.name} is called needed elsewhere: {needed}"
        flawed = {
            one.trajectory_id
            for one in trajectories
            if skills[one.trajectory_id] == skill and not one.success
        }
        covered = {one.trajectory_id for one in labels if one.label == "LACKING"}
        assert len(covered & flawed) >= 0.75 * len(flawed), f"{found.name} explains too few of {skill}"


def test_names_read_like_sentences(desk: tuple[list[Trajectory], Mapping[str, str]]) -> None:
    names = [one.name for one in DetectorAnalyst(Discovery(), TOOLS).discover(desk[0])[:3]]
    assert set(names) == {
        "Look up the order before cancelling the order",
        "Deal with every order the user names",
        "Refrain from refunding the item when its window is closed; transfer instead",
    }


def test_eight_hundred_trajectories_take_seconds(
    desk: tuple[list[Trajectory], Mapping[str, str]],
) -> None:
    analyst = DetectorAnalyst(Discovery())
    started = time.process_time()
    candidates = analyst.discover(desk[0])
    analyst.label(desk[0], candidates)
    assert time.process_time() - started < 15  # about 1 on an idle core


def test_it_conforms(small: list[Trajectory]) -> None:
    assert check_analyst(DetectorAnalyst(Discovery(min_support=2)), small)


@pytest.mark.ci
def test_shuffled_outcomes_leave_nothing_to_select() -> None:
    trajectories = play(120)[0]
    rng, analyst, kept = random.Random(3), DetectorAnalyst(Discovery()), 0
    for _ in range(6):
        outcomes = [one.success for one in trajectories]
        rng.shuffle(outcomes)
        mixed = [
            one.model_copy(update={"success": outcome})
            for one, outcome in zip(trajectories, outcomes, strict=True)
        ]
        candidates, rulings = analyst.discover(mixed), triage(mixed)
        labels = analyst.label([one.blind() for one in mixed], candidates)
        section = ContrastSection(resamples=100, permutations=500)
        rows = select(
            contrast(labels, rulings, section, "embedded"), candidates, labels, rulings, Selection()
        )
        kept += sum(row.kept for row in rows)
    # Norms are learned from the outcomes that they are then tested on: one slip in six is within 5 % each.
    assert kept <= 1


def test_discovery_is_deterministic_and_repeats_ids(small: list[Trajectory]) -> None:
    first = DetectorAnalyst(Discovery(min_support=2)).discover(small)
    assert first == DetectorAnalyst(Discovery(min_support=2)).discover(small)
    assert len({one.capability_id for one in first}) == len(first)


def test_the_section_limits_candidates(small: list[Trajectory]) -> None:
    everything = DetectorAnalyst(Discovery(min_support=1)).discover(small)
    assert DetectorAnalyst(Discovery(min_support=1, max_candidates=2)).discover(small) == everything[:2]
    assert DetectorAnalyst(Discovery(min_support=10_000)).discover(small) == []


def test_nothing_is_proposed_without_two_sides(small: list[Trajectory]) -> None:
    analyst = DetectorAnalyst(Discovery(min_support=1))
    assert analyst.discover([]) == []
    assert analyst.discover([one for one in small if one.success]) == []
    assert analyst.discover([one for one in small if not one.success]) == []


def test_samples_are_bounded_and_name_failures(desk: tuple[list[Trajectory], Mapping[str, str]]) -> None:
    failed = {one.trajectory_id for one in desk[0] if not one.success}
    for candidate in DetectorAnalyst(Discovery()).discover(desk[0]):
        assert len(candidate.proposed_by) <= 8
        assert set(candidate.proposed_by) <= failed
        assert candidate.n_proposals >= len(candidate.proposed_by)


def test_the_version_follows_section_and_tools() -> None:
    versions = {
        DetectorAnalyst(Discovery()).version,
        DetectorAnalyst(Discovery(min_support=3)).version,
        DetectorAnalyst(Discovery(), TOOLS).version,
    }
    assert len(versions) == 3
    assert DetectorAnalyst(Discovery()).version in versions


def test_two_targets_or_an_unknown_detector_are_refused(small: list[Trajectory]) -> None:
    analyst = DetectorAnalyst(Discovery())
    other = small[0].model_copy(update={"target": "other"})
    with pytest.raises(InputError, match="embedded, other"):
        analyst.discover([*small, other])
    foreign = Capability(
        capability_id="c", target="embedded", name="n", description="d", analyst="m", detector="x"
    )
    with pytest.raises(InputError, match="'x'"):
        analyst.label(small, [foreign])


def test_ids_are_slugs_and_tell_close_instances_apart() -> None:
    one, two = (Proposal({}, "n", "d", ("tool", f"{'a long, long value/' * 9}{end}")) for end in "xy")
    ids = [capability_id("tau2:air", "family", proposal) for proposal in (one, two)]
    assert ids[0] != ids[1]
    assert all(len(one) <= 80 and set(one) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for one in ids)
