"""Sandboxes as Docker containers: the default, and the only one meant for code of unknown intent."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from trace_assets.sandbox import files, image, reaper
from trace_assets.sandbox.attach import AttachChannel
from trace_assets.sandbox.backend import IsolationLevel
from trace_assets.sandbox.channel import SocketChannel
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.faults import SandboxUnavailable
from trace_assets.sandbox.flags import CONTAINER, host_flags
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.version import sandbox_version

_API_SECONDS = 10
_POST_MORTEM_SECONDS = 0.8
_INSIDE = "/run/trace"


class DockerContainer:
    """One running container."""

    def __init__(self, backend: DockerBackend, container_id: str, folder: Path | None) -> None:
        self._backend = backend
        self.id = container_id
        self.name = f"container {container_id[:12]}"
        self._folder = folder
        self._began = int(time.time()) - 1

    @property
    def api(self) -> Any:
        """The daemon's API, as the SDK gives it to this thread."""
        return self._backend.client().api

    def kill(self) -> None:
        """See `Container`."""
        import docker.errors
        import requests

        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self.api.remove_container(self.id, force=True)
        self._backend.forget_connections()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def post_mortem(self) -> str | None:
        """See `Container`. The container may be removed already, so the daemon's events are read."""
        import docker.errors
        import requests

        reason, until = None, time.monotonic() + _POST_MORTEM_SECONDS
        while reason is None and time.monotonic() < until:
            try:
                events = self.api.events(
                    since=self._began,
                    until=f"{time.time():.6f}",  # in the future it would wait for more
                    filters={"container": self.id, "event": ["oom", "die"]},
                    decode=True,
                )
                for event in events:
                    if event.get("Action") == "oom":
                        return "oom"
                    if event.get("Action") == "die":
                        code = int(event["Actor"]["Attributes"].get("exitCode", -1))
                        reason = f"signal {code - 128}" if code > 128 else f"exit {code}"
            except (docker.errors.APIError, requests.RequestException):
                return None
            time.sleep(0.02)
        return reason


class DockerBackend:
    """Starts containers on one daemon."""

    isolation_level: IsolationLevel = "docker"

    def __init__(self, config: SandboxConfig) -> None:
        """Reach the daemon, remove what dead owners left there, find or build the image.

        Raises:
            SandboxUnavailable: No daemon, or no image; the message names the fix.
        """
        self.config = config
        self._threads = threading.local()
        client = self.client(connect=True)
        reaper.sweep(client)
        with contextlib.closing(self._new_client(600)) as patient:  # a pull or a build takes its time
            self.image = image.ensure_image(patient, config.image, config.base_image)
        self._seccomp = (files.folder() / "seccomp.json").read_text()
        self._flags = host_flags(config, self._seccomp)
        self.version = sandbox_version("docker", self._flags | CONTAINER, self.image.contents)
        self._folder: Path | None = None
        if self._shares_files(client):
            reaper.sweep_folders()
            self._folder = reaper.owner_folder()
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)  # also at exit
        self.transport = "attach" if self._folder is None else "socket"

    def _new_client(self, seconds: int) -> Any:
        import docker

        address = self.config.docker_host
        if address is not None:
            return docker.DockerClient(base_url=address, timeout=seconds, version="auto")
        return docker.from_env(timeout=seconds, version="auto")

    def client(self, connect: bool = False) -> Any:
        """This thread's client: the SDK's is not made to be shared."""
        if not hasattr(self._threads, "client"):
            import docker.errors

            try:
                self._threads.client = self._new_client(_API_SECONDS)
            except docker.errors.DockerException as error:
                where = self.config.docker_host or os.environ.get("DOCKER_HOST") or "its default address"
                if not connect:
                    raise
                raise SandboxUnavailable(
                    f"no Docker daemon answers at {where} ({str(error)[:200]}): start Docker, set "
                    'DOCKER_HOST, or as root run `eval "$(sandboxes/start_docker.sh up)"`'
                ) from None
        return self._threads.client

    def forget_connections(self) -> None:
        """Close what this thread's client keeps open: a connection for each of 25 addresses.

        Every container has its own addresses, so none of them would be used again.
        """
        self.client().close()

    def _shares_files(self, client: Any) -> bool:
        """Whether the daemon can mount our folders: same machine, so the socket transport will do."""
        if self.config.transport != "auto":
            return self.config.transport == "socket"
        info = client.info()
        same_kernel = info.get("KernelVersion") == os.uname().release and info.get("OSType") == "linux"
        return bool(same_kernel and client.api.base_url.startswith("http+docker://"))

    def start(self) -> Sandbox:
        """See `Backend`."""
        import docker.errors
        import requests

        try:
            return self._start_attached() if self._folder is None else self._start_mounted(self._folder)
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise SandboxUnavailable(
                f"Docker could not start a sandbox ({str(error)[:300]}): see `trace doctor`"
            ) from None
        finally:
            self.forget_connections()

    def _create(self, command: list[str], extra: dict[str, Any], folder: Path | None) -> DockerContainer:
        body: dict[str, Any] = {
            **CONTAINER,
            "Image": self.image.reference,
            "Cmd": command,
            "Labels": reaper.owner_labels(),
            "HostConfig": self._flags | extra.pop("HostConfig", {}),
            **extra,
        }
        created = self.client().api.create_container_from_config(body)
        return DockerContainer(self, created["Id"], folder)

    def _start_mounted(self, parent: Path) -> Sandbox:
        """Listen on a socket that only this container sees; the first to connect is the worker."""
        folder = Path(tempfile.mkdtemp(prefix="s", dir=parent))
        folder.chmod(0o755)
        path = folder / "s"
        container: DockerContainer | None = None
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                path.chmod(0o666)
                listener.listen(1)
                mount = {"Type": "bind", "Source": str(folder), "Target": _INSIDE, "ReadOnly": True}
                mount["BindOptions"] = {"Propagation": "private"}
                command = ["--connect", f"{_INSIDE}/s"]
                container = self._create(command, {"HostConfig": {"Mounts": [mount]}}, folder)
                self.client().api.start(container.id)
                connection = self._accept(listener, container)
            path.unlink()
            sandbox = Sandbox(container, SocketChannel(connection), True, self.config)
            sandbox.greet()
            return sandbox
        except BaseException:
            if container is not None:
                container.kill()
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _accept(self, listener: socket.socket, container: DockerContainer) -> socket.socket:
        """Wait for the worker, noticing early when its container has ended."""
        deadline = time.monotonic() + self.config.start_deadline_seconds
        listener.settimeout(2.0)
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                return listener.accept()[0]
            ended = container.post_mortem()
            if ended is not None:
                raise SandboxUnavailable(
                    f"the sandbox's container ended at once ({ended}): see `trace doctor`"
                )
        raise SandboxUnavailable(
            "the sandbox's container started but never reached its socket: set transport to 'attach'"
        )

    def _start_attached(self) -> Sandbox:
        """Talk over the daemon itself: for one that does not share our files."""
        extra = {
            "AttachStdin": True,
            "AttachStdout": True,
            "OpenStdin": True,
            "StdinOnce": True,
            "Tty": False,
        }
        container = self._create(["--stdio"], dict(extra), None)
        try:
            channel = AttachChannel.open(self.client(), container.id)
            self.client().api.start(container.id)
            sandbox = Sandbox(container, channel, False, self.config)
            sandbox.greet()
            return sandbox
        except BaseException:
            container.kill()
            raise

    def close(self) -> None:
        """See `Backend`."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
