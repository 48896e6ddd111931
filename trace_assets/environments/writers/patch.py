"""Changes to a module as a model writes them: search and replace, applied strictly or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")
_LONGEST_LINE = 120
"""Characters of a line that are quoted in a complaint."""
_MOST_COMPARED = 200
"""Lines of a search that are compared to say where it goes wrong."""


class PatchError(ValueError):
    """A change that cannot be applied; says which, and why."""


@dataclass(frozen=True)
class Change:
    """Lines that stand in the module, and those that take their place.

    Attributes:
        search: Whole lines, each ending in a line break.
        replace: Likewise; empty to leave them out.
    """

    search: str
    replace: str


def changes_in(text: str) -> list[Change]:
    r"""Return the changes in a reply, in order; words and fences around them are passed over.

    Raises:
        PatchError: One is not finished, or names nothing to look for.

    >>> changes_in("Sure.\n<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n")
    [Change(search='a = 1\n', replace='a = 2\n')]
    """
    found: list[Change] = []
    parts: list[list[str]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        number = len(found) + 1
        if _SEARCH.fullmatch(line):
            if parts:
                raise PatchError(f"change {number} is not finished: another one begins inside it")
            parts = [[]]
        elif len(parts) == 1 and _MIDDLE.fullmatch(line):
            parts.append([])
        elif len(parts) == 2 and _REPLACE.fullmatch(line):
            search, replace = ("".join(f"{one}\n" for one in part) for part in parts)
            if not search.strip():
                raise PatchError(f"change {number} has no lines to search for")
            found.append(Change(search, replace))
            parts = []
        elif parts:
            parts[-1].append(line)
    if parts:
        missing = "=======" if len(parts) == 1 else ">>>>>>> REPLACE"
        raise PatchError(f"change {len(found) + 1} is not finished: its line {missing} is missing")
    return found


def patched(source: str, changes: list[Change]) -> str:
    r"""Return a module with changes made to it: all of them, or none.

    Every search is looked for in the module as it was, so that no change depends on another.

    Raises:
        PatchError: Lines that do not stand in the module, that stand there more than once, or that two
            changes share.

    >>> patched("a = 1\nb = 1\n", [Change("b = 1\n", "b = 2\n"), Change("a = 1\n", "")])
    'b = 2\n'
    """
    whole = "\n" + (source if source.endswith("\n") else f"{source}\n")
    spans: list[tuple[int, int, int, str]] = []
    for number, change in enumerate(changes, start=1):
        # Whole lines only: the break before the first one belongs to what is looked for.
        at = whole.find("\n" + change.search)
        if at < 0:
            raise PatchError(f"change {number} does not apply: {_where_it_differs(source, change.search)}")
        again = whole.find("\n" + change.search, at + 1)
        if again >= 0:
            first, second = (whole.count("\n", 0, one) + 1 for one in (at, again))
            raise PatchError(
                f"change {number} does not apply: its lines stand at line {first} and at line {second}; "
                "search for more lines, so that they stand once"
            )
        spans.append((at + 1, at + 1 + len(change.search), number, change.replace))
    spans.sort()
    parts, end, before = [], 1, 0
    for start, stop, number, replace in spans:
        if start < end:
            raise PatchError(f"changes {before} and {number} change the same lines")
        parts += [whole[end:start], replace]
        end, before = stop, number
    return "".join([*parts, whole[end:]])


def _where_it_differs(source: str, search: str) -> str:
    """Say which line of a search does not stand in the module, from the place that agrees longest."""
    lines = source.split("\n")
    wanted = search.split("\n")[:-1][:_MOST_COMPARED]
    agreed, place = 0, 0
    for start in range(len(lines)):
        count = 0
        while count < len(wanted) and start + count < len(lines) and lines[start + count] == wanted[count]:
            count += 1
        if count > agreed:
            agreed, place = count, start
    if not agreed:
        return f"its first line, {_quoted(wanted[0])}, does not stand in the module"
    if agreed == len(wanted):
        return f"it agrees with the module from line {place + 1} on, but not to its end"
    after = place + agreed
    there = _quoted(lines[after]) if after < len(lines) else "its end"
    return f"where it says {_quoted(wanted[agreed])}, line {after + 1} of the module is {there}"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " [...]")
