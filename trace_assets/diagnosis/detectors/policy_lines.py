"""A policy's text as sentences under headings, however it is set: lines, lists, wrapped prose, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

ANY_OF = re.compile(r"\b(?:if|when)\b.*\b(?:any|one|either|at least one) of (?:the following|these)\b")
HEADING = re.compile(r"^(?:#+\s*(?=\S)|(?=\*\*[^*]+\*\*:?$))(.+?)\s*$")
_QUESTION = re.compile(r"^(?:q(?:uestion)?\s*\d*\s*[:.)]\s*(?=(.*))|(?=(\S.*\?)\s*\Z)).+", re.IGNORECASE)
"""A line that asks is what the lines under it are about."""
_LABEL = re.compile(
    r"^(?:a(?:nswer)?\s*\d*\s*[:.)]|\[[\w.-]{1,6}\]|\d+(?:\.\d+)*[.)]|\d+\.\d+)\s+(?=\D)", re.IGNORECASE
)
"""What a line is numbered or lettered with."""
ITEM = re.compile(r"(?:[-*•]|\(?(?:\d+|[a-z])[.)])\s*(?=\S)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_WORD = re.compile(r"[a-z]+")
_ROW = re.compile(r"\|(.*)\|\Z")
_RULE = re.compile(r"[|:\s-]+\Z")
_ENDED = re.compile(r"[.!?:|*]\Z")
_FULL = 60
"""Letters from which a line without an end mark was broken for want of room, and goes on in the next."""


@dataclass(frozen=True)
class Sentence:
    """One sentence, lower case, under its heading.

    Attributes:
        text: The sentence.
        heading: The nearest heading above it.
    """

    text: str
    heading: str = ""

    @cached_property
    def words(self) -> list[str]:
        """Its words."""
        return _WORD.findall(self.text)


def sentences_of(text: str) -> list[Sentence]:
    r"""Return the sentences of a policy in order, lower case.

    Lines that were broken for want of room are one. A row of a table gives a sentence for each of its cells:
    what the row is about, what the column is about, and what the cell says.

    >>> [one.text for one in sentences_of("# Loans\nLoans last\nfour weeks. They can be renewed.")]
    ['loans last four weeks.', 'they can be renewed.']
    >>> table = "| Wish | Allowed |\n| --- | --- |\n| renew a loan | once |"
    >>> [one.text for one in sentences_of(table)]
    ['renew a loan: allowed: once']
    >>> [(one.heading, one.text) for one in sentences_of("Q: May loans be renewed?\nA: Only while open.")]
    [('may loans be renewed?', 'only while open.')]
    >>> [one.text for one in sentences_of("[R1] Be kind.\n3.2 Be short.")]
    ['be kind.', 'be short.']
    """
    found: list[Sentence] = []
    heading = ""
    for line in _whole_lines(text):
        title = HEADING.match(line) or _QUESTION.match(line)
        if title:
            heading = next(one for one in title.groups() if one is not None).lower()
        else:
            parts = _SENTENCE.split(_LABEL.sub("", line.strip(" \t-*•")).lower())
            found += [Sentence(part, heading) for part in parts if part]
    return found


def _whole_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, broken ones put together, tables cell by cell."""
    columns: list[str] = []
    whole = ""
    for raw in text.splitlines():
        line = raw.strip()
        row = _ROW.match(line)
        if whole and (row or not _goes_on(whole, line)):
            yield whole
            whole = ""
        if row is None:
            columns = []
            whole = f"{whole} {line}" if whole else line
            if HEADING.match(whole) or _QUESTION.match(whole):
                yield whole
                whole = ""
        elif not _RULE.match(line):
            cells = [cell.strip() for cell in row.group(1).split("|")]
            yield from _cells(columns, cells)
            columns = columns or cells
    if whole:
        yield whole


def _goes_on(line: str, following: str) -> bool:
    """Tell whether a line goes on in the one that follows."""
    if not following or ITEM.match(following) or HEADING.match(following) or _ENDED.search(line):
        return False
    return following[0].islower() or len(line) >= _FULL


def _cells(columns: list[str], cells: list[str]) -> Iterator[str]:
    """Yield what the cells of a row say under their columns; the first row of a table names these."""
    for column, cell in list(zip(columns, cells, strict=False))[1:]:
        if any(character.isalnum() for character in cell):
            yield f"{cells[0]}: {column}: {cell}"


def listed_apart(lines: Iterable[str]) -> list[str]:
    """Return lines, with what a line lists behind a colon, parted by semicolons, as a list under it."""
    found: list[str] = []
    waiting = ""
    for line in lines:
        waiting = f"{waiting} {line}" if waiting else line
        head, colon, rest = waiting.partition(":")
        if not (ANY_OF.search(head) and colon and rest.strip()):
            found.append(waiting)
            waiting = ""
        elif line and ("." not in rest or rest.rstrip().endswith(";")):
            continue  # the list goes on in the next line
        else:
            listed, dot, after = rest.partition(".")
            parts = [part.strip() for part in listed.split(";")]
            found += [f"{head}:", *(f"- {part}" for part in parts)] if len(parts) > 1 else [waiting]
            found += [after.strip()] if dot and after.strip() and len(parts) > 1 else []
            waiting = ""
    return [*found, waiting] if waiting else found
