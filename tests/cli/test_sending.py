"""A sync on a home in an object store sends what it has made whenever nothing is being made."""

from __future__ import annotations

import io
import sys
from types import ModuleType

import pytest
from rich.console import Console

from trace_assets.cli.progress import _Lines, _Sender
from trace_assets.errors import Unavailable
from trace_assets.orchestration.materialization import Outcome
from trace_assets.orchestration.planner import Item, Step

ONE, TWO = Item("triage", "a"), Item("triage", "b")


def began(item: Item) -> Step:
    return Step(item, "never materialized", ())


def made(item: Item) -> Outcome:
    return Outcome(item, True, 1.0)


class Sent(ModuleType):
    """In the place of the module that sends."""

    def __init__(self, trouble: str = "") -> None:
        super().__init__("work")
        self.times, self.trouble = 0, trouble

    def send_meanwhile(self) -> None:
        self.times += 1
        if self.trouble:
            raise Unavailable(self.trouble)


def sender(monkeypatch: pytest.MonkeyPatch, sent: Sent, seconds: float = 0.0) -> tuple[_Sender, io.StringIO]:
    monkeypatch.setitem(sys.modules, "trace_assets.store.objects.work", sent)
    said = io.StringIO()
    console = Console(file=said, width=200)
    return _Sender(_Lines(console, quiet=True), console, seconds), said


def test_it_sends_when_the_last_item_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent()
    listen, _ = sender(monkeypatch, sent)
    listen("start", ONE, began(ONE))
    listen("start", TWO, began(TWO))
    listen("end", ONE, made(ONE))
    assert sent.times == 0
    listen("end", TWO, made(TWO))
    assert sent.times == 1


def test_it_sends_no_more_often_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent()
    listen, _ = sender(monkeypatch, sent, seconds=3600.0)
    listen("start", ONE, began(ONE))
    listen("end", ONE, made(ONE))
    assert sent.times == 0


def test_a_store_that_is_away_does_not_stop_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    listen, said = sender(monkeypatch, Sent("the store is away"))
    listen("start", ONE, began(ONE))
    listen("end", ONE, made(ONE))
    assert "not sent yet: the store is away" in said.getvalue()
