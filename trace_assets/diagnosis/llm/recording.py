"""Answers of a model on disk: accepted ones, by the hash of their question, and recordings to be replayed.

A question is paid for once. A recording is for those without a key: JSON lines, of which the first says where
it comes from, and each further one holds what a model said to one request, bad answers included, so that
repairs are replayed too. A prompt that is not in it is reported: nothing is answered by what was said to
another one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from trace_assets.diagnosis.llm.request import A, Question
from trace_assets.errors import InputError
from trace_assets.store.files import make_folder, replacing_file, sync_folder
from trace_assets.store.lines import sealed, unsealed

Remark = Literal["full", "cut"]
"""`full`: the question does not fit the model's context; `cut`: its answer does not fit a reply."""


class Answers:
    """The accepted answers in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Return the file of a question's answer, whether it exists or not."""
        return self.folder / key[:2] / f"{key}.json"

    def get(self, question: Question[A]) -> A | Remark | None:
        """Return a remembered answer or remark; None when there is none or its file is damaged."""
        try:
            text = unsealed(self.path(question.key).read_bytes().rstrip(b"\n"))
            entry = json.loads(text or "")
            remark = entry.get("remark")
            if remark in ("full", "cut"):
                known: Remark = remark
                return known
            answer = question.schema.model_validate(entry["answer"], strict=False)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
            return None
        return None if question.examine(answer) else answer

    def has(self, question: Question[A]) -> bool:
        """Tell whether a question was answered, without reading the answer."""
        return self.path(question.key).is_file()

    def put(self, question: Question[A], answer: A | Remark) -> None:
        """Remember an answer or a remark."""
        entry: dict[str, object] = {"kind": question.kind, "model": question.model}
        if isinstance(answer, str):
            entry["remark"] = answer
        else:
            entry["answer"] = answer.model_dump(mode="json")
        path = self.path(question.key)
        make_folder(path.parent)
        with replacing_file(path) as partial:
            partial.write_bytes(sealed(json.dumps(entry, ensure_ascii=False)))


KIND = "trace-assets recording"
_FIELDS = ("model", "messages", "temperature", "seed")


def prompt_hash(body: Mapping[str, Any]) -> str:
    """Return the hash of a request, free of what a server may or may not know (schema, limits).

    >>> prompt_hash({"model": "m", "max_tokens": 1}) == prompt_hash({"model": "m", "max_tokens": 2})
    True
    """
    parts = {name: body[name] for name in _FIELDS if name in body}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class Recording:
    """A file of answers.

    Args:
        path: Where it lies, or will.
        server: Address of the server whose answers are added; empty where the file is only read.

    Attributes:
        origin: What its first line says: server, when it was begun, by which version.
        replayed: Answers that were taken from it.

    Raises:
        InputError: It is not there although nothing is to be added, or a line is none of a recording's.
    """

    def __init__(self, path: Path, server: str = "") -> None:
        self.path, self._server = path, server
        self.origin: dict[str, Any] = {}
        self.replayed = 0
        self._answers: dict[str, dict[str, Any]] = {}
        if path.is_file():
            self._read()
        elif not server:
            raise InputError(
                f"there is no recording at {path}; record one with analyst.base_url set, or correct "
                "analyst.recording."
            )

    @property
    def replays(self) -> bool:
        """Whether answers come from the file alone."""
        return not self._server

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return what was said to a prompt, None where it is not recorded."""
        return self._answers.get(key)

    def add(self, key: str, kind: str, body: Mapping[str, Any], said: Mapping[str, Any], usage: Any) -> None:
        """Write an answer down, unless this very one is there.

        Args:
            key: From `prompt_hash`.
            kind: What the question was for.
            body: The request.
            said: What was said.
            usage: What the server says of its tokens.
        """
        old = self._answers.get(key)
        if old is not None and all(old.get(name) == value for name, value in said.items()):
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = {"prompt": key, "kind": kind, "model": body.get("model", ""), **said, "usage": usage, "at": now}
        self._append(row, self.origin or self._begin(now))
        self._answers[key] = row

    def unrecorded(self, prompts: Sequence[tuple[str, str]]) -> str:
        """Return what a person is told of prompts that are not in the file.

        Args:
            prompts: (kind, hash) of each.
        """
        kinds = ", ".join(sorted({kind for kind, _ in prompts}))
        when = f", begun {self.origin['begun']} on {self.origin['server']}" if self.origin else ""
        return (
            f"{len(prompts)} prompts ({kinds}) are not recorded in {self.path}{when}, such as "
            f"{prompts[0][1][:16]}: what is asked has changed. Record them with analyst.base_url set, or "
            "use the settings, data and version that it was made with."
        )

    def _begin(self, now: str) -> dict[str, Any]:
        from importlib.metadata import PackageNotFoundError, version

        try:
            made_by = version("trace-assets")
        except PackageNotFoundError:
            made_by = ""
        self.origin = {"kind": KIND, "server": self._server, "begun": now, "version": made_by}
        return self.origin

    def _append(self, row: Mapping[str, Any], first: Mapping[str, Any]) -> None:
        """Write a line, and the first one where there is none: each answer was paid for."""
        make_folder(self.path.parent)
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may be in the middle of a line
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)  # what follows is a line that a kill cut short
            rows = (row,) if whole else (first, row)
            file.write("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows).encode())
            file.flush()
            os.fsync(file.fileno())
        if not whole:
            sync_folder(self.path.parent)

    def _read(self) -> None:
        lines = self.path.read_bytes().split(b"\n")
        if len(lines) == 1:  # a kill cut the first line short: nothing is recorded yet
            return
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if number == 1:
                    if row["kind"] != KIND:
                        raise ValueError
                    self.origin = row
                else:
                    self._answers[row["prompt"]] = {**row, "text": str(row["text"])}
            except (ValueError, KeyError, TypeError) as error:
                if number > 1 and number >= len(lines) - 1:
                    continue  # a kill cut it short
                raise InputError(
                    f"{self.path}, line {number}: it is no line of a recording; take the file from where it "
                    "was made, or record anew into another one (analyst.recording)."
                ) from error
