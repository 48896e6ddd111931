"""Code versions move with the code that decides a result, and with nothing else."""

from pathlib import Path

import pytest

from trace_assets import sources
from trace_assets.assets.decided_by import DECIDED_BY
from trace_assets.definitions import stage_assets
from trace_assets.sources import python_version, source_version

SOURCE = '''
class Greeter:
    """Greets."""

    def greet(self, name: str = "you") -> str:
        return f"hello {name}"
'''


def test_every_asset_has_a_version_of_its_code() -> None:
    empty = source_version()
    codes = {spec.key.to_user_string(): spec.code_version for asset in stage_assets() for spec in asset.specs}
    assert {name for name, code in codes.items() if code in (None, "", "1", empty)} == set()
    assert set(DECIDED_BY) <= set(codes)


def test_words_and_layout_do_not_count() -> None:
    same = SOURCE.replace("Greets.", "Says hello.").replace('"""\n\n', '"""\n# politely\n\n\n')
    same = same.replace('self, name: str = "you"', 'self,\n        name: str = "you",\n    ')
    assert same != SOURCE and python_version(same) == python_version(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"), [("hello", "hi"), ('"you"', "None"), ("greet(", "meet("), ("{name}", "")]
)
def test_what_runs_counts(old: str, new: str) -> None:
    assert python_version(SOURCE.replace(old, new)) != python_version(SOURCE)


def test_a_file_of_any_kind_moves_those_that_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    (tmp_path / "room" / "prompts").mkdir(parents=True)
    (tmp_path / "room" / "noun.py").write_text("x = 1")
    (tmp_path / "room" / "other.py").write_text("y = 1")
    prompt = tmp_path / "room" / "prompts" / "label.md"
    prompt.write_text("Label it.")
    sources._content.cache_clear()
    before = {name: source_version(name) for name in ("room", "room.noun", "room/prompts/label.md")}
    prompt.write_text("Label it well.")
    sources._content.cache_clear()
    after = {name: source_version(name) for name in before}
    assert [name for name in before if before[name] != after[name]] == ["room", "room/prompts/label.md"]
    with pytest.raises(FileNotFoundError, match=r"room\.nothing"):
        source_version("room.nothing")
    sources._content.cache_clear()
