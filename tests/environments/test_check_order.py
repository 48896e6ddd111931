from trace_assets.environments.audit.battery import CHECKS
from trace_assets.environments.audit.severity import SEVERITIES


def test_policy_weighs_every_check_and_no_other() -> None:
    assert set(SEVERITIES) == {check.check_id for check in CHECKS}


def test_what_a_check_needs_comes_before_it() -> None:
    seen: set[str] = set()
    for check in CHECKS:
        assert set(check.needs) <= seen
        seen.add(check.check_id)
