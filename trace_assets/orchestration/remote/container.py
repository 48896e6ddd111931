"""A training in a Docker container that is gone with the step, however that one ends."""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_assets.assets.adapter import MIXED
from trace_assets.errors import InputError, Unavailable
from trace_assets.orchestration.remote.process import GRACE_SECONDS, MODULE, held_folder
from trace_assets.sandbox import image
from trace_assets.settings import Training
from trace_assets.study import Study
from trace_assets.system.progress import PROGRESS_DIR

SCRATCH = "/tmp"
"""Where the folder lies that a container shares with the step: paths of sockets in it have to be short."""
DEFAULT_HOST = "unix:///var/run/docker.sock"
_API_SECONDS = 60
_REMOVAL_SECONDS = 30.0


def training_container(study: Study, name: str) -> ContainerLauncher:
    """Return what starts one adapter's training in a container.

    Raises:
        InputError: The settings name no image, or a sandbox that does not work inside a container.
    """
    from trace_assets.resources.policy import base_folder

    section, backend = study.settings.training, study.settings.sandbox.backend
    if not section.image:
        raise InputError(
            "training.launcher is 'docker', which needs training.image: build one as "
            "sandboxes/trainer.Dockerfile says."
        )
    if name != MIXED and backend == "bubblewrap":
        raise InputError(
            "training.launcher 'docker' and sandbox.backend 'bubblewrap' do not go together, since a "
            "container may make no namespaces of its own: set sandbox.backend to 'docker'."
        )
    reports = os.environ.get(PROGRESS_DIR)
    sight = Sight(
        writable=(study.home.path, *([Path(reports)] if reports else [])),
        readable=(*model_folders(base_folder(study)), *(Path(one).absolute() for one in section.mounts)),
        sandboxes=name != MIXED and backend in ("docker", "auto"),
    )
    return ContainerLauncher([section.python or "python3", "-m", MODULE], section, sight)


class ContainerLauncher:
    """Starts a training in a container of the daemon that `DOCKER_HOST` names.

    The daemon has to be on this machine: the container sees the home's files, not a copy. It takes the step's
    user and network, none of its capabilities, and no more of its files than `sight`. When this process is
    killed, or the daemon, the training ends itself.

    Args:
        command: Interpreter and module, as the image has them.
        section: Names image and GPUs.
        sight: What it sees of this machine.
    """

    def __init__(self, command: Sequence[str], section: Training, sight: Sight) -> None:
        self._command, self._section, self._sight = list(command), section, sight
        self._address = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self.where = f"a container of {section.image}"

    def folder(self) -> AbstractContextManager[Path]:
        """See `Launcher`."""
        return held_folder(Path(SCRATCH))

    def start(self, environment: Mapping[str, str], folder: Path) -> StartedContainer:
        """See `Launcher`."""
        import docker.errors
        import requests

        if not self._address.startswith("unix://"):
            raise InputError(
                f"DOCKER_HOST is {self._address}, and a training's container needs a daemon that shares this "
                "machine's files: name its unix socket, or set training.launcher to 'pipes'."
            )
        client = self._connect()
        try:
            image.sweep(client)
            body = container_body(
                command=self._command,
                section=self._section,
                sight=self._sight,
                folder=folder,
                socket=Path(self._address.removeprefix("unix://")),
                environment={**passed_on(os.environ), **environment},
            )
            made = client.api.create_container_from_config(body)["Id"]
            return StartedContainer(client, made, self._address, self.where)
        except docker.errors.ImageNotFound:
            client.close()
            raise InputError(
                f"there is no image {self._section.image} on the Docker daemon at {self._address}: pull it, "
                "build it from sandboxes/trainer.Dockerfile, or mend training.image."
            ) from None
        except (docker.errors.DockerException, requests.RequestException) as error:
            client.close()
            raise Unavailable(
                f"Docker could not start the training in {self.where} ({_said(error)}): see training.image, "
                "training.python, training.gpus and training.mounts."
            ) from None

    def _connect(self) -> Any:
        import docker.errors

        try:
            return _client(self._address)
        except docker.errors.DockerException as error:
            raise Unavailable(
                f"no Docker daemon answers at {self._address} ({_said(error)}): start Docker, set "
                "DOCKER_HOST, or set training.launcher to 'pipes'."
            ) from None


class StartedContainer:
    """A container that was made: started here, and removed by the daemon when it ends.

    Args:
        client: A `docker.DockerClient`; closed with `end`.
        container_id: The container.
        address: The daemon's.
        where: What messages call it.
    """

    def __init__(self, client: Any, container_id: str, address: str, where: str) -> None:
        self._client, self._address, self._where = client, address, where
        self.id = container_id
        self._code: int | None = None
        self._lost: Exception | None = None
        self._ended = threading.Event()
        self._words: threading.Thread | None = None
        self._stream: Any = None
        try:
            # Before the start: afterwards a container that ends at once has said and left nothing.
            params = {"stdout": 1, "stderr": 1, "stream": 1}
            self._stream = client.api.attach_socket(container_id, params)
            self._words = threading.Thread(target=self._pass_words_on, name="training's words", daemon=True)
            self._words.start()
            threading.Thread(target=self._wait_for_end, name="training's end", daemon=True).start()
            client.api.start(container_id)
        except BaseException:
            self._remove()
            self._hang_up()
            raise

    def wait(self, seconds: float) -> int | None:
        """See `Started`."""
        if not self._ended.wait(seconds):
            return None
        if self._code is None:
            raise Unavailable(
                f"the Docker daemon went away during the training in {self._where} ({_said(self._lost)}): "
                "start it again; finished iterations are kept, run again."
            )
        return self._code

    def end(self) -> None:
        """See `Started`."""
        import docker.errors
        import requests

        if not self._ended.is_set():
            with suppress(docker.errors.DockerException, requests.RequestException):
                self._client.api.kill(self.id, "SIGTERM")
            if not self._ended.wait(GRACE_SECONDS):
                self._remove()
                self._ended.wait(_REMOVAL_SECONDS)
        self._hang_up()
        self._client.close()

    def _wait_for_end(self) -> None:
        """Learn the exit code from the daemon, which tells it when the container is removed."""
        try:
            with closing(_client(self._address)) as client:  # one is not made to be shared among threads
                ended = client.api.wait(self.id, timeout=None, condition="removed")
                self._code = int(ended["StatusCode"])
        except Exception as error:  # told by `wait`, whatever it is
            self._lost = error
        self._ended.set()

    def _pass_words_on(self) -> None:
        """Write what the training says where this process's own words go."""
        from docker.utils.socket import frames_iter

        with suppress(OSError, ValueError):
            for stream, words in frames_iter(getattr(self._stream, "_sock", self._stream), tty=False):
                os.write(stream, words)

    def _remove(self) -> None:
        import docker.errors
        import requests

        with suppress(docker.errors.DockerException, requests.RequestException):
            self._client.api.remove_container(self.id, force=True, v=True)

    def _hang_up(self) -> None:
        """Close the stream, and the socket inside it: else a removal may hang for a minute (moby 41827)."""
        if self._stream is None:
            return
        if self._words is not None and self._ended.is_set():
            self._words.join(5)  # its last words are on their way
        sock = getattr(self._stream, "_sock", self._stream)
        with suppress(OSError):
            sock.shutdown(2)
        for one in (sock, self._stream):
            with suppress(OSError):
                one.close()


def _client(address: str) -> Any:
    import docker

    return docker.DockerClient(base_url=address, timeout=_API_SECONDS, version="auto")


def _said(error: Exception | None) -> str:
    text = str(getattr(error, "explanation", None) or error or "no word")
    return " ".join(text.split())[:300]


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
