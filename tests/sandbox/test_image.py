from __future__ import annotations

import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool, SandboxUnavailable
from trace_assets.sandbox import image as images
from trace_assets.sandbox.docker import DockerBackend
from trace_assets.sandbox.version import sandbox_version


def test_the_version_changes_with_everything_that_decides_behaviour() -> None:
    base = sandbox_version("docker", {"memory": 1}, {"layers": ["a"]})
    assert base == sandbox_version("docker", {"memory": 1}, {"layers": ["a"]})
    others = {
        sandbox_version("bubblewrap", {"memory": 1}, {"layers": ["a"]}),
        sandbox_version("docker", {"memory": 2}, {"layers": ["a"]}),
        sandbox_version("docker", {"memory": 1}, {"layers": ["b"]}),
    }
    assert len(others | {base}) == 4


@pytest.mark.docker
def test_a_new_build_has_the_same_contents(docker_pool: SandboxPool) -> None:
    backend = docker_pool.backend
    assert isinstance(backend, DockerBackend)
    client = backend.client()
    base = images._find_base(client)
    try:
        again = images.ensure_image(client, base_image=base)
        assert again.contents == images.ensure_image(client).contents
        assert again.contents["user"] == "65534:65534"
    finally:
        tags = [tag for one in client.images.list("trace-sandbox") for tag in one.tags if tag.count("-") > 1]
        for tag in tags:
            client.images.remove(tag)


@pytest.mark.docker
def test_a_named_image_that_is_missing(docker_pool: SandboxPool) -> None:
    with pytest.raises(SandboxUnavailable, match="no-such-image:1 is not on this"):
        DockerBackend(SandboxConfig(image="no-such-image:1"))
