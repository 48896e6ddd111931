"""Sandboxes as Docker containers: the default, and the only one meant for code of unknown intent."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
import weakref
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

from trace_assets.sandbox import image
from trace_assets.sandbox.channel import Closed, SocketChannel, left, split_line
from trace_assets.sandbox.config import CONTAINER, SandboxConfig, host_flags, sandbox_version
from trace_assets.sandbox.config import folder as own_folder
from trace_assets.sandbox.errors import ProtocolError, SandboxUnavailable, Timeout, TooLarge
from trace_assets.sandbox.pool import IsolationLevel
from trace_assets.sandbox.protocol import MAX_LINE
from trace_assets.sandbox.sandbox import Sandbox

_API_SECONDS = 10
_REMOVAL_SECONDS = 20.0
"""How long a daemon is asked to remove a container before that is left to the next start."""
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
        """See `Container`.

        A busy daemon may say that it has not seen the container end, or that another is removing it already:
        it is asked again until the container is gone. What is left all the same goes with the next start.
        """
        import docker.errors
        import requests

        until = time.monotonic() + _REMOVAL_SECONDS
        while time.monotonic() < until:
            try:
                self.api.remove_container(self.id, force=True)
            except (docker.errors.APIError, requests.ReadTimeout) as error:
                if isinstance(error, docker.errors.NotFound):
                    break
                time.sleep(0.2)
            except requests.RequestException:  # no daemon answers any more
                break
            else:
                break
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


def check_runtime(wanted: str, known: Collection[str]) -> None:
    """Refuse a runtime that the daemon does not have: its default would isolate less than was asked for.

    Raises:
        SandboxUnavailable: It is not there; the message names those that are.
    """
    if wanted not in known:
        raise SandboxUnavailable(
            f"Docker has no runtime '{wanted}' (sandbox.runtime); it has "
            f"{', '.join(sorted(known)) or 'none'}: register it with the daemon (for gVisor `runsc install`, "
            "then restart Docker), or leave the setting empty"
        )


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
        if config.runtime:
            check_runtime(config.runtime, client.info().get("Runtimes") or {})
        image.sweep(client)
        with contextlib.closing(self._new_client(600)) as patient:  # a pull or a build takes its time
            self.image = image.ensure_image(patient, config.image, config.base_image)
        self._seccomp = (own_folder() / "seccomp.json").read_text()
        self._flags = host_flags(config, self._seccomp)
        self.version = sandbox_version("docker", self._flags | CONTAINER, self.image.contents)
        self._folder: Path | None = None
        if self._shares_files(client):
            image.sweep_folders()
            self._folder = image.owner_folder()
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
            "Labels": image.owner_labels(),
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


# A container's stdin and stdout over the Docker API, as one stream of lines.


_HEADER = struct.Struct(">BxxxL")


class AttachChannel:
    """Docker's attach stream: frames of stdout (1) and stderr (2) behind an 8-byte header each.

    Args:
        wrapper: What the SDK returns; it must be closed as well as the socket inside it, or a later
            removal of the container can hang for a minute.
        sock: The connected socket itself.
    """

    def __init__(self, wrapper: Any, sock: Any) -> None:
        self._wrapper, self._sock = wrapper, sock
        self._header = b""
        self._left = 0  # bytes of the current frame that have not come yet
        self._wanted = False  # whether that frame is of stdout
        self._parts: list[bytes] = []
        self._size = 0

    @classmethod
    def open(cls, client: Any, container_id: str) -> Self:
        """Attach to a container that was created and not yet started."""
        params = {"stdin": 1, "stdout": 1, "stderr": 0, "stream": 1, "logs": 0}
        wrapper = client.api.attach_socket(container_id, params)
        return cls(wrapper, getattr(wrapper, "_sock", wrapper))

    def send(self, data: bytes, deadline: float, fd: int | None = None) -> None:
        """See `Channel`; a descriptor cannot be sent this way."""
        if fd is not None:
            raise ValueError("an attached stream carries no descriptors")
        try:
            self._sock.settimeout(left(deadline))
            self._sock.sendall(data)
        except TimeoutError:
            raise Timeout("the sandbox did not read its request before the deadline and was killed") from None
        except OSError as error:
            raise Closed from error

    def receive(self, deadline: float) -> bytes:
        """See `Channel`."""
        ended = False
        while not ended:
            if self._size > MAX_LINE:
                raise TooLarge(f"the sandbox sent more than {MAX_LINE} bytes without an end of line")
            ended = self._read(deadline)
        line = split_line(b"".join(self._parts))
        self._parts, self._size = [], 0
        return line

    def _read(self, deadline: float) -> bool:
        """One read from the daemon, its frames taken apart; whether a newline was in it."""
        try:
            self._sock.settimeout(left(deadline))
            data = self._sock.recv(65536)
        except TimeoutError:
            left(deadline)
            return False
        except OSError as error:
            raise Closed from error
        if not data:
            raise Closed
        ended = False
        while data:
            if self._left == 0:
                data = self._begin_frame(data)
                continue
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            if self._wanted:
                self._parts.append(part)
                self._size += len(part)
                ended = ended or b"\n" in part
        return ended

    def _begin_frame(self, data: bytes) -> bytes:
        """Take the header of the next frame, or what has come of it, off the front of `data`."""
        missing = _HEADER.size - len(self._header)
        self._header += data[:missing]
        if len(self._header) == _HEADER.size:
            kind, self._left = _HEADER.unpack(self._header)
            self._header, self._wanted = b"", kind == 1
            if kind not in (1, 2):
                raise ProtocolError("the stream from Docker is not the one this program knows")
        return data[missing:]

    def quiet(self) -> None:
        """See `Channel`."""
        if self._parts or self._header or self._left:
            raise ProtocolError("the sandbox sent bytes that nobody asked for")
        if select.select([self._sock], [], [], 0)[0]:
            try:
                self._sock.settimeout(0.0)
                data = self._sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise Closed from error
            if not data:
                raise Closed
            raise ProtocolError("the sandbox sent bytes that nobody asked for")

    def hang_up(self) -> None:
        """See `Channel`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Channel`."""
        self.hang_up()
        for one in (self._sock, self._wrapper):
            with contextlib.suppress(OSError):
                one.close()
