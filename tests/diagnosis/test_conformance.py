"""The conformance kit: detectors pass it, and each broken analyst fails exactly the check that is meant."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.quick import one_of_each
from trace_assets.diagnosis import conformance
from trace_assets.diagnosis.conformance import CHECKS, check_analyst, examine_analyst, load_analyst
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.llm.analyst import rehearse
from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import Capability, Label, Trajectory
from trace_assets.settings import Discovery

Trajectories = Sequence[Trajectory]
Capabilities = Sequence[Capability]


@pytest.fixture(scope="module")
def trajectories() -> list[Trajectory]:
    return rehearse(24).trajectories


class Sound(DetectorAnalyst):
    def __init__(self) -> None:
        super().__init__(Discovery(min_support=1, max_candidates=4))


def make() -> Sound:
    return Sound()


class Versionless(Sound):
    version = ""  # type: ignore[assignment]


class Slashed(Sound):
    def discover(self, trajectories: Trajectories) -> list[Capability]:
        return [
            one.model_copy(update={"capability_id": f"a/{one.capability_id[:40]}"})
            for one in super().discover(trajectories)
        ]


class Foreign(Sound):
    def discover(self, trajectories: Trajectories) -> list[Capability]:
        return [
            one.model_copy(update={"proposed_by": ("never-seen",)}) for one in super().discover(trajectories)
        ]


class Silent(Sound):
    def discover(self, trajectories: Trajectories) -> list[Capability]:
        return []


class Wandering(Sound):
    calls = 0

    def discover(self, trajectories: Trajectories) -> list[Capability]:
        self.calls += 1
        return [
            one.model_copy(update={"capability_id": f"{one.capability_id[:60]}-{self.calls}"})
            for one in super().discover(trajectories)
        ]


class Forgetful(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        return super().label(trajectories, capabilities)[1:]


class Doubling(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        labels = super().label(trajectories, capabilities)
        return labels + labels[:1]


class Inventive(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        labels = super().label(trajectories, capabilities)
        return [one.model_copy(update={"evidence": (999,)}) for one in labels]


class Restless(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        labels = super().label(trajectories, capabilities)
        return [one.model_copy(update={"rationale": f"{random.random()}"}) for one in labels]


class Peeking(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        seen = {one.trajectory_id: one.success for one in trajectories}
        return [
            one if seen[one.trajectory_id] is None else one.model_copy(update={"label": "NA", "evidence": ()})
            for one in super().label(trajectories, capabilities)
        ]


class Reproachful(Sound):
    """Looks at nothing but the recorded stop."""

    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        stopped = {one.trajectory_id for one in trajectories if one.stop == "agent_error"}
        return [
            one.model_copy(update={"label": "LACKING", "rationale": "x"})
            if one.trajectory_id in stopped
            else one
            for one in super().label(trajectories, capabilities)
        ]


class Orderly(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        first = trajectories[0].trajectory_id if trajectories else ""
        return [
            one.model_copy(update={"rationale": "first"}) if one.trajectory_id == first else one
            for one in super().label(trajectories, capabilities)
        ]


class Hashless(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        return [
            one.model_copy(update={"input_hash": ""}) for one in super().label(trajectories, capabilities)
        ]


class Shortsighted(Sound):
    """Its hash does not see the transcript, so that stored labels would outlive an edit."""

    def input_hashes(self, trajectory: Trajectory, capabilities: Capabilities) -> list[str]:
        return [f"{trajectory.trajectory_id}{one.capability_id}" for one in capabilities]


class Skipping(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        known = [one for one in capabilities if one.analyst == self.name]
        return super().label(trajectories, known)


class Fragile(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        if any(one.analyst != self.name for one in capabilities):
            raise KeyError("foreign")
        return super().label(trajectories, capabilities)


class Generous(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        labels = super().label(trajectories, capabilities)
        blank = Label(trajectory_id="t", capability_id="c", labeller=self.name, label="NA", input_hash="x")
        return labels or [blank]


class Scribbling(Sound):
    def label(self, trajectories: Trajectories, capabilities: Capabilities) -> list[Label]:
        labels = super().label(trajectories, capabilities)
        for one in capabilities:
            one.detector_args["seen"] = True
        return labels


@pytest.mark.parametrize(
    ("broken", "check"),
    one_of_each(
        [
            (Versionless, "protocol"),
            (Slashed, "capabilities"),
            (Foreign, "capabilities"),
            (Silent, "capabilities"),
            (Wandering, "ids_stable"),
            (Forgetful, "complete"),
            (Doubling, "complete"),
            (Inventive, "evidence"),
            (Restless, "repeatable"),
            (Peeking, "blind"),
            (Reproachful, "blind"),
            (Orderly, "order_free"),
            (Hashless, "hashes"),
            (Shortsighted, "hashes"),
            (Skipping, "unknown_capability"),
            (Fragile, "unknown_capability"),
            (Generous, "nothing_asked"),
            (Scribbling, "untouched"),
        ],
        lambda case: case[1],
    ),
)
def test_a_broken_analyst_fails_exactly_the_check_that_is_meant(
    trajectories: list[Trajectory], broken: type[Sound], check: str
) -> None:
    findings = examine_analyst(broken(), trajectories)
    assert [one.check for one in findings if one.passed is False] == [check]
    assert next(one.detail for one in findings if one.check == check)


def test_a_sound_analyst_passes_everything(
    trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = examine_analyst(make(), trajectories)
    assert [one.check for one in findings] == list(CHECKS)
    assert all(one.passed and one.promise for one in findings), findings
    monkeypatch.setattr(conformance, "examine_analyst", lambda *_: findings)
    assert check_analyst(make(), trajectories) == make().discover(trajectories)


def test_checking_fails_with_the_promise_that_is_broken(trajectories: list[Trajectory]) -> None:
    with pytest.raises(CheckFailed, match="protocol"):
        check_analyst(Versionless(), trajectories)


def test_every_check_is_failed_by_some_broken_analyst() -> None:
    mark = test_a_broken_analyst_fails_exactly_the_check_that_is_meant.pytestmark[0]  # type: ignore[attr-defined]
    assert {one.values[1] for one in mark.args[1]} == set(CHECKS)


def test_an_analyst_that_cannot_discover_is_said_to_and_the_rest_is_not_run(
    trajectories: list[Trajectory],
) -> None:
    class Failing(Sound):
        def discover(self, trajectories: Trajectories) -> list[Capability]:
            raise ZeroDivisionError("no")

    findings = {one.check: one for one in examine_analyst(Failing(), trajectories)}
    assert findings["capabilities"].passed is False
    assert "ZeroDivisionError" in findings["capabilities"].detail
    assert findings["blind"].passed is None
    assert findings["complete"].passed is None


def test_one_sided_trajectories_show_nothing(trajectories: list[Trajectory]) -> None:
    with pytest.raises(InputError, match="successes and failures"):
        examine_analyst(make(), [one for one in trajectories if one.success])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere", "module:factory"),
        ("no_such_module:make", "No module"),
        ("json:nothing", "nothing"),
        ("json:loads", "missing"),
    ],
)
def test_a_wrong_name_is_said_in_one_sentence(spec: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_analyst(spec)


@pytest.mark.ci
def test_third_parties_run_it_on_their_own(tmp_path: Path, trace_command: list[str]) -> None:
    (tmp_path / "theirs.py").write_text(
        "from trace_assets.diagnosis.detector_analyst import DetectorAnalyst\n"
        "from trace_assets.settings import Discovery\n"
        "def make():\n    return DetectorAnalyst(Discovery(min_support=2))\n"
        "class Hasty(DetectorAnalyst):\n"
        "    def label(self, trajectories, capabilities):\n"
        "        return super().label(trajectories, capabilities)[1:]\n"
        "def hasty():\n    return Hasty(Discovery(min_support=2))\n",
        encoding="utf-8",
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*trace_command, "analyst", "check", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)

    good, bad = run("theirs:make"), run("theirs:hasty")
    assert (good.returncode, bad.returncode) == (0, 1), good.stderr + bad.stderr
    assert "FAIL" not in good.stdout
    assert "FAIL complete" in bad.stdout
    unnamed = run("theirs")
    assert unnamed.returncode == 2
    assert "module:factory" in unnamed.stderr
