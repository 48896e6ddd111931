"""The cap on money holds whatever a server says of its usage, and whatever becomes of a request."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.untrusted.hostile_server import HostileServer, Send, answer, body, raw, said
from trace_assets.diagnosis.llm.budget import (
    Account,
    Call,
    CapReached,
    Totals,
    bytes_per_token,
    open_account,
    read_calls,
    totals,
)
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.request import Question
from trace_assets.errors import TraceError
from trace_assets.policies.openai_answers import read_usage
from trace_assets.records import LedgerEntry
from trace_assets.settings import Analyst
from trace_assets.store import Store
from trace_assets.store.history import record
from trace_assets.store.lines import sealed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
NAMES = ("prompt_tokens", "completion_tokens")
USAGE = JSON | st.fixed_dictionaries(
    dict.fromkeys(NAMES, JSON),
    optional={"prompt_tokens_details": JSON | st.fixed_dictionaries({"cached_tokens": JSON})},
)
PRICES = {"prompt_usd": 1000.0, "completion_usd": 2000.0, "cached_usd": 5000.0, "cap_usd": 5.0}


class Word(BaseModel):
    word: str


def question(number: int) -> Question[Word]:
    return Question(
        kind="label", model="m", system="s", user=f"say {number}", schema=Word, examine=lambda _: []
    )


@given(USAGE, st.integers(0, 10_000), st.integers(0, 10_000))
def test_whatever_is_said_lies_within_what_is_possible(said: Any, prompt: int, reply: int) -> None:
    usage = read_usage(said, prompt, reply, prompt_text=prompt // 2, reply_text=reply // 2)
    assert 0 <= usage.prompt <= prompt and 0 <= usage.completion <= reply
    assert 0 <= usage.cached <= usage.prompt
    if not usage.said and usage.cached == 0 and usage.completion < reply:
        assert usage.prompt in (prompt, said["prompt_tokens"])


@given(st.lists(st.tuples(USAGE, st.integers(1, 500), st.sampled_from(("settle", "give_up", "release")))))
def test_an_account_never_exceeds_its_cap(requests: list[tuple[Any, int, str]]) -> None:
    with TemporaryDirectory() as name:
        section = Analyst(base_url="http://h/v1", **PRICES)
        account = Account(section, Path(name), "labels", "b", Totals())
        for said, size, end in requests:
            try:
                ticket = account.reserve("label", size, 300)
            except CapReached:
                break
            assert ticket is not None
            before = account.spent.usd
            if end == "settle":
                account.settle(ticket, said)
            else:
                getattr(account, end)(ticket)
            assert math.isfinite(account.spent.usd) and before <= account.spent.usd <= 5.0
            if end == "give_up":
                assert account.spent.usd > before
        assert totals(read_calls(Path(name))).usd == pytest.approx(account.spent.usd)


def test_what_is_said_of_a_long_text_has_to_be_possible(tmp_path: Path) -> None:
    """A prompt of thousands of bytes has no seven tokens: it is booked as though each byte were one."""
    section = Analyst(base_url="http://h/v1", **{**PRICES, "cap_usd": 100.0})
    account = Account(section, tmp_path, "labels", "b", Totals())
    prompts = []
    for text, reply in ((9000, 10), (10, 9000), (10, 10)):
        ticket = account.reserve("label", 10_000, 300)
        assert ticket is not None
        usage = account.settle(
            ticket, {"prompt_tokens": 7, "completion_tokens": 3}, prompt_text=text, reply_text=reply
        )
        prompts.append((usage.prompt, usage.completion, usage.said))
    assert prompts == [(10_000, 3, False), (7, 300, False), (7, 3, True)]


def worded(prompt: Any, completion: Any, word: str = "x", **details: Any) -> Send:
    """Answer well, and say something of what it took."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, **details}
    return said(answer({"content": json.dumps({"word": word})}, usage=usage))


HOSTILE = {
    "negative": worded(-9, -1e9),
    "missing": said({"choices": [{"message": {"content": '{"word": "x"}'}}]}),
    "of text": worded("1", "0"),
    "cached above the prompt": worded(9, 3, prompt_tokens_details={"cached_tokens": 10**9}),
    "none at all": worded(0, 0),
    "small for a long answer": worded(9, 0, "x" * 6000),
    "broken JSON": body(b"{"),
    "no choice": said({"choices": []}),
    "hang up": raw(b""),
    "server error": said({"error": "x"}, "500 No"),
    "half a body": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"),
    "no usable answer": said(answer({"content": "no"}, usage=None)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_requests_end_where_their_highest_prices_reach_the_cap(name: str, tmp_path: Path) -> None:
    limits = {"reply_tokens": 100, "retries": 1, "repairs": 1, "pause_seconds": 0.0, "timeout_seconds": 300}
    section = Analyst(**{**PRICES, **limits, "cap_usd": 3.0})
    number = 0
    with HostileServer(HOSTILE[name]) as hostile:
        section = section.model_copy(update={"base_url": hostile.url})
        while number < 60:  # as a person does who starts again after each fault
            number += 1
            with open_account(Store(tmp_path / "t"), tmp_path / "answers", section, "labels", "b") as account:
                server = ModelServer(section, Answers(tmp_path / "answers"), account)
                try:
                    if server.ask_alone(question(number)) is None:
                        break
                except (Unanswered, TraceError):
                    continue
        spent = totals(read_calls(tmp_path / "answers"))
        made = hostile.requests
    assert number < 60, "the cap was never reached"
    assert 0 < spent.usd <= 3.0
    assert spent.calls >= made


def test_what_a_killed_run_had_in_flight_is_booked_by_the_next(tmp_path: Path) -> None:
    section = Analyst(base_url="http://h/v1", **PRICES)
    opened = (Store(tmp_path / "t"), tmp_path / "a", section, "labels", "b")
    with open_account(*opened) as account:
        tickets = [account.reserve("label", 100, 300) for _ in range(4)]
        assert None not in tickets
        account.release(str(tickets[0]))
        account.settle(str(tickets[1]), {"prompt_tokens": 10, "completion_tokens": 5})
        spent = account.spent.usd
    with (tmp_path / "a" / "in_flight.jsonl").open("ab") as file:
        file.write(b'{"reserved": {"asset"')  # cut short by the kill
    with open_account(*opened) as account:
        assert account.before.calls == 3
        assert account.before.usd == pytest.approx(spent + 2 * (100 * 5000 + 300 * 2000) / 1e6)
    with open_account(*opened) as account:
        assert account.before.calls == 3


def test_requests_in_flight_count_until_they_end(tmp_path: Path) -> None:
    section = Analyst(base_url="http://h/v1", prompt_usd=1.0, completion_usd=1.0, cap_usd=2.0)
    account = Account(section, tmp_path, "labels", "b", Totals())
    first, second = (account.reserve("label", 500_000, 500_000) for _ in range(2))
    assert first and second and account.reserve("label", 1, 0) is None, "one of them has to end first"
    account.give_up(first)
    account.release(second)
    third = account.reserve("label", 1_000_000, 0)
    assert third is not None, "what was given back is free again, to the last cent"
    account.give_up(third)
    with pytest.raises(CapReached):
        account.reserve("label", 1, 0)


def call(usd: float, prompt: int = 0, **more: Any) -> Call:
    return Call("labels", "b", "label", prompt, prompt // 2, 3 * prompt, usd, **more)


def test_sums_are_over_all_calls() -> None:
    found = totals([call(0.25, 10), call(0.5, 20, at_most=True)])
    assert asdict(found) == {
        "calls": 2,
        "prompt_tokens": 30,
        "cached_tokens": 15,
        "completion_tokens": 90,
        "usd": 0.75,
        "at_most": 1,
    }


def test_a_person_sees_figures_of_the_stage_alone(tmp_path: Path) -> None:
    account = Account(Analyst(), tmp_path, "labels", "b", before=totals([call(9.0, 99)]))
    assert "calls_at_highest_price" not in account.figures
    account.spent.add(call(0.12345649, 10, at_most=True))
    account.faults.update(["timeout", "refused", "timeout"])
    assert list(account.figures.items()) == [
        ("model_calls", 1),
        ("prompt_tokens", 10),
        ("cached_prompt_tokens", 5),
        ("completion_tokens", 30),
        ("cost_usd", 0.123456),
        ("calls_at_highest_price", 1),
        ("model_faults_refused", 1),
        ("model_faults_timeout", 2),
    ]


def test_calls_of_a_journal_without_sizes_tell_nothing_of_bytes_a_token() -> None:
    assert bytes_per_token([call(0.0, 10)] * 9) == bytes_per_token([])


def lines(*found: Any, altered: int = -1) -> bytes:
    """Return sealed lines, one of them altered."""
    made = [sealed(json.dumps(one)) for one in found]
    return b"".join(b"0" * 8 + one[8:] if place == altered else one for place, one in enumerate(made))


def test_an_altered_line_counts_as_the_dearest_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls, journal = [call(usd) for usd in (1.0, 0.5, 3.0, 2.0)], tmp_path / "spent.jsonl"
    with caplog.at_level(logging.WARNING):
        journal.write_bytes(lines(*map(asdict, calls), {"asset": "labels"}, "no call"))
        assert read_calls(tmp_path) == calls and caplog.text == ""
        journal.write_bytes(lines(*map(asdict, calls), altered=1))
        assert read_calls(tmp_path) == [calls[0], replace(calls[2], kind="unreadable"), *calls[2:]]
        assert "line 2 was altered" in caplog.text
        journal.write_bytes(lines(asdict(calls[0]), altered=0))
        assert read_calls(tmp_path) == [], "nothing is known of what it may have cost"


def test_an_altered_reservation_counts_as_the_dearest_of_the_run(tmp_path: Path) -> None:
    told = [{"reserved": asdict(call(usd, ticket=str(usd), at_most=True))} for usd in (1.0, 3.0, 2.0)]
    (tmp_path / "in_flight.jsonl").write_bytes(
        lines(*told, {"released": "2.0"}, {"released": "1.0"}, altered=4)
    )
    with open_account(Store(tmp_path / "t"), tmp_path, Analyst(), "labels", "b") as account:
        assert (account.before.usd, account.before.calls) == (3.0 + 1.0 + 3.0, 3)
    kinds = [(one.kind, one.usd) for one in read_calls(tmp_path)]
    assert kinds == [("label", 1.0), ("label", 3.0), ("unreadable", 3.0)]
    assert not (tmp_path / "in_flight.jsonl").exists()


def test_reservations_that_cannot_be_read_at_all_are_let_go(tmp_path: Path) -> None:
    (tmp_path / "in_flight.jsonl").write_bytes(lines({"reserved": {}}, altered=0))
    with open_account(Store(tmp_path / "t"), tmp_path, Analyst(), "labels", "b") as account:
        assert account.before == Totals()


def spend(
    store: Store, folder: Path, asset: str = "labels", partition: str = "b", stage: str = "triage"
) -> None:
    """Make one call of 100 tokens, 40 of them cached, and 7 more."""
    with open_account(store, folder, Analyst(prompt_usd=1.0), asset, partition, stage) as account:
        ticket = account.reserve("label", 1000, 10)
        assert ticket is not None
        usage = {"prompt_tokens": 100, "completion_tokens": 7}
        account.settle(ticket, {**usage, "prompt_tokens_details": {"cached_tokens": 40}})


def ledger(store: Store) -> dict[str, float]:
    """Return the sums of the ledger by kind."""
    sums: dict[str, float] = {}
    for one in store.read(LedgerEntry):
        sums[one.kind] = sums.get(one.kind, 0.0) + one.quantity
    return sums


@pytest.mark.parametrize(
    "note", [b"", b"0" * 8 + b" 1\n", None, sealed("")], ids=["empty", "altered", "lost", "unfinished"]
)
def test_the_ledger_gets_each_call_once_even_where_the_note_is_damaged(
    tmp_path: Path, note: bytes | None
) -> None:
    store = Store(tmp_path / "t")
    for number in range(3):
        spend(store, tmp_path)
        if number == 1 and note is None:
            (tmp_path / "booked").unlink()
        elif number == 1 and note is not None:
            (tmp_path / "booked").write_bytes(note)
    entries = list(store.read(LedgerEntry))
    assert {(one.stage, one.asset, one.partition) for one in entries} == {("triage", "labels", "b")}
    assert ledger(store) == {
        "model_calls": 3,
        "prompt_tokens": 300,
        "cached_prompt_tokens": 120,
        "completion_tokens": 21,
    }
    assert sum(one.cost_usd for one in entries) == pytest.approx(3 * 100 / 1e6)


def test_a_whole_note_is_believed_and_nothing_is_booked_for_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "t")
    spend(store, tmp_path)
    (tmp_path / "booked").write_bytes(sealed("0"))
    spend(store, tmp_path)
    assert ledger(store)["model_calls"] == 3, "it says that the first was not booked"
    before = len(list(store.read(LedgerEntry)))
    with open_account(store, tmp_path, Analyst(), "labels", "b"):
        pass
    (tmp_path / "booked").unlink()
    with open_account(store, tmp_path, Analyst(), "labels", "b"):
        pass
    assert len(list(store.read(LedgerEntry))) == before


def test_a_kill_between_two_entries_books_none_of_them_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three spenders at once, as a kill leaves them: the ledger got the first one's alone."""
    store, folder = Store(tmp_path / "t"), tmp_path / "a"
    spend(store, folder)
    with monkeypatch.context() as broken:
        broken.setattr("trace_assets.diagnosis.llm.budget._book", lambda *_: None)
        for name in ("causes", "labels", "causes", "merge"):
            spend(store, folder, asset=name, partition="" if name == "merge" else "b")
    made: list[str] = []

    def killed(*given: Any, asset: str, **more: Any) -> None:
        if made:
            raise KeyboardInterrupt
        made.append(asset)
        record(*given, asset=asset, **more)

    with monkeypatch.context() as broken:
        broken.setattr("trace_assets.diagnosis.llm.budget.record", killed)
        with pytest.raises(KeyboardInterrupt):
            spend(store, folder)
    assert made == ["causes"] and ledger(store)["model_calls"] == 3
    spend(store, folder)
    found = [(one.asset, one.quantity) for one in store.read(LedgerEntry) if one.kind == "model_calls"]
    assert sorted(found) == [("causes", 2), ("labels", 1), ("labels", 3), ("merge", 1)]
