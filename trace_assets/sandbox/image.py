"""The sandbox's image: built once from `sandboxes/`, also where no registry can be reached."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_assets.sandbox.config import folder as own_folder
from trace_assets.sandbox.config import worker_files, worker_hash
from trace_assets.sandbox.errors import SandboxUnavailable

REGISTRY_BASE = "python:3.11-slim"
OFFLINE_BASE = "trace-python-base:offline"


@dataclass(frozen=True)
class ImageInfo:
    """An image that is there.

    Attributes:
        reference: Id to run it by.
        contents: What it is made of: layers, user, environment, entry point. Equal for equal builds.
    """

    reference: str
    contents: dict[str, Any]


def image_tag() -> str:
    """Name of the project's image; it changes with the worker and the Dockerfile."""
    digest = hashlib.sha256((own_folder() / "Dockerfile").read_bytes())
    digest.update(worker_hash().encode())
    return f"trace-sandbox:{digest.hexdigest()[:12]}"


def ensure_image(client: Any, image: str | None = None, base_image: str | None = None) -> ImageInfo:
    """Find the image, or build it.

    Args:
        client: A `docker.DockerClient`.
        image: An image to use as it is; None: the project's own.
        base_image: Base for the build; None: python:3.11-slim if it is here or can be pulled, else one made
            of Debian packages.

    Raises:
        SandboxUnavailable: A named image is missing, or no base can be had.
    """
    if image is not None:
        if not _present(client, image):
            raise SandboxUnavailable(
                f"the image {image} is not on this Docker daemon: pull it, or set image to nothing"
            )
        return _describe(client, image)
    tag = image_tag() + (f"-{hashlib.sha256(base_image.encode()).hexdigest()[:8]}" if base_image else "")
    if not _present(client, tag):
        build(client, tag, base_image or _find_base(client))
    return _describe(client, tag)


def _present(client: Any, image: str) -> bool:
    import docker.errors

    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def _describe(client: Any, image: str) -> ImageInfo:
    attributes = client.images.get(image).attrs
    config = attributes["Config"]
    contents = {
        "layers": attributes["RootFS"].get("Layers", []),
        "user": config.get("User"),
        "env": sorted(config.get("Env") or []),
        "entrypoint": config.get("Entrypoint"),
        "architecture": attributes.get("Architecture"),
    }
    return ImageInfo(attributes["Id"], contents)


def _find_base(client: Any) -> str:
    for base in (REGISTRY_BASE, OFFLINE_BASE):
        if _present(client, base):
            return base
    import docker.errors
    import requests

    try:
        client.images.pull(*REGISTRY_BASE.split(":"))
        return REGISTRY_BASE
    except (docker.errors.APIError, requests.RequestException) as error:
        pull_error = str(error).splitlines()[0][:200]
    try:
        make_offline_base(client, OFFLINE_BASE)
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"no base for the sandbox's image: {REGISTRY_BASE} cannot be pulled ({pull_error}) and {error}"
        ) from None
    return OFFLINE_BASE


def make_offline_base(client: Any, reference: str) -> None:
    """Make a base of Debian packages and import it as `reference` (`name:tag`); no registry is asked.

    Raises:
        SandboxUnavailable: It cannot be made here; the message says why.
    """
    with tempfile.TemporaryDirectory(prefix="trace-base-") as folder:
        tar = Path(folder) / "base.tar"
        done = subprocess.run(
            ["sh", str(own_folder() / "make_base_image.sh"), "--tar", str(tar)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise SandboxUnavailable(
                f"none can be made of Debian packages ({why}): reach one of the two, or set base_image"
            )
        import docker.errors

        repository, name = reference.split(":")
        try:
            client.api.import_image(str(tar), repository=repository, tag=name)
        except docker.errors.APIError as error:
            why = str(error).splitlines()[0][-300:]
            raise SandboxUnavailable(
                f"Docker does not take the one that was made of Debian packages ({why}): look at the "
                "daemon's log, or set base_image"
            ) from None


def build(client: Any, tag: str, base: str) -> None:
    """Build the image as `tag` on `base`.

    Raises:
        SandboxUnavailable: Docker refuses; the message says why.
    """
    import docker.errors

    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for path in (own_folder() / "Dockerfile", *worker_files()):
            data = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(own_folder()).as_posix())
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    context.seek(0)
    try:
        client.images.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            buildargs={"BASE_IMAGE": base},
            rm=True,
            forcerm=True,
        )
    except (docker.errors.BuildError, docker.errors.APIError) as error:
        raise SandboxUnavailable(f"the sandbox's image could not be built on {base}: {error}") from None


# Whose container is it: labels that outlive their owner, and the removal of what dead owners left behind.


PROJECT = "trace-assets.sandbox"
FOLDER = "trace-sandbox"
_LIFETIME = 24 * 3600
"""Seconds after which a container may be removed by who cannot tell whether its owner lives."""


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def _start_time(pid: int) -> str | None:
    """Clock ticks after boot at which a process began; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rsplit(")", 1)[1].split()[19]


def owner_labels() -> dict[str, str]:
    """Labels for a container that this process starts now."""
    pid = os.getpid()
    return {
        PROJECT: "1",
        f"{PROJECT}.pid": str(pid),
        f"{PROJECT}.start": _start_time(pid) or "",
        f"{PROJECT}.boot": _boot_id(),
        f"{PROJECT}.namespace": _pid_namespace(),
        f"{PROJECT}.expires": str(int(time.time()) + _LIFETIME),
    }


def _short_folder() -> Path:
    """A folder whose socket paths stay below the kernel's 108 bytes."""
    folder = tempfile.gettempdir()
    return Path(folder if len(folder) <= 24 else "/tmp")


def owner_folder() -> Path:
    """A new private folder for this process's sockets, its name telling whose it is."""
    pid = os.getpid()
    prefix = f"{FOLDER}-{pid}-{_start_time(pid) or 0}-{_pid_namespace().strip('pid:[]')}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_short_folder()))


def sweep_folders() -> None:
    """Remove the folders for sockets that dead owners of this user left."""
    here = _pid_namespace().strip("pid:[]")
    for folder in _short_folder().glob(f"{FOLDER}-*-*-*-*"):
        pid, start, namespace = folder.name.removeprefix(f"{FOLDER}-").split("-")[:3]
        with contextlib.suppress(OSError):
            mine = folder.lstat().st_uid == os.geteuid() and namespace == here and pid.isdigit()
            if mine and (_start_time(int(pid)) or "0") != start:
                shutil.rmtree(folder, ignore_errors=True)


def is_leftover(labels: dict[str, str], now: float) -> bool:
    """Whether the owner of a container with these labels is gone for sure.

    An owner on another boot or in another pid namespace cannot be looked up: its containers are left alone
    until they expire.
    """
    here = (labels.get(f"{PROJECT}.boot"), labels.get(f"{PROJECT}.namespace")) == (
        _boot_id(),
        _pid_namespace(),
    )
    try:
        if here:
            pid = int(labels[f"{PROJECT}.pid"])
            return _start_time(pid) != labels[f"{PROJECT}.start"]
        return float(labels[f"{PROJECT}.expires"]) < now
    except (KeyError, ValueError):
        return True


def sweep(client: Any) -> int:
    """Remove the containers that dead owners left on this daemon.

    Args:
        client: A `docker.DockerClient`.

    Returns:
        How many were removed.
    """
    import docker.errors

    removed = 0
    for container in client.api.containers(all=True, filters={"label": f"{PROJECT}=1"}):
        if is_leftover(container.get("Labels") or {}, time.time()):
            with contextlib.suppress(docker.errors.APIError):  # someone else was faster
                client.api.remove_container(container["Id"], force=True)
                removed += 1
    return removed
