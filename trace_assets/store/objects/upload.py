"""A home goes into a bucket: what is not there yet is sent, then one write makes it the home."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path

import msgspec

from trace_assets.errors import InputError, Unavailable
from trace_assets.store.files import Home
from trace_assets.store.manifest import MANIFEST
from trace_assets.store.objects.bucket import PART_BYTES, SMALL_BYTES, require_conditions
from trace_assets.store.objects.home_files import (
    Copied,
    HomeFile,
    Known,
    at_rest,
    files_version,
    home_files,
    known_copies,
    note_copy,
)
from trace_assets.store.objects.remote import (
    Content,
    Pointer,
    RemoteHome,
    State,
    Stored,
    following,
    held,
)

THREADS = 8
NOTED_BYTES = 1 << 26
"""After so many bytes were sent it is noted which: a copy that is killed then sends the rest alone."""


def copy_up(
    home: Home,
    remote: RemoteHome,
    *,
    replace: bool = False,
    again: bool = False,
    worker: str = "",
    meanwhile: bool = False,
    threads: int = THREADS,
    noted_bytes: int = NOTED_BYTES,
) -> Copied:
    """Make a bucket hold a home.

    Args:
        home: The home; nobody else works on it meanwhile.
        remote: Where to.
        replace: Take the place of a home there that this one did not come from.
        again: Send everything, also what is said to be there.
        worker: Who the home is held for while it is worked on, if it is; it is let go.
        meanwhile: It is held on, and the caller has the sync's lock: nothing is being made right now.
        threads: How many requests go at once.
        noted_bytes: After how many it is noted what was sent.

    Raises:
        InputError: The home is not whole, or another home lies there.
        Overtaken: Another wrote there meanwhile.
        Unavailable: The store does not answer or keeps no conditions, or somebody works on the home, here or
            there.
    """
    resting = nullcontext() if meanwhile else at_rest(home)
    still = worker if meanwhile else ""
    with resting, tempfile.TemporaryDirectory(prefix="trace-copy-") as scratch:
        state = remote.state()
        known = known_copies(home.path).get(remote.name) or Known((), "")
        if state.tag is None:
            require_conditions(remote.bucket)
        require_free(remote, state, worker)
        if state.holds_home and not replace and state.pointer.home not in known.commits:
            raise InputError(
                f"{remote.name} holds a home that {home.path} did not come from, or that was written since "
                f"(by {state.pointer.by}, {state.pointer.at}). Copy it to another folder to look at it; "
                "`--replace` puts this home in its place."
            )
        files = home_files(home.path, Path(scratch))
        if not again and _is_equal(files, remote.files(state)):
            if state.pointer.worker != still or state.pointer.under_way is not None:
                remote.commit(state, _without_under_way(held(state, still)), last=True)
            return Copied(len(files), _size(files), 0, 0, False)
        sending = _Sending(remote, state, {} if again else remote.contents(state), noted_bytes)
        sending.send(files, threads)
        _require_unchanged(home.path, files)
        stored = [Stored(name, sending.there[one.sha256], one.mode) for name, one in sorted(files.items())]
        listed = remote.send_list(stored)
        new = _without_under_way(held(sending.state, still))
        new = msgspec.structs.replace(new, home=new.commit, files=listed, sent=None)
        # Noted first: should the answer be lost, the home there is still known for this one's.
        version = files_version({name: one.sha256 for name, one in files.items()})
        note_copy(home.path, remote.name, Known((*known.commits[-1:], new.home), version))
        remote.commit(sending.state, new, last=True)
        note_copy(home.path, remote.name, Known((new.home,), version))
        return Copied(len(files), _size(files), sending.moved, sending.moved_bytes, True)


def _without_under_way(pointer: Pointer) -> Pointer:
    """Return a pointer to a home that holds all that was under way."""
    return msgspec.structs.replace(pointer, under_way=None, under_way_of="")


def require_free(remote: RemoteHome, state: State, worker: str = "") -> None:
    """Make sure that nobody else works on a home.

    Raises:
        Unavailable: Somebody does, or was killed at it.
    """
    if state.pointer.worker not in ("", worker):
        raise Unavailable(
            f"{remote.name} is being worked on by {state.pointer.held}: wait until that has ended. If it is "
            f"gone for good, `trace home release {remote.name}` gives the home free; what it had not sent is "
            "in its own folder alone."
        )


class _Sending:
    """What is being sent, and what is there."""

    def __init__(self, remote: RemoteHome, state: State, there: dict[str, Content], noted_bytes: int) -> None:
        self.remote, self.state, self.there = remote, state, there
        self.moved = self.moved_bytes = 0
        self._noted_bytes, self._unnoted = noted_bytes, 0

    def send(self, files: Mapping[str, HomeFile], threads: int) -> None:
        """Send what is not there, the small ones first."""
        missing = {one.sha256: one for one in files.values() if one.sha256 not in self.there}
        waiting = iter(sorted(missing.values(), key=lambda one: one.size))
        under_way: set[Future[Content]] = set()
        with ThreadPoolExecutor(threads) as pool:
            try:
                while True:
                    while len(under_way) < 2 * threads and (one := next(waiting, None)) is not None:
                        content = self.remote.new_content(one.sha256, one.size)
                        under_way.add(pool.submit(send_file, self.remote, content, one.path))
                    if not under_way:
                        return
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._sent(future.result())
            finally:
                for future in under_way:
                    future.cancel()

    def _sent(self, content: Content) -> None:
        self.there[content.sha256] = content
        self.moved += 1
        self.moved_bytes += content.size
        self._unnoted += content.size
        if self._unnoted >= self._noted_bytes:
            self._unnoted = 0
            noted = self.remote.send_list(self.there.values())
            new = msgspec.structs.replace(following(self.state), sent=noted)
            self.state = self.remote.commit(self.state, new)


def send_file(remote: RemoteHome, content: Content, path: Path) -> Content:
    """Send a file's content.

    Raises:
        InputError: The file holds something else.
        Unavailable: The store does not answer.
    """
    if content.size > SMALL_BYTES:
        remote.bucket.put_parts(content.key, lambda: _compared(path, content))
    else:
        remote.bucket.put(content.key, b"".join(_compared(path, content)))
    return content


def _compared(path: Path, content: Content) -> Iterator[bytes]:
    """Yield a file's content, and fail at its end when it is not what it shall be."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            digest.update(part)
            yield part
    if digest.hexdigest() != content.sha256:
        raise InputError(
            f"{path} is not what was written: its content was altered, or it was written to while it was "
            "copied. Nothing was changed at the destination. Run `trace sync`, which finds what was altered, "
            "and copy again."
        )


def _require_unchanged(home: Path, files: Mapping[str, HomeFile]) -> None:
    """Make sure that nothing was put in place since the files were listed: the list would be of two homes."""
    for name, one in files.items():
        if name.rpartition("/")[2] == MANIFEST:
            path = home / name
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != one.sha256:
                raise Unavailable(f"{home} was written to while it was copied; run the command again.")


def _is_equal(files: Mapping[str, HomeFile], before: Mapping[str, Stored]) -> bool:
    mine = {name: (one.sha256, one.mode) for name, one in files.items()}
    return mine == {name: (one.content.sha256, one.mode) for name, one in before.items()}


def _size(files: Mapping[str, HomeFile]) -> int:
    return sum(one.size for one in files.values())
