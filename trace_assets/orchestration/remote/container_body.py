"""What a training's container is made of, as the Docker API spells it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError
from trace_assets.sandbox import image
from trace_assets.settings import Training

LABEL = "trace-assets.training"
"""Label of a training's container, beside those that say whose it is."""
PASSED_ON = (
    *("HF_", "OMP_", "MKL_", "OPENBLAS_", "TOKENIZERS_", "TORCH", "PYTORCH_", "CUDA_", "NCCL_", "VLLM_"),
    *("OPENAI_", "TRACE_PROGRESS_DIR", "TRACE_REQUIRE_DOCKER", "LANG", "LC_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""How the names of those variables begin that a training takes from the step; others are the image's own."""


@dataclass(frozen=True)
class Sight:
    """What a container sees of this machine, everything at the path it has here.

    Attributes:
        writable: Folders that it writes to.
        readable: Folders and files that it only reads.
        sandboxes: Whether it starts sandboxes and so is given the Docker daemon, which is to be given this
            machine: the training is this program's own code, what a model wrote runs in the sandboxes.
    """

    writable: Sequence[Path]
    readable: Sequence[Path]
    sandboxes: bool


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a training takes from the step.

    >>> passed_on({"OMP_NUM_THREADS": "1", "PATH": "/bin"})
    {'OMP_NUM_THREADS': '1'}
    """
    return {name: value for name, value in environment.items() if name.startswith(PASSED_ON)}


def model_folders(base: Path) -> list[Path]:
    """Return what has to be seen so that a model can be read.

    Args:
        base: Its folder, also one of links such as in the hub's cache; a hub name gives the cache itself.
    """
    if base.is_dir():
        base = base.absolute()
        return [base, *sorted({file.resolve().parent for file in base.iterdir()} - {base.resolve()})]
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return [cache] if cache.is_dir() else []


def container_body(
    *,
    command: Sequence[str],
    section: Training,
    sight: Sight,
    folder: Path,
    socket: Path,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Return what the API makes the container from.

    Args:
        command: What it runs.
        section: Names image and GPUs.
        sight: What it sees of this machine.
        folder: Its scratch folder, seen by both; sandboxes are talked to through sockets there.
        socket: The daemon's.
        environment: Its variables.

    Raises:
        InputError: It shall see what is not there.
    """
    writable = [*sight.writable, folder, *([socket] if sight.sandboxes else [])]
    groups = {*os.getgroups(), *([socket.stat().st_gid] if sight.sandboxes else [])}
    own = {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "USER": _user(),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"DOCKER_HOST": f"unix://{socket}"} if sight.sandboxes else {}),
    }
    return {
        "Image": section.image,
        "Entrypoint": [""],
        "Cmd": list(command),
        "User": f"{os.getuid()}:{os.getgid()}",
        "WorkingDir": os.getcwd(),
        "Env": [f"{name}={value}" for name, value in {**environment, **own}.items()],
        # Looked up by who shares this process's numbers and removed when it is dead; by nobody else, however
        # long the training takes.
        "Labels": {**image.owner_labels(), f"{image.PROJECT}.expires": "inf", LABEL: "1"},
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": {
            "Mounts": _mounts(writable, sight.readable),
            "NetworkMode": "host",
            "AutoRemove": True,
            "GroupAdd": [str(group) for group in sorted(groups)],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "ShmSize": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2,
            # Transfers between GPUs pin memory; a daemon that may not lift the limit refuses to.
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}] if section.gpus else [],
            "LogConfig": {"Type": "none", "Config": {}},
            "DeviceRequests": device_requests(section.gpus),
        },
    }


def _user() -> str:
    """Return a name for this user, who may have none here; libraries ask for one."""
    try:
        return os.environ.get("USER") or getpass.getuser()
    except (KeyError, OSError):  # before and since Python 3.13
        return f"{os.getuid()}"


def device_requests(gpus: str) -> list[dict[str, Any]]:
    """Return the API's words for `training.gpus`.

    >>> device_requests("0,1")
    [{'Driver': '', 'DeviceIDs': ['0', '1'], 'Capabilities': [['gpu']]}]
    """
    if not gpus:
        return []
    which: dict[str, Any] = {"Count": -1}
    if gpus != "all":
        which = {"DeviceIDs": [one.strip() for one in gpus.split(",")]}
    return [{"Driver": "", **which, "Capabilities": [["gpu"]]}]


def _mounts(writable: Iterable[Path], readable: Iterable[Path]) -> list[dict[str, Any]]:
    """Return one bind mount a path; what lies in a writable folder needs none of its own."""
    own = list(dict.fromkeys(writable))
    others = [one for one in dict.fromkeys(readable) if not any(one.is_relative_to(folder) for folder in own)]
    for path in others:
        if not path.exists():
            raise InputError(
                f"the training's container shall see {path}, which is not there; mend training.mounts."
            )
    return [
        {"Type": "bind", "Source": str(path), "Target": str(path), "ReadOnly": path in others}
        for path in (*own, *others)
    ]
