from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.evaluation.test_set_log import Configuration, how_often, open_test_split, openings


def configuration(routing: str = "r1", target: str = "t1") -> Configuration:
    return Configuration(target=target, base="b", adapters={"x": "1", "y": "2"}, routing=routing)


def test_the_same_configuration_is_one_opening(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "test_split.json"
    first = open_test_split(path, configuration())
    again = open_test_split(path, configuration())
    assert (first.number, first.times, again.number, again.times) == (1, 1, 1, 2)
    assert again.opened_at == first.opened_at
    assert len(openings(path)) == 1 and "opened once" in how_often(openings(path))


def test_another_configuration_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "test_split.json"
    open_test_split(path, configuration("r1"))
    second = open_test_split(path, configuration("r2"))
    assert second.number == 2 and "opened 2 times" in how_often(openings(path, "t1"))


def test_another_version_of_the_target_has_other_test_tasks(tmp_path: Path) -> None:
    path = tmp_path / "test_split.json"
    open_test_split(path, configuration(target="t1"))
    assert open_test_split(path, configuration(target="t2")).number == 1
    assert len(openings(path, "t2")) == 1 and len(openings(path)) == 2


def test_the_order_of_adapters_does_not_matter() -> None:
    swapped = Configuration(target="t1", base="b", adapters={"y": "2", "x": "1"}, routing="r1")
    assert swapped.fingerprint == configuration().fingerprint
    assert configuration("r2").fingerprint != configuration().fingerprint


def test_a_damaged_record_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "test_split.json"
    path.write_text("[{")
    with pytest.raises(InputError, match="cannot be read"):
        open_test_split(path, configuration())
    assert path.read_text() == "[{"


def test_openings_at_the_same_time_are_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "test_split.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: open_test_split(path, configuration(f"r{n % 4}")), range(24)))
    found = openings(path)
    assert sorted(row.number for row in found) == [1, 2, 3, 4] and sum(row.times for row in found) == 24
