"""A file layer that remembers what is on the disk, and shows what a power cut would leave after any step.

It stands beside the real one: the calls that name files or bring them to the disk are listened to, and after
each the folder is looked at. What POSIX promises is all that is believed: content is on the disk once the
file was synced, a name once its folder was. Databases of SQLite are taken to be as they were at the moment of
the cut, since they sync themselves; that is the worst case for whoever is to agree with them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from trace_assets.store import files as placing

Variant = Literal["synced", "empty", "torn", "all"]
"""What is left beside what was synced: nothing; names, of files that are empty then; names, of files that
hold half; everything (the power stayed, the process was killed)."""
VARIANTS: tuple[Variant, ...] = ("synced", "empty", "torn", "all")

Key = tuple[int, int]
"""An inode, and how often its number was used before."""
Tree = Mapping[str, bytes | None]
"""Path to content; None for a folder."""


@dataclass
class Step:
    """What was there after one call.

    Attributes:
        call: Its name and path.
        names: Every folder's names, as seen by programs.
        synced_names: The same as last synced.
        contents: Content of every file, as seen by programs.
        synced_contents: The same as last synced; a file that never was is left out.
    """

    call: str
    names: dict[Key, dict[str, Key]]
    synced_names: dict[Key, dict[str, Key]]
    contents: dict[Key, bytes]
    synced_contents: dict[Key, bytes]


@dataclass
class CrashLayer:
    """Listens to what is done below a folder.

    Attributes:
        root: The folder.
        steps: One for every call, in order.
    """

    root: Path
    steps: list[Step] = field(default_factory=list)
    _keys: dict[int, Key] = field(default_factory=dict)
    _folders: set[Key] = field(default_factory=set)
    _read: dict[Key, tuple[tuple[int, int], bytes]] = field(default_factory=dict)
    _pool: dict[str, bytes] = field(default_factory=dict)
    _synced_names: dict[Key, dict[str, Key]] = field(default_factory=dict)
    _synced_contents: dict[Key, bytes] = field(default_factory=dict)
    _root_key: Key = (0, 0)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record every call of the body."""
        self.root.mkdir(parents=True, exist_ok=True)
        names, _ = self._look()
        self._synced_names = {key: dict(held) for key, held in names.items()}
        with pytest.MonkeyPatch.context() as patch:
            for name in ("rename", "replace", "unlink", "remove", "mkdir", "rmdir", "link"):
                patch.setattr(os, name, self._heard(name, getattr(os, name)))
            patch.setattr(placing, "_exchange", self._heard("exchange", placing._exchange))
            patch.setattr(os, "fsync", self._fsync(os.fsync))
            yield
        self._note("end", "")

    def _heard(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def listened(*arguments: Any, **keywords: Any) -> Any:
            done = call(*arguments, **keywords)
            self._note(name, str(arguments[-1] if name in ("rename", "replace", "link") else arguments[0]))
            return done

        return listened

    def _fsync(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def listened(descriptor: int) -> None:
            call(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path == self.root or self.root in path.parents:
                self._note("fsync", str(path), os.fstat(descriptor))

        return listened

    def _note(self, name: str, path: str, synced: os.stat_result | None = None) -> None:
        names, contents = self._look()
        if synced is not None:
            key = self._keys.get(synced.st_ino)
            if key in names:
                self._synced_names[key] = dict(names[key])
            elif key in contents:
                self._synced_contents[key] = contents[key]
        shown = path.removeprefix(str(self.root))
        self.steps.append(
            Step(
                f"{name} {shown}",
                names,
                {key: held for key, held in self._synced_names.items()},
                contents,
                dict(self._synced_contents),
            )
        )

    def _look(self) -> tuple[dict[Key, dict[str, Key]], dict[Key, bytes]]:
        names: dict[Key, dict[str, Key]] = {}
        contents: dict[Key, bytes] = {}
        seen: dict[int, Key] = {}
        self._root_key = self._key(self.root.stat(), seen)
        self._walk(self.root, self._root_key, names, contents, seen)
        self._keys = {number: key for number, key in self._keys.items() if number in seen}
        return names, contents

    def _walk(
        self,
        folder: Path,
        own: Key,
        names: dict[Key, dict[str, Key]],
        contents: dict[Key, bytes],
        seen: dict[int, Key],
    ) -> None:
        held: dict[str, Key] = {}
        self._folders.add(own)
        with os.scandir(folder) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
                    continue
                key = held[entry.name] = self._key(found, seen)
                if stat.S_ISDIR(found.st_mode):
                    self._walk(Path(entry.path), key, names, contents, seen)
                else:
                    contents[key] = self._content(Path(entry.path), key, found)
        names[own] = held

    def _key(self, found: os.stat_result, seen: dict[int, Key]) -> Key:
        number = found.st_ino
        if number not in self._keys:
            used = {*self._read, *self._synced_names, *self._folders}
            before = [key[1] for key in used if key[0] == number]
            self._keys[number] = (number, max(before, default=-1) + 1)
        seen[number] = self._keys[number]
        return self._keys[number]

    def _content(self, path: Path, key: Key, found: os.stat_result) -> bytes:
        state = (found.st_size, found.st_mtime_ns)
        if self._read.get(key, (None, b""))[0] != state:
            content = path.read_bytes()
            content = self._pool.setdefault(hashlib.sha256(content).hexdigest(), content)
            self._read[key] = (state, content)
        return self._read[key][1]

    def tree(self, number: int, variant: Variant) -> Tree:
        """Return what a power cut right after a step leaves."""
        step, found = self.steps[number], dict[str, bytes | None]()
        self._leave(step, variant, self._root_key, "", found)
        return found

    def _leave(
        self, step: Step, variant: Variant, folder: Key, place: str, found: dict[str, bytes | None]
    ) -> None:
        ours = place.split("/")[0] != "dagster"
        kept = step.synced_names if variant == "synced" and ours else step.names
        for name, key in kept.get(folder, {}).items():
            path = f"{place}/{name}".lstrip("/")
            if key in step.names or key in step.synced_names:
                found[path] = None
                self._leave(step, variant, key, path, found)
            elif key in self._folders:  # removed since, but its name is on the disk as long as that is not
                found[path] = None
            elif not ours or variant == "all":
                found[path] = step.contents.get(key, b"")
            else:
                found[path] = self._left(step, variant, key)

    def _left(self, step: Step, variant: Variant, key: Key) -> bytes:
        now, synced = step.contents.get(key), step.synced_contents.get(key)
        if synced is not None and (now is None or synced == now or variant in ("synced", "empty")):
            return synced
        if now is None:
            return b""
        return now[: len(now) // 2] if variant == "torn" else b""


def lay(root: Path, tree: Tree) -> None:
    """Put a folder into a state."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for path, content in tree.items():
        if content is None:
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)


def fingerprint(tree: Tree) -> str:
    """Return a hash of a state; locks, which hold nothing, left out."""
    digest = hashlib.sha256()
    for path, content in sorted(tree.items()):
        if not path.startswith("locks/items") and not path.startswith("locks/processes"):
            digest.update(path.encode() + b"\0" + hashlib.sha256(content or b"").digest())
    return digest.hexdigest()
