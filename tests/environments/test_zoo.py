"""Every broken environment fails the check meant for it and no other; sound ones fail none."""

import warnings
from collections.abc import Iterable, Iterator

import pytest

from tests.audit_fixtures.broken import ANIMALS
from tests.audit_fixtures.broken_environment import Animal, sound_names
from tests.audit_fixtures.purpose.runner import CAUGHT_BY
from tests.audit_fixtures.runner import ZOO_RULES, Keeper, failed
from tests.audit_fixtures.shortcuts.broken import SEEN_BY
from tests.audit_fixtures.unforeseen.runner import SENTENCES, VALUES
from tests.quick import one_of_each
from trace_assets.environments.audit import battery
from trace_assets.environments.audit.battery import verdict_of
from trace_assets.environments.audit.bypass_checks import SAME
from trace_assets.environments.audit.check import NO_JUDGE, NO_PURPOSE, AuditCheck
from trace_assets.environments.audit.false_looks import NO_LOOK
from trace_assets.environments.audit.needed_looks import ANY_ORDER, NO_DEED
from trace_assets.environments.audit.policy_rule import NO_LIST, NO_RECORD, NO_RULE
from trace_assets.environments.audit.policy_sentences import NO_DECISION, NO_SENTENCE
from trace_assets.environments.audit.severity import RULES
from trace_assets.environments.audit.told import ONE_DECISION
from trace_assets.environments.audit.trials import FREE_ERRORS, NOTHING_BACK, NOTHING_REFUSED, WORDS_BESIDE
from trace_assets.records import EnvironmentCheck
from trace_assets.sandbox import SandboxConfig, SandboxPool, SandboxUnavailable, open_pool

JUDGED = {check.check_id for check in battery.CHECKS if check.level == "judged"}
"""Checks by a model; `judge/` has the environments that fail them."""
NOT_POSSIBLE = {
    *(NO_DECISION, NO_SENTENCE),
    "no tool hands the conversation over",
    "no operator makes a harmful mutant of this oracle",
    SAME,
    NO_PURPOSE,
    ONE_DECISION,
    NO_RECORD,
    NO_RULE,
    NO_LIST,
    NO_JUDGE,
    ANY_ORDER,
    NO_DEED,
    NO_LOOK,
    FREE_ERRORS,
    NOTHING_BACK,
    NOTHING_REFUSED,
    WORDS_BESIDE,
}
"""Reasons for which a sound environment may skip a check."""
VERDICT_NEEDS = ("semantic.oracle_max", "semantic.floor_gap")
"""Without these two an audit says nothing, whatever else it found."""


@pytest.fixture(scope="module")
def keeper(require_docker: bool) -> Iterator[Keeper]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = _quickest_pool(require_docker)
    with pool:
        yield Keeper(pool)


def _quickest_pool(required: bool) -> SandboxPool:
    """Open bubblewrap where it is to be had, for it starts quicker, else Docker."""
    try:
        return open_pool(SandboxConfig(backend="bubblewrap", spares=2))
    except SandboxUnavailable:
        try:
            return open_pool(SandboxConfig(backend="docker", spares=2))
        except SandboxUnavailable as error:
            if required:
                raise
            pytest.skip(f"no sandbox: {error}")


@pytest.mark.parametrize("name", one_of_each(sound_names(), then=1))
def test_sound_environments_fail_nothing(name: str, keeper: Keeper) -> None:
    checks = keeper.audit_sound(name)
    assert failed(checks) == {}
    assert verdict_of(checks) == (True, ())
    skipped = {check.check_id: check.evidence for check in checks if check.status == "skip"}
    assert {why.partition(" (0 of ")[0] for why in skipped.values()} <= NOT_POSSIBLE, skipped


def _animals(animals: Iterable[Animal]) -> list[object]:
    """Return all, the second and later ones of a level to be tried with the slow tests."""
    seen: set[str] = set()
    found: list[object] = []
    for animal in animals:
        marks = [pytest.mark.slow] if _level(animal) in seen else []
        found.append(pytest.param(animal, id=animal.name, marks=marks))
        seen.add(_level(animal))
    return found


def _level(animal: Animal) -> str:
    return animal.check_id.partition(".")[0]


# The last ones of a level get furthest: all other checks look at them.
@pytest.mark.parametrize("animal", _animals(reversed(ANIMALS)))
@pytest.mark.ci
def test_each_fault_fails_its_own_check_and_no_other(animal: Animal, keeper: Keeper) -> None:
    _is_caught(animal, keeper.audit(animal))


# `.ci/run` has all of them under the whole audit.
@pytest.mark.parametrize("animal", _animals(ANIMALS))
def test_each_fault_fails_its_own_check(
    animal: Animal, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(battery, "CHECKS", _leading_to({animal.check_id, *VERDICT_NEEDS}))
    _is_caught(animal, keeper.audit(animal))


def _leading_to(names: set[str]) -> tuple[AuditCheck, ...]:
    """Return these checks and all that they wait for: a tenth of the battery's time."""
    for check in reversed(battery.CHECKS):
        if check.check_id in names:
            names = names | {*check.needs, *check.after}
    return tuple(check for check in battery.CHECKS if check.check_id in names)


def _is_caught(animal: Animal, checks: list[EnvironmentCheck]) -> None:
    assert set(failed(checks)) == {animal.check_id}, failed(checks)
    accepted, reasons = verdict_of(checks)
    if ZOO_RULES.severities[animal.check_id] == "error":
        assert not accepted
        assert animal.check_id in reasons[0]
    else:
        assert (accepted, reasons) == (True, ())


def test_every_check_has_an_animal_that_fails_it() -> None:
    others = {*CAUGHT_BY, VALUES, SENTENCES, *JUDGED}.union(*SEEN_BY.values())
    assert {animal.check_id for animal in ANIMALS} | others == set(RULES.severities)


def test_the_zoo_is_large_and_its_animals_differ() -> None:
    assert len(ANIMALS) >= 30 and len(sound_names()) >= 10
    assert len({animal.name for animal in ANIMALS}) == len(ANIMALS)
    broken = [animal.source() for animal in ANIMALS if animal.edits]
    assert len(set(broken)) == len(broken)


def test_an_edit_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        Animal("x", "trace.parses", "door", (("not there", ""),)).source()
