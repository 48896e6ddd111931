"""Demonstrations with other identifiers in them: that one is copied is to be learned, and not which.

A policy that is shown some hundred episodes learns by heart which order number comes where, long before it
learns to find the number in what it read. So each time an episode is learned its identifiers are others, the
same ones throughout. Identifiers are words of letters and digits, such as K48 or user_12, that the agent
copied; only their digits change, into those of another identifier that occurs in some demonstration, since
letters often tell kinds apart. Such an episode was not played: nothing but imitation is to rest on it.

Importing this module loads no torch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from trace_assets.training.episodes import Row

IDENTIFIER = re.compile(r"\b(?=\w*[A-Za-z])(?=\w*[0-9])\w+\b")


def kind_of(identifier: str) -> str:
    """Return what identifiers have in common that may stand for each other.

    >>> kind_of("K48"), kind_of("user_12")
    ('K00', 'user_00')
    """
    return re.sub("[0-9]", "0", identifier)


class Renaming:
    """Gives demonstrations other identifiers.

    Args:
        rows: All demonstrations: their identifiers are what there is to choose from.
        tokenizer: The model's.
        order: Decides what becomes of an identifier.
    """

    def __init__(self, rows: Sequence[Row], tokenizer: Any, order: random.Random) -> None:
        self._tokenizer, self._order = tokenizer, order
        pool: dict[str, set[str]] = {}
        for row in rows:
            for identifier in copied(self._parts(row) or ()):
                pool.setdefault(kind_of(identifier), set()).add(identifier)
        self.pool: Mapping[str, list[str]] = {kind: sorted(found) for kind, found in pool.items()}
        """Kind of identifier to those that some demonstration copies."""

    def another(self, row: Row) -> Row:
        """Return an episode with other identifiers; itself where it copies none that others could replace.

        Args:
            row: The episode; left as it is where its text would be cut into other tokens.
        """
        parts = self._parts(row)
        if parts is None:
            return row
        names = self._names({kind_of(one) for one in copied(parts)}, "".join(text for text, _ in parts))
        if not names:
            return row

        def swapped(text: str) -> list[int]:
            return self._ids(IDENTIFIER.sub(lambda found: names.get(found[0], found[0]), text))

        pieces = [(swapped(text), own) for text, own in parts]
        (prompt, _), *rest = pieces
        completion = [token for ids, _ in rest for token in ids]
        own = [int(mine) for ids, mine in rest for _ in ids]
        return Row(prompt, completion, [0.0] * len(completion), own, row.reward, row.success)

    def _names(self, kinds: set[str], text: str) -> dict[str, str]:
        """Return what the identifiers of a text become: no two the same."""
        found: dict[str, str] = {}
        for kind in sorted(kinds):
            present = [one for one in dict.fromkeys(IDENTIFIER.findall(text)) if kind_of(one) == kind]
            choice = self.pool.get(kind, [])
            if len(choice) >= len(present):
                found |= dict(zip(present, self._order.sample(choice, len(present)), strict=True))
        return found

    def _parts(self, row: Row) -> list[tuple[str, bool]] | None:
        """Return an episode in parts that were read or written; None where its text has other tokens."""
        whole = row.prompt_ids + row.completion_ids
        marks = [0] * len(row.prompt_ids) + row.own
        parts: list[tuple[str, bool]] = []
        for own, some in groupby(zip(whole, marks, strict=True), key=lambda one: bool(one[1])):
            ids = [token for token, _ in some]
            text = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            if self._ids(text) != ids:
                return None
            parts.append((text, own))
        return parts

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def copied(parts: Sequence[tuple[str, bool]]) -> list[str]:
    """Return the identifiers that were read, and written after that.

    >>> copied([("order K48 or K05?", False), ("get K48, W1", True), ("W1 is there", False)])
    ['K48']
    """
    read: set[str] = set()
    found: dict[str, None] = {}
    for text, own in parts:
        names = IDENTIFIER.findall(text)
        if own:
            found |= dict.fromkeys(name for name in names if name in read)
        else:
            read |= set(names)
    return list(found)
