"""Changes in a reply: what applies, what does not and is told with its line, and what a whole module is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.environments.writers.reply import (
    FUNCTIONS,
    Change,
    PatchError,
    changes_in,
    find_mended,
    patched,
    problem,
)

SOURCE = "import json\n\nA = 1\nB = 2\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 1\n"


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


TWO = block("A = 1\n", "A = 3\n") + "\n" + block("def g():\n    return 1\n", "def g():\n    return 2\n")
MENDED = SOURCE.replace("A = 1", "A = 3").replace("def g():\n    return 1", "def g():\n    return 2")


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        f"I change two things.\n\n{TWO}\nDone.",
        f"```\n{TWO}```",
        f"```python\n{TWO}```",
        f"<think>{block('B = 2', 'B = 9')}</think>{TWO}",
        TWO.replace("\n", "\r\n"),
        TWO.rstrip("\n"),
    ],
    ids=lambda text: repr(text[:24]),
)
def test_changes_are_made_whatever_stands_around_them(text: str) -> None:
    found = find_mended(text, SOURCE)
    assert (found.kind, found.source) == ("module", MENDED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (block("A = 7\n", ""), "change 1 does not apply: its first line, 'A = 7', does not stand"),
        (block("A = 1 \n", "A = 2\n"), "its first line, 'A = 1 ', does not stand"),
        (block("= 1\n", "= 2\n"), "its first line, '= 1', does not stand"),
        (
            block("A = 1\n", "A = 3\n") + block("B = 2\n\ndef f():\n", ""),
            "change 2 does not apply: where it says 'def f():', line 6 of the module is ''",
        ),
        (block("    return 1\n", ""), "its lines stand at line 8 and at line 12"),
        (block("A = 1\nB = 2\n", "") + block("B = 2\n", "B = 3\n"), "changes 1 and 2 change the same lines"),
        (block("\n", "x = 1\n"), "change 1 has no lines to search for"),
        (TWO + "<<<<<<< SEARCH\nB = 2\n", "change 3 is not finished: its line ======= is missing"),
        (TWO[:40], "change 1 is not finished: its line >>>>>>> REPLACE is missing"),
        ("<<<<<<< SEARCH\nA = 1\n" + TWO, "change 1 is not finished: another one begins inside it"),
    ],
)
def test_a_change_that_does_not_apply_changes_nothing_and_is_told(text: str, said: str) -> None:
    found = find_mended(text, SOURCE)
    assert (found.kind, found.source) == ("unapplied", "")
    assert said in found.remark


def test_a_whole_module_counts_even_where_it_quotes_a_change() -> None:
    lines = "".join(f"def {name}(*a):\n    return []\n" for name in FUNCTIONS)
    module = f'NOTE = """\n{block("A = 1", "")}"""\n{lines}'
    assert find_mended(f"```python\n{module}```", SOURCE).source == module


def test_changes_to_nothing_are_no_module() -> None:
    assert find_mended(TWO, "").source != MENDED
    assert find_mended("I'm sorry, I cannot help with that.", SOURCE).kind == "refusal"


LINES = st.lists(st.sampled_from(["a", "b", "  a", "", "c"]), min_size=1, max_size=8)


@given(LINES, LINES, LINES)
def test_a_change_is_made_once_or_refused(lines: list[str], search: list[str], replace: list[str]) -> None:
    """Told by looking at every place."""
    size = len(search)
    places = [at for at in range(len(lines)) if lines[at : at + size] == search]
    source, new = "\n".join(lines) + "\n", "\n".join(replace) + "\n"
    change = Change("\n".join(search) + "\n", new)
    if len(places) == 1:
        expected = [*lines[: places[0]], *replace, *lines[places[0] + size :]]
        assert patched(source, [change]) == "\n".join(expected) + "\n"
    else:
        with pytest.raises(PatchError, match="does not apply"):
            patched(source, [change])


def test_changes_are_read_as_they_were_written() -> None:
    assert changes_in(block("a\n\n  b\n", "")) == [Change("a\n\n  b\n", "")]


def test_an_error_of_syntax_is_told_with_its_line() -> None:
    assert problem("x = 1\ndef f(a)\n    pass\n") == "expected ':' in line 2: 'def f(a)'"
