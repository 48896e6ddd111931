"""A home in a bucket: contents that are never written twice, and one object that says which of them it is.

`home.json` names the list of all files, and is replaced by a conditional write alone. So a reader sees one
home whole, of two writers one is refused, and a writer who is killed at any moment leaves the home as it was.
What is sent before it is part of a home is named there too, so that nothing is sent twice and no cleaning
takes it away. A content's name ends in a random word: a name that was removed never comes back, so a cleaner
who was stopped and wakes removes nothing that is needed again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from uuid import uuid4

import msgspec

from trace_assets.errors import InputError, Unavailable
from trace_assets.store.lines import sealed, unsealed
from trace_assets.store.objects.bucket import SMALL_BYTES, Bucket, Taken
from trace_assets.system.machine import this_machine

T = TypeVar("T")

POINTER = "home.json"
CONTENTS = "blobs/"
FORMAT = 1
REMEMBERED = 64
"""Commits before the present one that are named, so that a writer whose answer was lost finds its own."""
ATTEMPTS = 4
READINGS = 3
"""How often something is read before it is said that it is altered: it may be so only on its way here."""
REMOVED_AT_ONCE = 1000


class Altered(InputError):
    """What came out of the bucket is not what was written there, or is gone."""


class Overtaken(Unavailable):
    """Somebody else wrote the home meanwhile: nothing of this writer's is part of it."""


class Content(msgspec.Struct, frozen=True):
    """Some bytes in the bucket.

    Attributes:
        key: Their object.
        size: How many.
        sha256: Their hash.
    """

    key: str
    size: int
    sha256: str


class Stored(msgspec.Struct, frozen=True):
    """A file of a home in the bucket.

    Attributes:
        name: Its path in the home, with forward slashes.
        content: What it holds.
        mode: Its permissions.
    """

    name: str
    content: Content
    mode: int = 0o644


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of work that is under way.

    Attributes:
        name: Its path in the home.
        parts: What it holds, one after the other.
        mode: Its permissions.
        whole: Folder of the home whose files are of use only together; empty where this one is by itself.
    """

    name: str
    parts: tuple[Content, ...]
    mode: int = 0o644
    whole: str = ""


class Pointer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `home.json` says.

    Attributes:
        commit: Id of the write that made it what it is.
        home: Id of the last write that changed the files of the home; empty before there is one.
        by: Who wrote it.
        at: When, by that one's clock, for people alone.
        earlier: Ids of the writes before.
        files: The list of the home's files.
        sent: The list of contents that no home needs yet.
        worker: Id of the folder that is worked on to become this home; empty where none is.
        held: Who works there, since when; for people alone.
        under_way: The list of what that work keeps for its next try and the home does not hold yet.
        under_way_of: Id of the folder that it was sent from.
        format: How all this is laid out.
    """

    commit: str
    home: str
    by: str
    at: str
    earlier: tuple[str, ...] = ()
    files: Content | None = None
    sent: Content | None = None
    worker: str = ""
    held: str = ""
    under_way: Content | None = None
    under_way_of: str = ""
    format: int = FORMAT


@dataclass(frozen=True)
class State:
    """What a home was when it was looked at.

    Attributes:
        pointer: What its object said.
        tag: Tells that object from later ones; none where there was no object.
    """

    pointer: Pointer
    tag: Mapping[str, str] | None = None

    @property
    def holds_home(self) -> bool:
        """Whether there is a home, and not only what somebody began to send."""
        return self.pointer.files is not None


NOTHING = State(Pointer("", "", "", ""))


class RemoteHome:
    """A home in a bucket.

    Args:
        bucket: Holds it and nothing else.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    @property
    def name(self) -> str:
        """What it is called in sentences."""
        return self.bucket.name

    def state(self) -> State:
        """Return what it is now.

        Raises:
            InputError: Its object is not what was written, or of a later version.
        """
        return read_again(self._state)

    def _state(self) -> State:
        found = self.bucket.get(POINTER)
        if found is None:
            return NOTHING
        text = unsealed(found.content.rstrip(b"\n"))
        try:
            pointer = msgspec.json.decode(text or "", type=Pointer)
        except msgspec.DecodeError:
            raise Altered(
                f"{self.name}/{POINTER} is not what was written: it was altered, or something else lies "
                "there. Put back an earlier version of it where the bucket keeps versions, or copy the home "
                "there again under another prefix."
            ) from None
        if pointer.format > FORMAT:
            raise InputError(f"{self.name} was written by a later version of trace-assets; use that one.")
        return State(pointer, found.tag)

    def files(self, state: State) -> dict[str, Stored]:
        """Return the files of a home by name."""
        if state.pointer.files is None:
            return {}
        return {one.name: one for one in self._list(state.pointer.files, Stored)}

    def under_way(self, state: State) -> dict[str, Piece]:
        """Return the files of work that is under way by name."""
        if state.pointer.under_way is None:
            return {}
        return {one.name: one for one in self._list(state.pointer.under_way, Piece)}

    def contents(self, state: State) -> dict[str, Content]:
        """Return all contents that are known to be there, by hash."""
        known = [one.content for one in self.files(state).values()]
        if state.pointer.sent is not None:
            known += self._list(state.pointer.sent, Content)
        known += [part for piece in self.under_way(state).values() for part in piece.parts]
        return {one.sha256: one for one in known}

    def _list(self, of: Content, kind: type[msgspec.Struct]) -> list:  # type: ignore[type-arg]
        lines = read_again(lambda: b"".join(self.read(of, "its list of files"))).splitlines()
        return [msgspec.json.decode(line, type=kind) for line in lines]

    def read(self, content: Content, what: str) -> Iterator[bytes]:
        """Yield some bytes; the last come only if all are what was written.

        Raises:
            Altered: They are gone, or others.
        """
        digest, size, held = hashlib.sha256(), 0, b""
        if content.size > SMALL_BYTES:
            parts: Iterable[bytes] = self.bucket.parts(content.key, content.size)
        else:
            found = self.bucket.get(content.key)
            parts = [] if found is None else [found.content]
        there = False
        for part in parts:
            there = True
            digest.update(part)
            size += len(part)
            if held:
                yield held
            held = part
        if not there or digest.hexdigest() != content.sha256:
            said = "is gone" if not there else "is not what was written"
            if there and size != content.size:
                said = f"has {size:,} bytes in place of {content.size:,}"
            raise Altered(
                f"{self.name}: {what} {said} (object {content.key}). Copy the home there again from a folder "
                "that has it, by `trace home copy FOLDER URL --again`, or put the object back from a backup."
            )
        yield held

    def new_content(self, sha256: str, size: int) -> Content:
        """Name some bytes that will be sent; no two senders have one name."""
        return Content(f"{CONTENTS}{sha256}.{uuid4().hex[:12]}", size, sha256)

    def send_list(self, entries: Iterable[msgspec.Struct]) -> Content:
        """Send a list of files or contents."""
        text = b"".join(msgspec.json.encode(one) + b"\n" for one in entries)
        content = self.new_content(hashlib.sha256(text).hexdigest(), len(text))
        self.bucket.put(content.key, text)
        return content

    def commit(self, seen: State, new: Pointer, *, last: bool = False) -> State:
        """Make the home what a pointer says, unless it is no longer what was seen.

        Args:
            seen: What it was.
            new: What it shall be.
            last: Whether nothing is written after it: then it does no harm that others have gone on from it.

        Raises:
            Overtaken: Others have written it since.
            Unavailable: The store does not answer. It may carry the write out later, whole as it is.
        """
        content = sealed(msgspec.json.encode(new).decode())
        trouble: Unavailable | None = None
        for _ in range(ATTEMPTS):
            try:
                if seen.tag is None:
                    return State(new, self.bucket.create(POINTER, content))
                return State(new, self.bucket.swap(POINTER, content, seen.tag))
            except Taken:
                trouble = None
            except Unavailable as error:
                trouble = error
            # It may have been carried out all the same: an answer was lost, and what is known is that of the
            # same request sent again.
            now = self.state()
            if now.pointer.commit == new.commit or (last and new.commit in now.pointer.earlier):
                return now
            if now.pointer.commit != seen.pointer.commit:
                raise Overtaken(
                    f"{self.name} was written by {now.pointer.by} ({now.pointer.at}) meanwhile: nothing of "
                    "this copy is part of it. Run the command again to see what is there now."
                )
        raise trouble or Unavailable(
            f"{self.name} refuses a write by the tag that it gives; run the command again."
        )

    def clean(self) -> int:
        """Remove contents that nothing needs; return how many.

        Whoever is sending meanwhile is refused at its next commit: what it sent may be gone.
        """
        listed = self.bucket.keys(CONTENTS)
        state = self.state()
        if state.tag is None:
            return 0
        # Whoever began before this commit can commit no more, and whoever begins after it sends under names
        # that are not listed. Only so can nothing be removed that a home needs.
        self.commit(state, following(state))
        pointer = state.pointer
        needed = {one.key for one in self.contents(state).values()}
        needed |= {one.key for one in (pointer.files, pointer.sent, pointer.under_way) if one}
        unneeded = [key for key in listed if key not in needed]
        for first in range(0, len(unneeded), REMOVED_AT_ONCE):
            self.bucket.delete(unneeded[first : first + REMOVED_AT_ONCE])
        return len(unneeded)


def read_again(read: Callable[[], T]) -> T:
    """Read something, and once more where it is not what was written: perhaps only what came was not.

    Raises:
        Altered: It is not, however often it is read.
    """
    for attempt in range(1, READINGS):
        try:
            return read()
        except Altered:
            time.sleep(0.025 * 4**attempt)
    return read()


def following(state: State) -> Pointer:
    """Return the pointer that follows one, with the same files."""
    before = state.pointer
    earlier = (before.commit, *before.earlier)[:REMEMBERED] if before.commit else ()
    here = f"process {os.getpid()} on {this_machine().host}"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return msgspec.structs.replace(before, commit=uuid4().hex, by=here, at=now, earlier=earlier)


def held(state: State, worker: str) -> Pointer:
    """Return the pointer that follows one and says who works on the home; an empty worker gives it free."""
    new = following(state)
    if worker == new.worker:
        return new
    return msgspec.structs.replace(new, worker=worker, held=f"{new.by} since {new.at}" if worker else "")
