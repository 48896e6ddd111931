"""Whether a store keeps the condition of a write: without, one writer undoes another's work unseen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from trace_assets.errors import Unavailable
from trace_assets.store.objects.bucket import Bucket, Taken

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
