"""What a dry run prints, and which names it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_assets.cli.forecast import forecast, show
from trace_assets.cli.main import main
from trace_assets.cli.options import known_items
from trace_assets.errors import InputError
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.history import record
from trace_assets.study import Study


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path))
    return Study(Home.open(tmp_path), load_settings(None, []))


def test_estimates_come_from_the_ledger_and_say_how_many_runs_they_rest_on(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds, usd in ((50.0, 1.0), (70.0, 3.0)):
        spent = {("wall", "s"): seconds, ("rollouts", "episodes"): 800.0}
        record(study.store, spent, stage="rollouts", asset="trajectories", partition="embedded", cost_usd=usd)
    found = forecast(study)
    due = {str(step.item): one for step, one in found.due}
    assert due["trajectories[embedded]"].n == 2 and due["trajectories[embedded]"].usd.middle == 2.0
    assert due["routing"].n == 0 and "routing" in found.without_history()
    assert not any(name.startswith("config/") for name in found.without_history())
    from rich.console import Console

    show(found, Console(width=200, highlight=False))
    printed = capsys.readouterr().out
    assert "trajectories[embedded]  1 min 00 s [50.0 s, 1 min 10 s], 800 rollouts, $2.00 (n = 2)" in printed
    assert "Not counted, never made before: " in printed and "routing" in printed
    document = json.loads(json.dumps(found.document()))
    assert document["total_due"]["seconds"] == {"middle": 60.0, "low": 50.0, "high": 70.0}


def test_names_stand_for_assets_and_their_partitions(study: Study) -> None:
    assert [str(item) for item in known_items(study, ["trajectories", "routing", "tasks[embedded]"])] == [
        "trajectories[embedded]",
        "routing",
        "tasks[embedded]",
    ]
    assert known_items(study, []) == []
    assert known_items(study, ["adapter"]) == []  # no capability was found yet


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adaptor", "no asset 'adaptor'"),
        ("adapter[x]", "there are no partitions"),
        ("tasks[embeded]", "There are embedded"),
        ("tasks[embedded", "lacks its closing bracket"),
        ("routing[x]", "'routing' has no partitions"),
    ],
)
def test_a_name_that_is_not_there_is_told(study: Study, name: str, words: str) -> None:
    with pytest.raises(InputError) as told:
        known_items(study, [name])
    assert words in str(told.value)


def test_the_command_refuses_such_a_name(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["trace", "sync", "--dry-run", "--select", "adapter[x]"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "adapter[x]" in capsys.readouterr().err


def test_what_a_forecast_makes_first_stands_on_nothing_that_comes_later() -> None:
    """Else a dictionary is made, paid, and made again once what it stands on is there."""
    from trace_assets.cli.pipeline import DIAGNOSIS, DISCOVERED, TRIAGED
    from trace_assets.definitions import pipeline

    stands_on = {one.name: set(one.deps) for one in pipeline()}
    for first in (TRIAGED, DISCOVERED):
        for name in first:
            assert stands_on.get(name, set()) & set(DIAGNOSIS) <= set(first), name
