"""Which tables a query may read: by the words in it, and in the views and macros that it names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

_WORD = re.compile(r"\w+")
_MADE = re.compile(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:VIEW|MACRO|FUNCTION|TABLE)\s+\"?(\w+)", re.IGNORECASE)
_ANYTHING = frozenset({"query", "query_table", "glob"})
"""Functions that read what a text says, which may be put together from parts."""


def touched(sql: str, tables: Collection[str], scripts: Iterable[str]) -> set[str]:
    """Return the tables that a query may read; rather too many than too few.

    Args:
        sql: The query.
        tables: Names of all tables.
        scripts: SQL that makes views and macros.

    >>> views = ["CREATE VIEW failures AS SELECT * FROM trajectories WHERE NOT success"]
    >>> sorted(touched("SELECT count(*) FROM Failures", ["labels", "trajectories"], views))
    ['trajectories']
    >>> sorted(touched("FROM read_parquet('x/*.parquet')", ["labels", "trajectories"], views))
    ['labels', 'trajectories']
    """
    defined = _definitions(scripts)
    words, new = set[str](), _words(sql)
    while new - words:
        words |= new
        new = set().union(*(_words(defined[word]) for word in words & defined.keys()))
    if words & _ANYTHING or any("parquet" in word or word.startswith("read_") for word in words):
        return set(tables)
    return words & set(tables)


def _definitions(scripts: Iterable[str]) -> Mapping[str, str]:
    """Return the script that makes a view or macro by its name."""
    return {name.lower(): script for script in scripts for name in _MADE.findall(script)}


def _words(sql: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(sql)}
