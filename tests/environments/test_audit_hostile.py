"""Modules that are made to break the audit itself: it ends, on time, with a finding."""

import time

import pytest

from tests.audit_fixtures.broken_environment import sound_source
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, ZOO_SECTION, ZOO_SIZES, failed, record
from tests.quick import one_of_each
from trace_assets.environments.audit import semantic
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.audit.semantic import Observation
from trace_assets.records import EnvironmentCheck
from trace_assets.sandbox import SandboxPool

DOOR = sound_source("door")
LONG = "x" * 300_000
DECLARED, UNSOLVED = "runtime.tool_declaration_accuracy", "semantic.oracle_max"


def audited(pool: SandboxPool, source: str, **rules: float) -> list[EnvironmentCheck]:
    own = ZOO_RULES.model_copy(update=rules)
    return audit(
        record(source, "door"),
        pool,
        None,
        ZOO_SECTION,
        rules=own,
        sizes=ZOO_SIZES,
        permutation=ZOO_PERMUTATION,
    )


@pytest.mark.parametrize("seconds", [1e-6, 0.1, 0.2])
def test_one_that_dawdles_is_given_up(seconds: float, pool: SandboxPool) -> None:
    checks = audited(pool, DOOR, max_seconds_audit=seconds)
    late = [check for check in checks if check.evidence == "the time for this environment was up"]
    cut = [
        words for words in failed(checks).values() if f"audit waiting for more than {seconds:g} s" in words
    ]
    assert len(cut) == len(failed(checks)) <= 1  # none where the time was up between two checks
    assert cut or late
    assert not verdict_of(checks)[0]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    one_of_each(
        [
            (
                '"arguments": {"door": door}}',
                f'"arguments": {{"door": "{LONG}{LONG}{LONG}{LONG}"}}}}',
                {"trace.size"},
            ),
            (
                '"arguments": {"door": door}}',
                '"arguments": {"door": {"a": [None, {}]}}}',
                {DECLARED, UNSOLVED},
            ),
            ('"arguments": {"door": door}}', '"arguments": {}}', {DECLARED, UNSOLVED}),
            ('"content": "Done."', f'"content": "{LONG}"', {"trace.size"}),
            ("here, {rng", f"{LONG} {{rng", {"trace.size"}),
            (
                '"properties": {"door": {"type": "string"}}',
                '"properties": {"door": True, "odd": False}',
                set(),
            ),
            (
                '"properties": {"door": {"type": "string"}}',
                '"properties": {"door": {"enum": [None, [], 7]}}',
                {DECLARED},
            ),
            ('"required": ["door"]', '"required": ["door", "nothing"]', {DECLARED}),
            ("return [*(", "return [] and [*(", {DECLARED, "trace.oracle_ends"}),
        ],
        lambda case: len(case[2]),
    ),
)
def test_nothing_that_a_module_returns_breaks_the_audit(
    old: str, new: str, found: set[str], pool: SandboxPool
) -> None:
    assert DOOR.count(old) == 1
    checks = audited(pool, DOOR.replace(old, new))
    assert found <= failed(checks).keys() and verdict_of(checks)[0] is (not found)
    assert len(checks) == len({check.check_id for check in checks})
    assert all(len(check.evidence) < 5_000 for check in checks)


@pytest.mark.parametrize(
    "text", ["answer" * 160_000, "answer_" * 140_000, "answer" + " " * 900_000, "a" * 10**6]
)
def test_a_long_text_is_searched_in_time(text: str) -> None:
    call = {"name": "a", "arguments": {"door": "a" * 1000}}
    start = time.process_time()
    semantic._leak(text[: semantic.MOST_TEXT], Observation(text, "tool", (call,)), [])
    assert time.process_time() - start < 5  # 0.03 on an idle core
