
import pytest

from trace_assets.records import Environment
from trace_assets.sandbox import SandboxConfig, SandboxUnavailable, open_pool
from trace_assets.settings import Synthesis
from trace_assets.synthesis.audit.battery import audit, verdict_of
from trace_assets.synthesis.contract.target_contract import TargetContract

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def docker(require_docker: bool):
    try:
        opened = open_pool(SandboxConfig(backend="docker"))
    except SandboxUnavailable as error:
        if require_docker:
            raise
        pytest.skip(f"no Docker: {error}")
    with opened:
        yield opened


def test_recipes_are_accepted_in_containers(docker, contract: TargetContract, capability, sources) -> None:
    environment = Environment(
        environment_id="e",
        capability_id=capability.capability_id,
        target="embedded",
        writer="recipe",
        source=sources[capability.detector],
    )
    checks = audit(environment, docker, contract, Synthesis(audit_seeds=8))
    assert verdict_of(checks) == (True, ())
    assert {check.isolation_level for check in checks} == {"docker"}


def test_nothing_can_be_left_in_a_container(docker, contract: TargetContract, sources) -> None:
    leak = "def reset(seed):\n    open(f'/tmp/leak-{seed}', 'a').close()\n    return _reset(seed)\n"
    source = sources["write_without_read"].replace("def reset(seed):", "def _reset(seed):") + "\n\n" + leak
    environment = Environment(
        environment_id="e", capability_id="leak", target="embedded", writer="test", source=source
    )
    checks = audit(environment, docker, contract, Synthesis(audit_seeds=8))
    failed = {check.check_id: check.evidence for check in checks if check.status == "fail"}
    assert set(failed) == {"runtime.startup"}
    assert "Read-only file system" in failed["runtime.startup"]
