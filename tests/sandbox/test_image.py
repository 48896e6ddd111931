from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import docker.errors
import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool, SandboxUnavailable
from trace_assets.sandbox import image as images
from trace_assets.sandbox.config import sandbox_version
from trace_assets.sandbox.docker import DockerBackend


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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="the base is made of Debian packages")
def test_a_base_that_is_made_under_a_tight_umask_can_be_read_inside(
    project_root: Path, tmp_path: Path
) -> None:
    script = project_root / "sandboxes" / "make_base_image.sh"
    made = f"umask 077 && sh {script} --tar {tmp_path}/base.tar"
    subprocess.run(["sh", "-c", made], check=True, capture_output=True, timeout=900)
    with tarfile.open(tmp_path / "base.tar") as tar:
        closed = [one.name for one in tar if (one.isdir() and one.mode & 0o5 != 0o5) or not one.mode & 0o4]
    assert closed == []


@pytest.mark.docker
def test_a_named_image_that_is_missing(docker_pool: SandboxPool) -> None:
    with pytest.raises(SandboxUnavailable, match="no-such-image:1 is not on this"):
        DockerBackend(SandboxConfig(image="no-such-image:1"))


def test_a_daemon_that_takes_no_base_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one without the rights to unpack: in a container of its own, or under a root that is no mount."""

    class Refuses:
        def import_image(self, *_: object, **__: object) -> None:
            raise docker.errors.APIError("Error processing tar file(exit status 1): remount /\nand more")

    made = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(images.subprocess, "run", lambda *_, **__: made)
    with pytest.raises(SandboxUnavailable) as raised:
        images.make_offline_base(SimpleNamespace(api=Refuses()), "trace-python-base:offline")
    said = str(raised.value)
    assert "remount /" in said and "set base_image" in said and "\n" not in said
