"""A definition's hash moves with what it does, and not with where it lies or what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trace_assets.code_graph import CodeGraph

HOUSE = {
    "room/greeting.py": '''
"""Greets."""
from house.words import HELLO, shout


class Greeter:
    """Greets."""

    def greet(self, name: str = "you") -> str:
        return shout(f"{HELLO} {name}")


def greeted(names: list[str]) -> list[str]:
    return [Greeter().greet(name) for name in names]
''',
    "words.py": """
HELLO = "hello"
UNUSED = 1


def shout(text):
    return text.upper() + "!" * count(text)


def count(text):
    return 1 if len(text) < 9 else len(shout(""))
""",
    "store.py": "def put(value):\n    return value\n",
}


def graph(folder: Path, files: Mapping[str, str], passed: tuple[str, ...] = ()) -> CodeGraph:
    root = folder / f"{len(list(folder.iterdir()))}" / "house"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return CodeGraph(root, passed)


def greeting(folder: Path, files: Mapping[str, str], module: str = "room.greeting") -> bytes:
    return graph(folder, files).hash(module, "greeted")


def edited(name: str, old: str, new: str) -> dict[str, str]:
    assert old in HOUSE[name]
    return {**HOUSE, name: HOUSE[name].replace(old, new)}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("room/greeting.py", '"you"', '"me"'),
        ("room/greeting.py", "{HELLO} {name}", "{name}"),
        ("words.py", '"hello"', '"hi"'),
        ("words.py", '"!" *', '"?" *'),
        ("words.py", "len(text) < 9", "len(text) < 8"),
    ],
)
def test_what_runs_counts_however_far_away_it_is(tmp_path: Path, name: str, old: str, new: str) -> None:
    assert greeting(tmp_path, edited(name, old, new)) != greeting(tmp_path, HOUSE)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (
            "room/greeting.py",
            "    def greet(self, name: str",
            "    # politely\n    def greet(\n        self, name: str",
        ),
        ("room/greeting.py", '    """Greets."""\n', '    """Says hello."""\n'),
        ("room/greeting.py", "-> list[str]", "-> object"),
        ("words.py", "UNUSED = 1", "UNUSED = 2"),
        ("store.py", "return value", "return 1"),
    ],
)
def test_words_layout_and_what_is_not_used_do_not_count(
    tmp_path: Path, name: str, old: str, new: str
) -> None:
    assert greeting(tmp_path, edited(name, old, new)) == greeting(tmp_path, HOUSE)


def test_moving_and_renaming_change_nothing(tmp_path: Path) -> None:
    moved = {
        "hall/all.py": HOUSE["words.py"]
        .replace("shout", "cry")
        .replace("HELLO", "WORD")
        .replace("count", "n_of")
        + HOUSE["room/greeting.py"]
        .replace("from house.words import HELLO, shout", "")
        .replace("Greeter", "Host")
        .replace("HELLO", "WORD")
        .replace("shout", "cry"),
    }
    aliased = edited("room/greeting.py", "import HELLO, shout", "import HELLO as W\nfrom house import words")
    aliased["room/greeting.py"] = (
        aliased["room/greeting.py"].replace("shout(", "words.shout(").replace("{HELLO}", "{W}")
    )
    inside = edited(
        "room/greeting.py",
        "        return shout",
        "        from house.words import shout\n        return shout",
    )
    inside["room/greeting.py"] = inside["room/greeting.py"].replace("HELLO, shout\n", "HELLO\n", 1)
    before = greeting(tmp_path, HOUSE)
    assert greeting(tmp_path, moved, "hall.all") == before
    assert greeting(tmp_path, aliased) == before
    assert greeting(tmp_path, inside) == before


def test_what_is_given_on_by_another_module_is_found_where_it_is_defined(tmp_path: Path) -> None:
    given_on = {**HOUSE, "room/__init__.py": "from house.words import shout\n"}
    given_on["room/greeting.py"] = HOUSE["room/greeting.py"].replace(
        "from house.words import HELLO, shout", "from house.room import shout\nfrom house.words import HELLO"
    )
    assert greeting(tmp_path, given_on) == greeting(tmp_path, HOUSE)


def test_a_call_in_another_place_is_another_program(tmp_path: Path) -> None:
    swapped = {"a.py": "def one(): return 1\ndef two(): return 2\ndef both(): return one() - two()\n"}
    other = {"a.py": swapped["a.py"].replace("one() - two()", "two() - one()")}
    assert graph(tmp_path, swapped).hash("a", "both") != graph(tmp_path, other).hash("a", "both")


def test_a_name_that_is_set_inside_is_followed_all_the_same(tmp_path: Path) -> None:
    """Whether a name means the module's or one set in the function is not guessed: nothing is missed."""
    text = "limit = 1\n\n\ndef f(x):\n    g = [limit for limit in x]\n    return limit\n"
    low, high = (
        graph(tmp_path, {"a.py": text}),
        graph(tmp_path, {"a.py": text.replace("limit = 1", "limit = 2")}),
    )
    assert low.hash("a", "f") != high.hash("a", "f")


def test_what_a_module_does_on_import_counts_for_all_of_it(tmp_path: Path) -> None:
    text = "import json\n\nKNOWN = {}\nKNOWN['a'] = 1\n\n\ndef f():\n    return KNOWN\n"
    one, two = graph(tmp_path, {"a.py": text}), graph(tmp_path, {"a.py": text.replace("= 1", "= 2")})
    assert one.hash("a", "f") != two.hash("a", "f")


def test_a_passed_module_counts_for_nothing_unless_it_is_asked_for(tmp_path: Path) -> None:
    other = edited("words.py", '"hello"', '"hi"')
    one, two = (graph(tmp_path, files, passed=("words",)) for files in (HOUSE, other))
    assert one.hash("room.greeting", "greeted") == two.hash("room.greeting", "greeted")
    assert one.hash_all("words") != two.hash_all("words")


def test_all_of_a_package_is_one_hash_whatever_its_files(tmp_path: Path) -> None:
    split = {"p/a.py": "def f(): return 1\n", "p/b.py": "from house.p.a import f\n\n\ndef g(): return f()\n"}
    joined = {"p/c.py": "def g(): return f()\ndef f(): return 1\n"}
    assert graph(tmp_path, split).hash_all("p") == graph(tmp_path, joined).hash_all("p")


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    known = graph(tmp_path, HOUSE)
    with pytest.raises(LookupError, match=r"'nothing' in house\.words"):
        known.hash("words", "nothing")
    with pytest.raises(LookupError, match=r"no module 'cellar'"):
        known.hash_all("cellar")
