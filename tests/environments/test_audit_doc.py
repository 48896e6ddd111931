"""docs/audit.md says what the code does: every check, every threshold, the version, and what runs."""

import hashlib
import re
from pathlib import Path

import pytest

from tests.audit_fixtures.broken import ANIMALS
from tests.audit_fixtures.broken_environment import sound_names
from trace_assets.environments.audit.adversarial import ATTACKERS
from trace_assets.environments.audit.battery import CHECKS
from trace_assets.environments.audit.mutation import MUTATIONS
from trace_assets.environments.audit.severity import RULES, Rules, load_rules

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"

RFC_008 = {
    "runtime.startup",
    "runtime.observation_schema",
    "runtime.reward_well_formed",
    "runtime.seed_control",
    "runtime.episode_determinism",
    "runtime.episode_isolation",
    "runtime.tool_declaration_accuracy",
    "semantic.verifier_determinism",
    "semantic.oracle_max",
    "semantic.floor_gap",
    "semantic.no_solution_leakage",
}
"""Ids that are the RFC's, as its table of checks has them."""

JUDGED_AS = {
    "2": "146ac9fb3868d8ee",
    "3": "dc3c51ec2e5c673c",
    "4": "0d306250b43fe866",
    "5": "1634408d77004b8f",
    "6": "e0f13dbce8d358b2",
    "7": "615313a3cc121dce",
    "8": "563a96f9c0cb4771",
    "9": "f4df775f780dac2b",
}
"""Version of the severity policy to the hash of what it says."""


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_every_check_operator_and_threshold_stands_in_the_page(page: str) -> None:
    for check in CHECKS:
        assert f"`{check.check_id}`" in page, check.check_id
    for mutation in MUTATIONS:
        assert f"`{mutation.name}`" in page
    table = page[page.index("<!-- thresholds: begin -->") : page.index("<!-- thresholds: end -->")]
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| (.+) \|$", table, re.MULTILINE)
    fields = {n: f for n, f in Rules.model_fields.items() if n not in ("version", "severities")}
    assert rows == [(n, f"{f.default:g}", str(f.description).rstrip(".")) for n, f in fields.items()]


def test_the_page_names_no_check_that_there_is_not(page: str) -> None:
    known = {check.check_id for check in CHECKS}
    elsewhere = {
        "runtime.network_policy",
        "runtime.host_containment",
        "runtime.resource_bounds",
        "semantic.replayability",
    }
    named = set(re.findall(r"`((?:trace|runtime|semantic)\.[a-z_.]+)`", page))
    assert named - elsewhere == known


def test_foreign_ids_are_the_rfcs() -> None:
    assert {check.check_id for check in CHECKS if not check.check_id.startswith("trace.")} == RFC_008


def test_counts_in_words_are_right(page: str) -> None:
    assert "Twenty scripted agents" in page and len(ATTACKERS) + 1 == 20
    assert "twelve sound environments" in page and len(sound_names()) == 12
    assert "more than a hundred broken ones" in page and len(ANIMALS) > 100
    assert f"by {len(CHECKS)} named checks" in PAGE.with_name("guide.md").read_text(encoding="utf-8")


def test_the_example_policy_loads(page: str, tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.+?)```", page, re.DOTALL)
    assert found is not None
    path = tmp_path / "mine.toml"
    path.write_text(found[1])
    rules = load_rules(path)
    assert (rules.max_floor, rules.severities["trace.latency"]) == (0.05, "error")
    assert f"Version {RULES.version}." in page and rules.version.startswith(f"{RULES.version}+")


def test_the_policy_is_not_changed_without_a_new_version() -> None:
    said = hashlib.sha256(RULES.model_dump_json().encode()).hexdigest()[:16]
    words = f"the severity policy says something else: give it a new version, and {said} to that in JUDGED_AS"
    assert JUDGED_AS.get(RULES.version) == said, words
