"""Files that only grow, a line an event: each line carries a digest, and a torn or altered one is told."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_assets.store.files import sync_folder

_SEALED = re.compile(rb"[0-9a-f]{8} ")
_RECORD = (b"{", b"[", b'"')


@dataclass(frozen=True)
class Lines:
    """What a file holds.

    Attributes:
        whole: (line number from 1, text) of the lines that are as they were written.
        altered: Numbers of lines that are not.
        torn: Whether the file ends in a line that was not written to its end.
    """

    whole: Sequence[tuple[int, str]]
    altered: Sequence[int]
    torn: bool


def sealed(text: str) -> bytes:
    r"""Return a line of a file: the first 8 hexadecimal digits of the text's SHA-256, a blank, the text.

    >>> sealed('{"n": 1}')
    b'e5d5f7c1 {"n": 1}\n'
    """
    content = text.encode()
    return hashlib.sha256(content).hexdigest()[:8].encode() + b" " + content + b"\n"


def unsealed(line: bytes) -> str | None:
    """Return the text of a line without its newline, None when it is not the text that was written.

    A line without a digest (files of earlier versions have none) is taken as it is, if it begins as their
    records do. No digest with one bit flipped begins so.

    >>> unsealed(b'e5d5f7c1 {"n": 1}'), unsealed(b'e5d5f7c1 {"n": 3}'), unsealed(b'{"n": 2}')
    ('{"n": 1}', None, '{"n": 2}')
    >>> unsealed(b';5d5f7c1 {"n": 1}') is None
    True
    """
    digest, content = (line[:8], line[9:]) if _SEALED.match(line) else (b"", line)
    if not digest and not line.startswith(_RECORD):
        return None
    if digest and hashlib.sha256(content).hexdigest()[:8].encode() != digest:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def parse_lines(content: bytes) -> Lines:
    """Return the lines of a file's content; empty ones are passed over."""
    *ended, rest = content.split(b"\n")
    whole, altered = [], []
    for number, line in enumerate(ended, start=1):
        text = unsealed(line) if line else ""
        if text is None:
            altered.append(number)
        elif text:
            whole.append((number, text))
    return Lines(whole, altered, bool(rest))


def read_lines(path: Path) -> Lines:
    """Return the lines of a file; none when it is not there."""
    try:
        return parse_lines(path.read_bytes())
    except FileNotFoundError:
        return Lines([], [], False)


def append_lines(path: Path, texts: Sequence[str], *, sync: bool = True) -> None:
    """Add lines to a file that no other process adds to at the same time.

    A line that a kill cut short is ended first, so that it stays the only one that is lost.

    Args:
        path: The file; made when it is not there, in a folder that is.
        texts: One line each, without newlines.
        sync: Wait until they are on the disk.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        torn = bool(size) and os.pread(descriptor, 1, size - 1) != b"\n"
        content = (b"\n" if torn else b"") + b"".join(sealed(text) for text in texts)
        while content:
            content = content[file.write(content) :]
        if sync:
            os.fsync(descriptor)
    if sync and not size:
        sync_folder(path.parent)
