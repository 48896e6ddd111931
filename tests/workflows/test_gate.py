"""What is trained and what is refused: verdicts, overrides with their reasons, pilots, and the curriculum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trace_assets.assets.adapter import train_capability
from trace_assets.assets.environment_audit import (
    audit_environment,
    read_verdict,
    taught,
    write_curriculum,
    write_verdict,
)
from trace_assets.assets.pilot import write_pilot
from trace_assets.errors import InputError
from trace_assets.records import (
    Adapter,
    BaseCheckpoint,
    Capability,
    CapabilitySpec,
    Environment,
    EnvironmentCheck,
    EnvironmentVerdict,
    Pilot,
    SeedOutcome,
    SelectedCapability,
    UnconfirmedReward,
)
from trace_assets.report.data import shown_names
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study

GOOD, BAD = "embedded-good", "embedded-bad"
NAMES = {GOOD: "Look first", BAD: "Refuse late"}
REASON = "the floor is high because the desk answers by itself"


def study_at(folder: Path, *settings: str) -> Study:
    return Study(Home.open(folder), load_settings(None, list(settings)))


def capability(capability_id: str) -> Capability:
    return Capability(
        capability_id=capability_id,
        target="embedded",
        name=NAMES[capability_id],
        description="A capability.",
        analyst="test",
    )


def finding(capability_id: str, check_id: str, status: Any) -> EnvironmentCheck:
    return EnvironmentCheck(
        environment_id=f"env-{capability_id}",
        capability_id=capability_id,
        check_id=check_id,
        level="semantic",
        status=status,
        severity="error",
        evidence="seen",
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two kept capabilities of the live target; the audit rejected the environment of one."""
    store = study_at(tmp_path).store
    store.write([capability(one) for one in NAMES], Capability)
    rows = []
    for name in NAMES:
        spec = CapabilitySpec(**capability(name).part(CapabilitySpec))
        store.write([spec], CapabilitySpec, name)
        environment = Environment(
            environment_id=f"env-{name}", capability_id=name, target="embedded", writer="w", source="x = 1"
        )
        store.write([environment], Environment, name)
        status = "pass" if name == GOOD else "fail"
        checks = [finding(name, "semantic.oracle_max", "pass"), finding(name, "semantic.floor_gap", status)]
        store.write(checks, EnvironmentCheck, name)
        rows.append(_kept(name))
    store.write(rows, SelectedCapability)
    base = BaseCheckpoint(
        base_id="b", path="b", parameters=1, steps=1, pass_rate=None, pass_rate_low=None,
        pass_rate_high=None, n=0,
    )  # fmt: skip
    store.write([base], BaseCheckpoint)
    return tmp_path


def _kept(name: str) -> SelectedCapability:
    given: dict[str, Any] = {"capability_id": name, "target": "embedded", "name": NAMES[name], "kept": True}
    for field, info in SelectedCapability.model_fields.items():
        if field not in given and info.is_required():
            given[field] = {"reason": "kept", "rank": 1}.get(field)
    return SelectedCapability.model_validate(given)


def decide(study: Study) -> None:
    for name in NAMES:
        write_verdict(study, name)


def override(name: str, reason: str = REASON) -> str:
    return f'training.accept_rejected={{"{name}" = "{reason}"}}'


def test_a_rejected_environment_trains_nothing(home: Path) -> None:
    study = study_at(home)
    decide(study)
    verdict = read_verdict(study, BAD)
    assert (verdict.accepted, verdict.trained_on, verdict.overridden_by) == (False, False, "")
    result = train_capability(study, BAD)
    assert result.figures == {"refused": True} and result.rows == 0
    assert "semantic.floor_gap" in result.checks[0].detail
    assert study.store.read(Adapter, BAD) == []
    write_curriculum(study)
    assert taught(study) == {GOOD}


def test_a_reward_that_was_not_confirmed_rejects_this_text_of_the_environment_for_good(home: Path) -> None:
    study = study_at(home)
    row = UnconfirmedReward(
        environment_id=f"env-{GOOD}",
        capability_id=GOOD,
        isolation_level="docker",
        detail="it gives reward 0",
    )
    study.store.write([row], UnconfirmedReward, row.environment_id)
    decide(study)
    verdict = read_verdict(study, GOOD)
    assert not verdict.trained_on
    assert verdict.reasons[0] == "rewards_recomputed: it gives reward 0"
    assert train_capability(study, GOOD).figures == {"refused": True}
    written = study.store.read(Environment, GOOD)[0]
    study.store.write([written.model_copy(update={"environment_id": "env-another"})], Environment, GOOD)
    decide(study)
    assert read_verdict(study, GOOD).accepted


@pytest.mark.parametrize("name", [BAD, NAMES[BAD]])
def test_an_override_is_recorded_beside_the_reasons(home: Path, name: str) -> None:
    study = study_at(home, override(name))
    decide(study)
    verdict = read_verdict(study, BAD)
    assert not verdict.accepted and verdict.trained_on
    assert verdict.overridden_by == REASON
    assert verdict.reasons and verdict.reasons[0].startswith("semantic.floor_gap")
    assert read_verdict(study, GOOD).overridden_by == ""
    check = write_verdict(study, BAD).checks[0]
    assert (check.name, check.passed, check.severity) == ("no_override", False, "warning")
    assert REASON in check.detail and "semantic.floor_gap" in check.detail
    write_curriculum(study)
    assert taught(study) == {GOOD, BAD}


def test_an_override_of_an_accepted_environment_leaves_no_mark(home: Path) -> None:
    study = study_at(home, override(GOOD))
    decide(study)
    verdict = read_verdict(study, GOOD)
    assert verdict.accepted and verdict.overridden_by == ""


def test_what_was_not_written_or_audited_cannot_be_overridden(home: Path) -> None:
    study = study_at(home, override(BAD))
    study.store.write([], EnvironmentCheck, BAD)
    decide(study)
    assert not read_verdict(study, BAD).trained_on


def test_an_override_names_a_capability_and_gives_a_reason(home: Path) -> None:
    with pytest.raises(InputError, match="'embedded-nobody', which is neither the id nor the name"):
        decide(study_at(home, override("embedded-nobody")))
    with pytest.raises(InputError, match="say in a few words why"):
        study_at(home, override(BAD, "yes"))


def test_an_override_changes_no_adapter_that_is_there(home: Path) -> None:
    plain, overridden = study_at(home).settings.training, study_at(home, override(BAD)).settings.training
    assert plain.fingerprint() != overridden.fingerprint()
    assert (
        plain.recipe_version()
        == overridden.recipe_version()
        == plain.model_copy(update={"warm_start": "never"}).fingerprint()
    )


def pilot(goes_on: bool) -> Pilot:
    return Pilot(
        capability_id=GOOD,
        environment_id=f"env-{GOOD}",
        outcome="transfers" if goes_on else "stopped",
        goes_on=goes_on,
        reason="the reward rises and the target's pass rate falls",
    )


def test_what_its_pilot_stopped_is_neither_trained_nor_taught(home: Path) -> None:
    study = study_at(home)
    decide(study)
    study.store.write([pilot(False)], Pilot, GOOD)
    result = train_capability(study, GOOD)
    assert result.figures == {"refused": True}
    assert "its pilot stopped it (the reward rises" in result.checks[0].detail
    write_curriculum(study)
    assert taught(study) == set()


def test_other_figures_of_a_pilot_train_nothing_anew(home: Path) -> None:
    study = study_at(home)
    first = study.store.write([pilot(True)], Pilot, GOOD)
    other = pilot(True).model_copy(update={"outcome": "undecided", "reason": "else", "target_gain": 0.1})
    assert study.store.write([other], Pilot, GOOD) == first
    assert study.store.write([pilot(False)], Pilot, GOOD) != first


@pytest.mark.parametrize(
    ("name", "settings", "words", "goes_on"),
    [
        (BAD, [], "rejected", False),
        (GOOD, ["training.pilot=off"], "training.pilot is off", True),
    ],
)
def test_where_no_pilot_is_made(
    home: Path, name: str, settings: list[str], words: str, goes_on: bool
) -> None:
    study = study_at(home, *settings)
    decide(study)
    result = write_pilot(study, name)
    row = study.store.read(Pilot, name)[0]
    assert (row.outcome, row.goes_on) == ("not made", goes_on)
    assert words in row.reason
    assert result.checks[0].passed is None


def test_the_mark_goes_with_the_name_of_the_adapter(home: Path) -> None:
    capabilities = study_at(home).store.read(Capability)
    adapter = Adapter(
        adapter_id="a", name=BAD, kind="capability", capability_id=BAD, environment_id="e", base_id="b",
        path="p", iterations=1, best_iteration=1, rollouts=8, validation_before=0.1,
        validation_before_low=0.0, validation_before_high=0.2, validation_after=0.9,
        validation_after_low=0.8, validation_after_high=1.0, validation_n=64,
    )  # fmt: skip
    assert shown_names(capabilities, [adapter]) == NAMES
    marked = shown_names(capabilities, [adapter.model_copy(update={"rejected": "why"})])
    assert marked == {GOOD: "Look first", BAD: "Refuse late (trained on a rejected environment)"}


def test_what_a_pilot_measured_is_kept_in_a_file(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    from trace_assets.assets import pilot as stage
    from trace_assets.training.pilot import Piloted

    measured = Piloted(
        rewards=np.array([[0.1, 0.2], [0.3, 0.4]]),
        successes=np.array([[0.0, 0.0], [1.0, 0.0]]),
        target=np.zeros((2, 0)),
        trials=0,
        rollouts=(0, 8),
        tasks_are="needed",
        seconds=1.5,
    )
    file = tmp_path / "pilots" / "c-1.json"
    stage._write(file, measured)
    again = stage._read(file)
    assert again is not None
    for name in ("rewards", "successes", "target"):
        assert (getattr(again, name) == getattr(measured, name)).all()
        assert getattr(again, name).shape == getattr(measured, name).shape
    assert (again.trials, again.rollouts, again.tasks_are) == (0, (0, 8), "needed")
    file.write_text(file.read_text()[:40])
    assert stage._read(file) is None, "a torn file is no measurement"
    assert [path.name for path in file.parent.iterdir()] == ["c-1.json"]


def test_nothing_is_judged_that_was_never_made(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    for judge in (audit_environment, write_verdict):
        with pytest.raises(InputError, match=rf"environment\[{GOOD}\] was never made.*--select environment"):
            judge(study, GOOD)
    study.store.write([], Environment, GOOD)
    with pytest.raises(InputError, match=rf"environment_audit\[{GOOD}\] was never made"):
        write_verdict(study, GOOD)
    for record in (EnvironmentCheck, SeedOutcome, EnvironmentVerdict):
        assert not study.store.has(record, GOOD), "nothing is written that would pass for a finding"
    # One that no writer could write has no rows, and that is a finding.
    audit_environment(study, GOOD)
    write_verdict(study, GOOD)
    assert read_verdict(study, GOOD).reasons == ("no environment was written",)
