"""Accepted answers on disk, by the hash of their question: a question is paid for once.

One small file an answer, put in place by one rename, so that any number of processes may read and write.
Only answers that passed their examination are kept, so nothing bad is ever replayed; and two remarks on
questions that cannot be answered whole ("full", "cut"), so that a re-run does not ask them again either.
No request is kept, and so no key can be.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from trace_assets.diagnosis.model.question import A, Question
from trace_assets.store.durable import make_folder
from trace_assets.store.home import replacing_file
from trace_assets.store.lines import sealed, unsealed

Remark = Literal["full", "cut"]
"""`full`: the question does not fit the model's context; `cut`: its answer does not fit a reply."""


class Answers:
    """The answers in one folder."""

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
