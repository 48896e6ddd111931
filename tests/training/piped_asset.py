"""An asset whose step trains elsewhere, and where such trainings run in tests."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from trace_assets.orchestration.remote.container import LABEL, ContainerLauncher, Sight
from trace_assets.orchestration.remote.launcher import Launcher, run_training
from trace_assets.orchestration.remote.process import ProcessLauncher
from trace_assets.records import TrainingPoint
from trace_assets.sandbox import image
from trace_assets.settings import Training

PROGRAM = [sys.executable, str(Path(__file__).parent / "piped_words.py")]
IMAGE = "trace-training-test:of-this-machine"
SYSTEM = tuple(Path(f"/{name}") for name in ("usr", "etc", "bin", "sbin", "lib", "lib64"))
ON_POINT = Callable[[TrainingPoint], None]


def nothing(point: TrainingPoint) -> None:
    pass


def materialize(
    request: dict[str, Any], on_point: ON_POINT = nothing, launcher: Launcher | None = None
) -> list[Any]:
    """Run one asset whose step trains elsewhere, and return what that said."""
    return in_a_step(
        lambda context: run_training(context, launcher or ProcessLauncher(PROGRAM), request, on_point)
    )


def in_a_step(work: Callable[[dg.AssetExecutionContext], Any]) -> list[Any]:
    """Do something in the step of an asset, and return its result in a list; empty where there is none."""
    said: list[Any] = []

    @dg.asset
    def words(context):  # type: ignore[no-untyped-def]
        said.append(work(context))
        yield dg.MaterializeResult()

    dg.materialize([words], raise_on_error=True)
    return said


def make_image() -> str:
    """Make an image of no more than a root: what is to be run in it, this machine lends by mounts."""
    import docker
    import docker.errors

    client = docker.from_env()
    try:
        client.images.get(IMAGE)
        return IMAGE
    except docker.errors.ImageNotFound:
        pass
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for path in (*SYSTEM, *(Path(f"/{name}") for name in ("proc", "sys", "dev", "run", "tmp"))):
            member = tarfile.TarInfo(path.name)
            member.mode, member.type = 0o1777 if path.name == "tmp" else 0o755, tarfile.DIRTYPE
            if path.is_symlink():
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            tar.addfile(member)
    repository, tag = IMAGE.split(":")
    client.api.import_image_from_data(data.getvalue(), repository=repository, tag=tag)
    return IMAGE


def lent() -> list[str]:
    """What a container of that image needs of this machine: its system, its Python, this checkout."""
    checkout = Path(__file__).resolve().parents[2]
    folders = [*SYSTEM, Path(sys.prefix), Path(sys.base_prefix), checkout]
    folders = [path for path in dict.fromkeys(folders) if path.is_dir() and not path.is_symlink()]
    # A virtual environment may take its packages from another one.
    packages = [Path(one) for one in dict.fromkeys(sys.path) if one and Path(one).is_dir()]
    folders += [path for path in packages if not any(map(path.is_relative_to, folders))]
    return [str(path) for path in folders]


def container(
    writable: Path, command: Sequence[str] = PROGRAM, readable: Sequence[Path] = (), **changes: Any
) -> ContainerLauncher:
    """A container of this machine's own root that writes to one folder."""
    section = Training(**{"image": IMAGE, **changes})
    sight = Sight([writable], [*(Path(one) for one in lent()), *readable], sandboxes=False)
    return ContainerLauncher(command, section, sight)


def containers(owner: int) -> list[str]:
    """The trainings' containers, also ended ones, whose owner is a process."""
    import docker

    mine = {"label": [f"{image.PROJECT}.pid={owner}", f"{LABEL}=1"]}
    return [one["Id"] for one in docker.from_env().api.containers(all=True, filters=mine)]


def gone(pids: Path, seconds: float = 300.0) -> bool:
    """Say whether none of the processes runs any more (one that is dead and not waited for does not)."""
    return within(lambda: not any(map(runs, map(int, pids.read_text().split()))), seconds)


def within(true: Callable[[], bool], seconds: float, step: subprocess.Popen[bytes] | None = None) -> bool:
    """Wait until something is true; say whether it came to be. A step that ended is not waited for."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until or (step is not None and step.poll() is not None):
            return False
        time.sleep(0.05)
    return True


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
