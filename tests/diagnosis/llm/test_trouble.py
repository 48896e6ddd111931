"""A server that misbehaves, caps, kills and secrets: nothing is lost, doubled, overspent or told."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import FAULTS, ChatServer
from honest_reader import HonestReader

from tests.quick import one_of_each
from trace_assets.diagnosis.llm.budget import read_calls, totals
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.errors import CheckFailed, InputError, Unavailable
from trace_assets.records import Capability, Label, LedgerEntry, Trajectory
from trace_assets.store import Store

Open = Callable[..., Any]
KEY = "sk-verysecretkey0123456789"


@pytest.mark.ci
def test_with_a_fifth_of_all_requests_spoilt_nothing_is_lost_and_nothing_is_doubled(
    reader: HonestReader,
    honest: ChatServer,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
) -> None:
    thrice = {"passes": 3}
    with open_analyst(honest.url, "calm", labels=thrice) as (analyst, _):
        found, labels = analyst.discover(trajectories), analyst.label(trajectories, planted)
    with ChatServer(reader.answer, rate=0.2, seed=8, hang_seconds=6) as wild:
        with open_analyst(wild.url, "wild", labels=thrice, timeout_seconds=3, concurrency=8) as (
            analyst,
            server,
        ):
            wild_found, wild_labels = analyst.discover(trajectories), analyst.label(trajectories, planted)
            faults = dict(server.account.faults)
        made = len(wild.bodies)
        with open_analyst(wild.url, "wild", labels=thrice) as (analyst, server):
            assert (analyst.discover(trajectories), analyst.label(trajectories, planted)) == (
                wild_found,
                wild_labels,
            )
            assert server.account.spent.calls == 0
        assert len(wild.bodies) == made
        spoilt = sum(count for kind, count in wild.seen.items() if kind != "ok")
        assert 0.1 <= spoilt / made <= 0.3, wild.seen
        assert set(wild.seen) == {*FAULTS, "ok"}, f"not every fault occurred: {wild.seen}"
    assert wild_found == found
    assert wild_labels == labels
    keys = Counter((one.trajectory_id, one.capability_id, one.labelling_pass) for one in wild_labels)
    assert max(keys.values()) == 1
    for kind in ("rate_limit", "server", "timeout", "connection", "garbage", "empty", "unusable_answer"):
        assert faults[kind] > 0, faults


KEEP_THE_REST = ("cut_json", "wrong_id", "wild_evidence")
"""Faults of one item of a list, whose others are taken: a proposal may lose a run, a label is asked again."""


Result = tuple[list[Capability], list[Label]]


@pytest.fixture(scope="module")
def without_trouble() -> list[Result]:
    """What an analyst found whose server did no harm, once a test has asked one."""
    return []


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_each_trouble_alone_is_sat_out(
    reader: HonestReader,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    without_trouble: list[Result],
    fault: str,
) -> None:
    some = trajectories[:4]
    patience = 3.0 if fault == "hang" else 60.0  # on a busy machine an honest answer takes tenths of a second

    def ask(rate: float) -> Result:
        with (
            ChatServer(reader.answer, rate=rate, faults=[fault], hang_seconds=6) as server,
            open_analyst(server.url, f"{rate}", timeout_seconds=patience, retries=8, repairs=8) as (
                analyst,
                _,
            ),
        ):
            result = analyst.discover(trajectories[:30]), analyst.label(some, planted)
            assert (server.seen[fault] > 0) == (rate > 0)
        return result

    if not without_trouble:
        without_trouble.append(ask(0.0))
    found, labels = without_trouble[0]
    found_in_trouble, labels_in_trouble = ask(0.2 if fault in ("overflow", "cut_reply") else 0.35)
    assert labels_in_trouble == labels
    if fault in KEEP_THE_REST:
        assert found_in_trouble and {one.name for one in found_in_trouble} <= {one.name for one in found}
    else:
        assert found_in_trouble == found


def test_a_retry_after_holds_back_every_request(
    reader: HonestReader, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with ChatServer(reader.answer) as server:
        send, limited = server._send, []

        def once(handler: Any, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
            if not limited:
                limited.append(time.monotonic())
                send(handler, 429, {"error": {"message": "slow down"}}, {"Retry-After": "3"})
            else:
                send(handler, status, content, headers)

        server._send = once  # type: ignore[method-assign]
        server.delay = 0.05
        with open_analyst(server.url, concurrency=2) as (analyst, _):
            analyst.label(trajectories[:8], planted)
        after = [at - limited[0] for at in server.times if at > limited[0]]
    assert len(after) >= 8 and sum(at < 2.9 for at in after) <= 2, (
        "only what was in the air already came early"
    )


def different(trajectories: list[Trajectory]) -> int:
    return len({view(one, 10**6).text for one in trajectories})


def test_a_cap_on_calls_stops_cleanly_and_the_rest_is_asked_later(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with open_analyst(honest.url, cap_calls=21) as (analyst, server):
        done = analyst.label_what_can_be(trajectories, planted)
        assert not done.complete
        assert server.account.spent.calls == 21
        with pytest.raises(CheckFailed, match="the cap on spending was reached"):
            analyst.label(trajectories, planted)
        assert server.account.spent.calls == 21
    first = {(one.trajectory_id, one.capability_id, one.labelling_pass): one for one in done.labels}
    assert 0 < len(first) < 2 * len(trajectories) * len(planted)
    with open_analyst(honest.url, cap_calls=1000) as (analyst, server):
        labels = analyst.label(trajectories, planted)
        assert server.account.spent.calls == 2 * different(trajectories) - 21
    whole = {(one.trajectory_id, one.capability_id, one.labelling_pass): one for one in labels}
    assert len(whole) == len(labels) == 2 * len(trajectories) * len(planted)
    assert all(whole[key] == one for key, one in first.items())
    assert len(honest.bodies) == 2 * different(trajectories)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_cap_in_dollars_is_never_exceeded_and_nearly_used(
    honest: ChatServer,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    concurrency: int,
) -> None:
    prices = {"prompt_usd": 3.0, "completion_usd": 15.0, "reply_tokens": 300, "concurrency": concurrency}
    with open_analyst(honest.url, cap_usd=0.08, **prices) as (analyst, server):
        done = analyst.label_what_can_be(trajectories, planted)
        spent = server.account.spent.usd
    assert not done.complete
    assert done.labels
    assert 0.05 < spent <= 0.08
    with open_analyst(honest.url, cap_usd=0.08, **prices) as (analyst, server):
        again = analyst.label_what_can_be(trajectories, planted)
        assert server.account.spent.calls == 0, "the cap holds for the home, not for a run"
    assert not again.complete
    asked = {json.dumps([body["messages"], body["seed"]]) for body in honest.bodies}
    assert len(asked) == len(honest.bodies)


def test_the_ledger_holds_every_call_and_its_price(
    honest: ChatServer,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    tmp_path: Path,
) -> None:
    with open_analyst(honest.url, prompt_usd=1.0, cached_usd=0.1, completion_usd=4.0) as (analyst, server):
        analyst.label(trajectories[:20], planted)
        spent = server.account.spent
    rows = Store(tmp_path / "home" / "tables").read(LedgerEntry)
    sums = {row.kind: row.quantity for row in rows}
    assert sums["model_calls"] == spent.calls == len(honest.bodies)
    assert sums["prompt_tokens"] == spent.prompt_tokens
    assert sums["completion_tokens"] == spent.completion_tokens
    assert sum(row.cost_usd for row in rows) == pytest.approx(spent.usd)
    fresh = spent.prompt_tokens - spent.cached_tokens
    assert spent.usd == pytest.approx((fresh + 0.1 * spent.cached_tokens + 4 * spent.completion_tokens) / 1e6)
    assert spent.cached_tokens > 0


CHILD = """
import json, sys
from pathlib import Path
from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.client import Answers
from trace_assets.diagnosis.llm.analyst import ModelAnalyst
from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.analyst import rehearse
from trace_assets.records import Capability
from trace_assets.settings import Analyst, Discovery, Labels
from trace_assets.store import Store
url, home, planted = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
section = Analyst(base_url=url, concurrency=4)
with open_account(Store(home / "tables"), home / "answers", section, "labels", "b") as account:
    server = ModelServer(section, Answers(home / "answers"), account)
    analyst = ModelAnalyst(server, Discovery(model="m"), Labels(model="m"))
    analyst.label(rehearse(50).trajectories, [Capability.model_validate(one) for one in planted])
"""


@pytest.mark.ci
def test_a_kill_in_the_middle_repeats_no_call_and_loses_no_cost(
    reader: HonestReader,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with ChatServer(reader.answer, delay=0.05) as server:
        arguments = [server.url, str(home), json.dumps([one.model_dump() for one in planted])]
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        deadline = time.monotonic() + 600
        while sum(server.answered.values()) < 40 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        stored = len(list((home / "answers").glob("??/*.json")))
        assert stored >= 30
        server.delay = 0.0
        with open_analyst(server.url) as (analyst, opened):
            labels = analyst.label(trajectories, planted)
            resumed = opened.account.spent.calls
        assert resumed == 2 * different(trajectories) - stored
        repeated = sum(count - 1 for count in server.answered.values())
        assert repeated <= 4, "only what was in flight at the kill is asked again"
    assert len(labels) == 2 * len(trajectories) * len(planted)
    ledger = sum(
        row.quantity for row in Store(home / "tables").read(LedgerEntry) if row.kind == "model_calls"
    )
    calls = read_calls(home / "answers")
    assert ledger == len(calls) == totals(calls).calls
    assert len(calls) >= stored + resumed, "the calls of the killed run are booked too"


def test_a_journal_line_that_a_kill_cut_short_spoils_nothing(
    honest: ChatServer,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    tmp_path: Path,
) -> None:
    with open_analyst(honest.url) as (analyst, _):
        analyst.label(trajectories[:3], planted)
    journal = tmp_path / "home" / "answers" / "spent.jsonl"
    whole = len(read_calls(journal.parent))
    with journal.open("a", encoding="utf-8") as file:
        file.write('{"asset": "labels", "part')
    for damaged in list(journal.parent.glob("??/*.json"))[:2]:
        damaged.write_text('{"answer": {"labels": [', encoding="utf-8")
    with open_analyst(honest.url) as (analyst, server):
        analyst.label(trajectories[:3], planted)
        assert server.account.spent.calls == 2, "damaged answers are asked for again"
    assert len(read_calls(journal.parent)) == whole + 2


def files_with(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_the_key_is_sent_and_told_nowhere(
    reader: HonestReader,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("openai").setLevel(logging.DEBUG)
    monkeypatch.setenv("TEAM_KEY", KEY)
    told: list[str] = []
    with ChatServer(
        reader.answer, rate=0.3, faults=["error_500", "wrong_id", "rate_limit"], key=KEY
    ) as server:
        with open_analyst(server.url, key_variable="TEAM_KEY") as (analyst, opened):
            analyst.label(trajectories[:20], planted)
            told.append(repr(vars(opened)) + repr(vars(analyst)) + repr(vars(opened._connection)))
        assert server.keys == {f"Bearer {KEY}"}
        server.rate = 1.0
        server.faults = ["error_500"]
        with open_analyst(server.url, "b", key_variable="TEAM_KEY", retries=1) as (analyst, _):
            with pytest.raises(Unavailable, match="something broke for Bearer") as info:
                analyst.label(trajectories[:4], planted)
            told.append(f"{info.value!r}{info.value}{info.value.__cause__!r}")
        server.key = "another"
        with open_analyst(server.url, "c", key_variable="TEAM_KEY") as (analyst, _):
            with pytest.raises(InputError, match="set TEAM_KEY to one that it accepts") as refused:
                analyst.label(trajectories[:4], planted)
            told.append(f"{refused.value!r}{refused.value}{refused.value.__cause__!r}")
    assert KEY not in "".join(told) + caplog.text
    assert len(caplog.text) > 1000, "nothing was logged, so nothing was shown"
    assert files_with(tmp_path, KEY) == []
