from collections.abc import Iterator

import pytest

from tests.audit_fixtures.runner import ZOO_PERMUTATION, record, tour
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.contract.description import TargetContract
from trace_assets.records import CapabilitySpec
from trace_assets.sandbox import EnvironmentFault, SandboxConfig, SandboxPool, SandboxUnavailable, open_pool
from trace_assets.settings import Synthesis

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def docker(require_docker: bool) -> Iterator[SandboxPool]:
    try:
        opened = open_pool(SandboxConfig(backend="docker"))
    except SandboxUnavailable as error:
        if require_docker:
            raise
        pytest.skip(f"no Docker: {error}")
    with opened:
        yield opened


@pytest.mark.parametrize(
    "capability",
    [
        "write_without_read",
        # their modules pass the same audit in other sandboxes with the quick tests
        pytest.param("object_untouched", marks=pytest.mark.slow),
        pytest.param("write_against_state", marks=pytest.mark.slow),
    ],
    indirect=True,
)
@pytest.mark.slow
def test_recipes_are_accepted_in_containers(
    docker: SandboxPool, contract: TargetContract, capability: CapabilitySpec, sources: dict[str, str]
) -> None:
    assert capability.detector is not None
    environment = record(sources[capability.detector], "recipe")
    checks = audit(environment, docker, contract, Synthesis(audit_seeds=8), permutation=ZOO_PERMUTATION)
    assert verdict_of(checks) == (True, ())
    assert {check.isolation_level for check in checks} == {"docker"}


def test_nothing_can_be_left_in_a_container(docker: SandboxPool, sources: dict[str, str]) -> None:
    leak = "def reset(seed):\n    open(f'/tmp/leak-{seed}', 'a').close()\n    return _reset(seed)\n"
    source = sources["write_without_read"].replace("def reset(seed):", "def _reset(seed):") + "\n\n" + leak
    with pytest.raises(EnvironmentFault, match="Operation not permitted"):
        docker.environment(source).reset(0)


@pytest.mark.slow
def test_the_zoo_is_audited_alike_in_containers(docker: SandboxPool) -> None:
    assert [visit for visit in tour(docker) if not visit.right] == []
