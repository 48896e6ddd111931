"""Requests that a home in an object store is made of, and whether a store keeps their conditions."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from trace_assets.errors import Unavailable, require_extra
from trace_assets.system.object_address import CREDENTIALS, Address

if TYPE_CHECKING:
    from obstore.store import ObjectStore


T = TypeVar("T")

ATTEMPTS = 4
PART_BYTES = 1 << 24
"""Of one request for a part of a large object."""
SMALL_BYTES = 1 << 26
"""An object of more is sent in parts, which are one object once all have come."""
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
"""Without TLS only where one of these says so."""
_SECRETS = re.compile(r"(KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|SAS)", re.IGNORECASE)

_CLOCK = re.compile(r"RequestTimeTooSkewed|RequestExpired|request time and the current time", re.IGNORECASE)
"""What a store says of a request that is signed with another time than its own."""


class Taken(Exception):
    """The object is not what the writer took it for: nothing was written."""


@dataclass(frozen=True)
class Found:
    """An object that was read.

    Attributes:
        content: All of it.
        tag: Tells this content from what is written there later.
    """

    content: bytes
    tag: Mapping[str, str]


class Bucket:
    """One prefix of an object store.

    Args:
        store: From `obstore`; its own prefix is that of the home.
        name: What it is called in sentences.
        scheme: Of its address, by which credentials are named.
    """

    def __init__(self, store: ObjectStore, name: str, scheme: str = "s3") -> None:
        self._store, self.name, self._scheme = store, name, scheme

    @classmethod
    def open(cls, address: Address, *, retries: int = 6) -> Bucket:
        """Open a prefix; nothing is asked yet. Credentials come from the environment or the machine.

        Args:
            address: Where.
            retries: How often a request is sent again that a store could not answer.

        Raises:
            Unavailable: `obstore` is not installed, or a variable that the store needs is not set.
        """
        require_extra("obstore", "objects", f"a home in {address.scheme}://")
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        try:
            # Parts are small, so a request that takes longer than this is a lost one.
            store = from_url(
                str(address),
                client_options={
                    "timeout": "60s",
                    "connect_timeout": "10s",
                    "allow_http": any(os.environ.get(one, "").startswith("http://") for one in _ENDPOINTS),
                },
                retry_config={
                    "max_retries": retries,
                    "retry_timeout": timedelta(seconds=90),
                    "backoff": {
                        "init_backoff": timedelta(seconds=0.1),
                        "max_backoff": timedelta(seconds=10),
                        "base": 2,
                    },
                },
            )
        except (BaseError, ValueError) as error:
            raise Unavailable(
                f"{address} cannot be opened ({_reason(error)}); set {CREDENTIALS[address.scheme]}."
            ) from None
        return cls(store, str(address), address.scheme)

    def get(self, key: str) -> Found | None:
        """Return an object, None where there is none."""
        import obstore

        def ask() -> Found:
            answer = obstore.get(self._store, key)
            return Found(bytes(answer.bytes()), _tag(answer.meta))

        return self._ask(f"the reading of {key}", ask, absent=None)

    def parts(self, key: str, size: int) -> Iterator[bytes]:
        """Yield a large object in parts; nothing where there is none, or one of another size.

        Args:
            key: Its name.
            size: What it shall have, bytes.
        """
        import obstore

        what = f"the reading of {key}"
        if self._ask(what, lambda: obstore.head(self._store, key)["size"], absent=-1) != size:
            return
        for start in range(0, size, PART_BYTES):
            length = min(PART_BYTES, size - start)

            def ask(start: int = start, length: int = length) -> bytes:
                return bytes(obstore.get_range(self._store, key, start=start, length=length))

            yield self._ask(what, ask, absent=b"")

    def put(self, key: str, content: bytes) -> None:
        """Write an object, whatever is there."""
        self._undisturbed(key, lambda: self._put(key, content, None))

    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        """Write a large object in parts, whatever is there; where one raises, nothing is written."""
        import obstore

        def ask() -> object:
            return obstore.put(self._store, key, parts(), use_multipart=True, chunk_size=PART_BYTES)

        self._undisturbed(key, lambda: self._ask(f"the writing of {key}", ask, writes=True))

    def _undisturbed(self, key: str, write: Callable[[], object]) -> None:
        """Write until no other request is in the way: one without condition may hear of it too."""
        for attempt in range(ATTEMPTS):
            try:
                write()
                return
            except Taken:
                time.sleep(0.1 * 2**attempt)
        raise Unavailable(f"{self.name} refuses the writing of {key} for a conflict; run the command again.")

    def create(self, key: str, content: bytes) -> Mapping[str, str]:
        """Write an object that is not there, and return its tag.

        Raises:
            Taken: It is there.
        """
        return self._put(key, content, "create")

    def swap(self, key: str, content: bytes, tag: Mapping[str, str]) -> Mapping[str, str]:
        """Write an object in the place of the one with a tag, and return the new tag.

        Raises:
            Taken: Another is there by now, or none.
        """
        return self._put(key, content, dict(tag))

    def _put(self, key: str, content: bytes, mode: Any) -> Mapping[str, str]:
        import obstore

        return self._ask(
            f"the writing of {key}",
            lambda: _tag(obstore.put(self._store, key, content, mode=mode, use_multipart=False)),
            writes=True,
        )

    def keys(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix; a store may show them late."""
        import obstore

        def ask() -> list[str]:
            listed = (one["path"] for page in obstore.list(self._store, prefix or None) for one in page)
            return sorted(listed)

        return self._ask(f"the listing of {prefix or 'all'}", ask)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is not there is none too many."""
        import obstore

        if keys:
            ask: Callable[[], None] = lambda: obstore.delete(self._store, list(keys))  # noqa: E731
            self._ask(f"the removal of {len(keys)} objects", ask, absent=None)

    def _ask(self, what: str, request: Callable[[], T], *, writes: bool = False, **absent: Any) -> T:
        """Send a request; say in one sentence why it failed.

        Args:
            what: Its name in that sentence.
            request: Sends it.
            writes: Whether it may find the object taken; what reads has no condition that could fail.
            absent: What is returned where there is no such object.
        """
        from obstore import exceptions

        try:
            return request()
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise Unavailable(f"{self.name}: there is no such bucket; make it first.") from None
            if "absent" in absent:
                found: T = absent["absent"]
                return found
            if writes:
                raise Taken from None  # an object to be replaced that is gone
            raise Unavailable(f"{self.name} failed at {what}: {_reason(error)}") from None
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            if writes:
                raise Taken from None
            raise Unavailable(f"{self.name} failed at {what}: {_reason(error)}") from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            way = f"set {CREDENTIALS[self._scheme]}"
            if _CLOCK.search(str(error)):
                way = "set the clock of this machine, from which the store's differs by too much"
            raise Unavailable(f"{self.name} does not allow {what} ({_reason(error)}); {way}.") from None
        except exceptions.BaseError as error:
            raise Unavailable(f"{self.name} failed at {what}: {_reason(error)}") from None
        except ConnectionError as error:
            raise Unavailable(f"{self.name} was not reached for {what}: {_reason(error)}") from None


def _tag(said: Any) -> Mapping[str, str]:
    return {name: str(said[name]) for name in ("e_tag", "version") if said.get(name)}


def _reason(error: BaseException) -> str:
    """Return the first line of what a store's client says, without parameters of URLs and without secrets."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    text = re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", text)
    for name, value in os.environ.items():
        if len(value) > 7 and _SECRETS.search(name):
            text = text.replace(value, f"${name}")
    return text if len(text) < 400 else f"{text[:400]}..."


RACERS = 8


def require_conditions(bucket: Bucket) -> None:
    """Make sure that a store keeps conditions; what is written for that is removed.

    Raises:
        Unavailable: It does not, or did not answer.
    """
    if said := broken_condition(bucket):
        raise Unavailable(
            f"{bucket.name} {said}: of two who write at once one would be lost unseen. It "
            "cannot hold a home; take a store with conditional writes (If-Match and If-None-Match)."
        )


def broken_condition(bucket: Bucket) -> str:
    """Say which condition a store does not keep, in words that follow its name; nothing when it keeps all."""
    key, raced = (f"probe/{uuid4().hex}" for _ in range(2))
    try:
        return _first_broken(bucket, key) or _race(bucket, raced)
    finally:
        bucket.delete([key, raced])


def _first_broken(bucket: Bucket, key: str) -> str:
    try:
        first = bucket.create(key, b"first")
    except Taken:
        return "refuses to make an object that is not there"
    if not first:
        return "gives no tag (ETag) for what it holds"
    if _is_written(bucket, key, b"second", None):
        return "makes an object anew that is there (it ignores If-None-Match)"
    if (found := bucket.get(key)) is None or found.content != b"first":
        return "does not hold what was written a moment ago"
    if found.tag != first:
        return "gives an object another tag when it is read than when it was written"
    try:
        second = bucket.swap(key, b"second", first)
    except Taken:
        return "refuses to replace an object by its own tag"
    if second == first:
        return "gives two contents one tag"
    if _is_written(bucket, key, b"third", first):
        return "replaces an object by a tag that is no longer its own (it ignores If-Match)"
    if (found := bucket.get(key)) is None or found.content != b"second":
        return "does not hold what was written a moment ago"
    bucket.delete([key])
    if _is_written(bucket, key, b"fourth", second):
        return "makes an object by a condition on one that is gone (it ignores If-Match)"
    return ""


def _is_written(bucket: Bucket, key: str, content: bytes, tag: object) -> bool:
    try:
        if tag is None:
            bucket.create(key, content)
        else:
            bucket.swap(key, content, tag)  # type: ignore[arg-type]
    except Taken:
        return False
    return True


def _race(bucket: Bucket, key: str) -> str:
    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(lambda number: _is_written(bucket, key, b"%d" % number, None), range(RACERS)))
    found = bucket.get(key)
    if sum(won) > 1:
        return f"lets {sum(won)} of {RACERS} make the same object at once"
    # None need have won: a store may refuse all who come while another is at it.
    if any(won) and (found is None or found.content != b"%d" % won.index(True)):
        return "does not hold what was written a moment ago"
    return ""
