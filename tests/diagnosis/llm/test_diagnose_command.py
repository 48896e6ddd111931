"""`trace diagnose` with a model, through the command line: the whole way, trouble, a cap and a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from chat_server import ChatServer
from honest_reader import HonestReader

from trace_assets.diagnosis.llm.analyst import rehearse
from trace_assets.records import Capability, Contrast, Label, LedgerEntry, Task
from trace_assets.store import Home, Store
from trace_assets.store.lines import read_lines
from trace_assets.store.tables import WHOLE
from trace_assets.store.trajectories import write_trajectories

pytestmark = pytest.mark.slow
KEY = "sk-verysecretkey0123456789"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one ingested batch."""
    made = Home.open(tmp_path / "home")
    box = Store(made.inbox / "rehearsal")
    box.write([], Task)
    version = write_trajectories(box, rehearse(60).trajectories, WHOLE)
    (box.folder / "version").write_text(version, encoding="utf-8")
    return made.path


@pytest.fixture
def wild(reader: HonestReader) -> Iterator[ChatServer]:
    with ChatServer(reader.answer, rate=0.2, key=KEY, hang_seconds=12, seed=4) as server:
        yield server


def diagnose(home: Path, url: str, *more: str, command: str = "diagnose") -> subprocess.CompletedProcess[str]:
    settings = [
        *("discovery.analyst=both", "discovery.model=m", "discovery.min_support=3", "labels.model=m"),
        "labels.causes=false",  # this reader knows no such question; they have tests of their own
        *(f"analyst.base_url={url}", "analyst.key_variable=TEAM_KEY", "analyst.pause_seconds=0.01"),
        *("analyst.timeout_seconds=10", "analyst.prompt_usd=1", "analyst.completion_usd=4", *more),
    ]
    options = [part for one in settings for part in ("--set", one)]
    environment = {
        **os.environ,
        "TRACE_HOME": str(home),
        "TEAM_KEY": KEY,
        "OPENAI_LOG": "debug",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "trace_assets", *command.split(), *options],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_the_whole_way_with_trouble_tells_no_secret_and_asks_nothing_twice(
    home: Path, wild: ChatServer
) -> None:
    first = diagnose(home, wild.url)
    made = len(wild.bodies)
    store = Store(home / "tables")
    candidates = store.read(Capability)
    assert {one.analyst for one in candidates} == {"detectors", "model:m"}, first.stderr[-2000:]
    assert "requests" in first.stderr
    assert "prompt and" in first.stderr, "there was no forecast"
    labels = store.read(Label)
    counts: dict[tuple[str, int], int] = {}
    for row in labels:
        counts[row.labeller, row.labelling_pass] = counts.get((row.labeller, row.labelling_pass), 0) + 1
    assert counts[("model:m", 1)] == counts[("model:m", 2)] == 120 * len(candidates)
    gaps = {row.capability_id: row.gap for row in store.read(Contrast)}
    for one in candidates:
        if one.analyst == "model:m":
            assert (gaps[one.capability_id] or 0) > 0.4, "a planted deficit has no gap"
    second = diagnose(home, wild.url)
    assert len(wild.bodies) == made, "a re-run made calls"
    assert wild.keys == {f"Bearer {KEY}"}
    spoilt = sum(count for kind, count in wild.seen.items() if kind != "ok")
    assert spoilt / made > 0.1
    ledger = [row for row in store.read(LedgerEntry) if row.kind == "model_calls"]
    journal = [text for _, text in read_lines(home / "answers" / "spent.jsonl").whole]
    assert sum(row.quantity for row in ledger) == len(journal)
    spent = sum(json.loads(line)["usd"] for line in journal)
    assert sum(row.cost_usd for row in ledger) == pytest.approx(spent)
    told = [str(path) for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert told == []
    for path in (home / "tables").rglob("*.parquet"):  # compressed: look inside, too
        assert KEY not in str(pl.read_parquet(path).to_dicts())
    assert KEY not in first.stdout + first.stderr + second.stdout + second.stderr


def test_a_cap_ends_with_code_one_holds_back_what_follows_and_is_taken_up(
    home: Path, reader: HonestReader
) -> None:
    with ChatServer(reader.answer, key=KEY) as server:
        capped = diagnose(home, server.url, "analyst.cap_calls=30")
        assert capped.returncode == 1, capped.stderr
        assert "the cap on spending was reached" in capped.stderr
        assert len(server.bodies) == 30
        store = Store(home / "tables")
        part = len(store.read(Label))
        assert part > 0
        assert store.read(Contrast) == [], "the contrast was estimated on labels that are not there"
        diagnose(home, server.url)
        assert len(store.read(Label)) > part
        assert store.read(Contrast) != []
        contents = [json.dumps([body["messages"], body["seed"]]) for body in server.bodies]
        assert len(contents) == len(set(contents))


def test_a_server_that_is_not_there_or_refuses_the_key_is_one_sentence(
    home: Path, reader: HonestReader
) -> None:
    gone = diagnose(home, "http://127.0.0.1:9/v1", "analyst.retries=0")
    assert gone.returncode == 3
    assert "start it, or mend analyst.base_url" in gone.stderr
    with ChatServer(reader.answer, key="another") as server:
        refused = diagnose(home, server.url)
    assert refused.returncode == 2
    assert "set TEAM_KEY to one that it accepts" in refused.stderr
    assert KEY not in gone.stderr + refused.stderr + refused.stdout
    assert "Traceback" not in gone.stderr + refused.stderr


def test_the_kit_and_the_forecast_from_the_command_line(home: Path, reader: HonestReader) -> None:
    with ChatServer(reader.answer, key=KEY) as server:
        checked = diagnose(home, server.url, command="analyst check model --tasks 20 --json")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert json.loads(checked.stdout)["failed"] == 0
        made = len(server.bodies)
        seen = diagnose(home, server.url, command="analyst forecast --json")
        stages = {row["stage"] for row in json.loads(seen.stdout)["stages"]}
        assert stages == {"discovery", "labels", "further reading"}
        assert len(server.bodies) == made
    detectors = diagnose(home, "http://x/v1", command="analyst check detectors --json")
    assert json.loads(detectors.stdout)["failed"] == 0
