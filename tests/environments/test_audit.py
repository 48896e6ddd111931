"""What the audit as a whole promises: the verdict, skips with reasons, one version for equal audits."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit_fixtures.broken_environment import sound_source
from tests.audit_fixtures.runner import (
    ZOO_PERMUTATION,
    ZOO_RULES,
    ZOO_SECTION,
    ZOO_SIZES,
    Keeper,
    failed,
    record,
)
from tests.environments.judge.scripted import subject_of
from trace_assets.environments.audit.battery import CHECKS, _run, audit, verdict_of
from trace_assets.environments.audit.check import Finding
from trace_assets.environments.audit.severity import RULES, load_rules
from trace_assets.environments.contract.description import TargetContract
from trace_assets.errors import InputError, Unavailable
from trace_assets.records import CapabilitySpec, EnvironmentCheck
from trace_assets.records.table import to_frame
from trace_assets.sandbox import SandboxConfig, SandboxPool, SandboxUnavailable, open_pool
from trace_assets.store.content import frame_version

DOOR = sound_source("door")


@pytest.fixture(scope="module")
def keeper(pool: SandboxPool) -> Keeper:
    return Keeper(pool)


@pytest.fixture(scope="module")
def doors(keeper: Keeper) -> TargetContract:
    return keeper.contract("door")


@pytest.fixture(scope="module")
def findings(pool: SandboxPool, doors: TargetContract) -> list[EnvironmentCheck]:
    return audit_door(pool, doors)


def audit_door(pool: SandboxPool, contract: TargetContract | None, **named: object) -> list[EnvironmentCheck]:
    options = {"rules": ZOO_RULES, "sizes": ZOO_SIZES, "permutation": ZOO_PERMUTATION, **named}
    return audit(record(DOOR, "door"), pool, contract, ZOO_SECTION, **options)  # type: ignore[arg-type]


def test_every_check_gives_one_finding_that_names_its_policy(
    findings: list[EnvironmentCheck], pool: SandboxPool
) -> None:
    assert [check.check_id for check in findings] == [check.check_id for check in CHECKS]
    assert verdict_of(findings) == (True, ())
    for check in findings:
        assert (check.isolation_level, check.sandbox_version) == ("none", pool.version)
        assert check.policy_version == RULES.version
        assert check.evidence


def test_every_check_is_weighed_says_what_it_demands_and_comes_after_what_it_needs() -> None:
    assert [check.check_id for check in CHECKS] == list(dict.fromkeys(check.check_id for check in CHECKS))
    assert {check.check_id for check in CHECKS} == set(RULES.severities)
    seen: set[str] = set()
    for check in CHECKS:
        assert check.demand.endswith("."), check.check_id
        assert set(check.needs + check.after) <= seen, check.check_id
        seen.add(check.check_id)


def test_without_a_policy_and_a_contract_checks_are_skips_that_say_so(pool: SandboxPool) -> None:
    checks = {c.check_id: c for c in audit_door(pool, None, no_policy="the target is not live")}
    assert checks["trace.fidelity.schema"].status == "skip"
    assert "no target contract" in checks["trace.fidelity.schema"].evidence
    assert checks["trace.pass_band"].status == "skip"
    assert verdict_of(list(checks.values()))[0]


def test_recipes_fail_nothing(
    pool: SandboxPool, contract: TargetContract, capability: CapabilitySpec, sources: dict[str, str]
) -> None:
    assert capability.detector is not None
    environment = record(sources[capability.detector], "recipe")
    checks = audit(
        environment,
        pool,
        contract,
        ZOO_SECTION,
        rules=ZOO_RULES,
        sizes=ZOO_SIZES,
        permutation=ZOO_PERMUTATION,
    )
    assert failed(checks) == {}
    assert verdict_of(checks) == (True, ())


@pytest.fixture
def hasty() -> Iterator[SandboxPool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=3.0))
    with opened:
        yield opened


def test_a_hang_fails_and_does_not_hang(hasty: SandboxPool, doors: TargetContract) -> None:
    source = DOOR.replace("    results = []\n", "    while True:\n        pass\n")
    checks = audit(
        record(source, "door"), hasty, doors, ZOO_SECTION, sizes=ZOO_SIZES, permutation=ZOO_PERMUTATION
    )
    assert set(failed(checks)) == {"runtime.observation_schema"}
    assert failed(checks)["runtime.observation_schema"].startswith("timeout")


@pytest.mark.ci
def test_two_audits_of_one_environment_have_one_version(
    findings: list[EnvironmentCheck], pool: SandboxPool, doors: TargetContract
) -> None:
    both = (findings, audit_door(pool, doors))
    clocks = [[check.timing for check in checks if check.timing] for checks in both]
    assert clocks[0] != clocks[1] and "ms" in clocks[0][0]
    assert len({frame_version(to_frame(checks, EnvironmentCheck), EnvironmentCheck) for checks in both}) == 1


def test_nothing_audited_is_not_accepted(findings: list[EnvironmentCheck]) -> None:
    assert verdict_of([]) == (False, ("it was not audited",))
    without = [check for check in findings if check.check_id != "semantic.oracle_max"]
    assert verdict_of(without) == (False, ("semantic.oracle_max was not checked",))


def test_no_sandbox_is_not_the_environments_fault(
    doors: TargetContract, pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SandboxUnavailable("all sandboxes are busy")

    monkeypatch.setattr(pool, "lease", refuse)
    with pytest.raises(Unavailable, match="busy"):
        audit_door(pool, doors)


def test_a_policy_of_ones_own_weighs_and_bounds_and_is_named(
    tmp_path: Path, pool: SandboxPool, doors: TargetContract
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('max_same_kind = 0.3\n[severities]\n"trace.balance" = "warning"\n')
    rules = load_rules(path)
    assert rules.version.startswith(f"{RULES.version}+") and rules.min_kill_rate == RULES.min_kill_rate
    checks = audit_door(pool, doors, rules=rules.model_copy(update={"max_seconds_reset": 30.0}))
    assert set(failed(checks)) == {"trace.balance"}
    assert verdict_of(checks) == (True, ())
    assert {check.policy_version for check in checks} == {rules.version}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_flor = 0.3", "max_flor"),
        ("max_floor = 2", "max_floor"),
        ('[severities]\n"trace.no_such" = "error"', "trace.no_such"),
        ('[severities]\n"trace.balance" = "grave"', "trace.balance"),
        ("severities = 3", "severities"),
        ("= 3", "TOML"),
    ],
)
def test_an_unusable_policy_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        load_rules(path)


def test_the_base_policy_is_opened_once_and_only_where_nothing_else_rejects() -> None:
    opened: list[str] = []

    def late() -> None:
        opened.append("opened")

    subject = subject_of("bank_fee_refund")
    subject.late_policy = late
    passed = {check.check_id: Finding("pass") for check in CHECKS}
    statistical = [check for check in CHECKS if check.level == "statistical"]
    assert len(statistical) == 3
    for check in statistical:
        found = _run(check, subject, {**passed, "trace.told.results": Finding("fail")})
        assert found.status == "skip" and "was not rolled out: trace.told.results failed" in found.evidence
    assert not opened
    for check in statistical:
        found = _run(check, subject, {**passed, "trace.latency": Finding("fail")})  # which is a warning
        assert found.status == "skip" and "no base policy" in found.evidence
    assert opened == ["opened"]
