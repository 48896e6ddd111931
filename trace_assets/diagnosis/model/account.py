"""What model calls cost: a journal that survives a kill, a forecast, and a cap that holds for a whole home.

Every finished request is one line of `answers/spent.jsonl`, written before its answer is used. The ledger
gets the sums when a stage ends, also when it ends in a fault; lines of a run that was killed are booked by
the next one. Whoever asks holds the lock of the account, so there is one writer and one concurrency limit a
home.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from trace_assets.records import LedgerEntry
from trace_assets.settings import Analyst
from trace_assets.store.home import replacing_file
from trace_assets.store.ledger import record
from trace_assets.store.lines import append_lines, read_lines, sealed, unsealed
from trace_assets.store.locks import exclusive
from trace_assets.store.tables import Store

MILLION = 1_000_000


class CapReached(Exception):
    """The next request might cost more than the cap leaves."""


@dataclass(frozen=True)
class Call:
    """One finished request.

    Attributes:
        asset: What it was made for.
        partition: The same.
        kind: `discover`, `merge`, `label`, `triage`, `write` or `mend`.
        prompt_tokens: Read by the server.
        cached_tokens: Those of them that came from its prompt cache.
        completion_tokens: Written by it.
        usd: Price by the settings.
        stage: Stage of the pipeline that it was made in.
    """

    asset: str
    partition: str
    kind: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usd: float
    stage: str = "diagnosis"


@dataclass
class Totals:
    """Sums over calls."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0

    def add(self, call: Call) -> None:
        """Count one call."""
        self.calls += 1
        self.prompt_tokens += call.prompt_tokens
        self.cached_tokens += call.cached_tokens
        self.completion_tokens += call.completion_tokens
        self.usd += call.usd


def price(section: Analyst, prompt: int, completion: int, cached: int = 0) -> float:
    """Return the price of one call in USD.

    Args:
        section: Prices a million tokens.
        prompt: Prompt tokens, cached ones included.
        completion: Completion tokens.
        cached: Prompt tokens from the server's cache.

    >>> price(Analyst(prompt_usd=1.0, cached_usd=0.5, completion_usd=4.0), 2_000_000, 1_000_000, 1_000_000)
    5.5
    """
    per_cached = section.prompt_usd if section.cached_usd is None else section.cached_usd
    fresh = max(0, prompt - cached)
    cost = fresh * section.prompt_usd + cached * per_cached + completion * section.completion_usd
    return cost / MILLION


@dataclass
class Account:
    """The spending of one stage on one home, under its cap.

    Attributes:
        section: Prices and caps.
        folder: The home's `answers`.
        asset: Whose spending this is.
        partition: The same.
        before: What the home had spent when the stage began.
        stage: Stage of the pipeline, for the ledger.
        spent: What this stage spent.
        faults: Failed attempts and unusable answers by kind.
    """

    section: Analyst
    folder: Path
    asset: str
    partition: str
    before: Totals
    stage: str = "diagnosis"
    spent: Totals = field(default_factory=Totals)
    faults: Counter[str] = field(default_factory=Counter)
    _reserved: dict[int, float] = field(default_factory=dict)
    _started: int = 0

    def reserve(self, prompt_bytes: int, reply_tokens: int) -> int | None:
        """Set the most that a request can cost aside, before it is sent.

        A token is at least one byte, so the bytes of the prompt bound its tokens, and the reply is bounded by
        what is asked for: what is spent never exceeds the cap.

        Args:
            prompt_bytes: Of all messages.
            reply_tokens: Longest reply.

        Returns:
            A ticket for `book`; None when requests in flight have to end first.

        Raises:
            CapReached: It does not fit although nothing is in flight.
        """
        most = price(self.section, prompt_bytes, reply_tokens)
        spent = self.before.usd + self.spent.usd + sum(self._reserved.values())
        calls = self.before.calls + self.spent.calls + len(self._reserved)
        over_usd = self.section.cap_usd is not None and spent + most > self.section.cap_usd
        over_calls = self.section.cap_calls is not None and calls + 1 > self.section.cap_calls
        if over_usd or over_calls:
            if self._reserved:
                return None
            raise CapReached
        self._started += 1
        self._reserved[self._started] = most
        return self._started

    def release(self, ticket: int) -> None:
        """Give a reservation back: its request is over."""
        self._reserved.pop(ticket, None)

    def book(self, kind: str, prompt: int, completion: int, cached: int) -> None:
        """Write down a finished request."""
        cost = price(self.section, prompt, completion, cached)
        call = Call(self.asset, self.partition, kind, prompt, cached, completion, cost, self.stage)
        append_lines(self.folder / "spent.jsonl", [json.dumps(asdict(call))])
        self.spent.add(call)

    @property
    def figures(self) -> dict[str, int | float]:
        """What a person sees of it on the asset."""
        shown: dict[str, int | float] = {
            "model_calls": self.spent.calls,
            "prompt_tokens": self.spent.prompt_tokens,
            "cached_prompt_tokens": self.spent.cached_tokens,
            "completion_tokens": self.spent.completion_tokens,
            "cost_usd": round(self.spent.usd, 6),
        }
        return shown | {f"model_faults_{kind}": number for kind, number in sorted(self.faults.items())}


def read_calls(folder: Path) -> list[Call]:
    """Return the journal's calls, oldest first.

    A line that a kill cut short is left out. One that was altered counts as the dearest call of the journal:
    what it cost is not known, and a cap must hold.
    """
    lines = read_lines(folder / "spent.jsonl")
    calls: dict[int, Call] = {}
    for number, text in lines.whole:
        try:
            calls[number] = Call(**json.loads(text))
        except (ValueError, TypeError):
            continue
    if calls and lines.altered:
        dearest = max(calls.values(), key=lambda call: call.usd)
        calls |= {number: replace(dearest, kind="unreadable") for number in lines.altered}
    return [calls[number] for number in sorted(calls)]


def totals(calls: list[Call]) -> Totals:
    """Return the sums of some calls."""
    sums = Totals()
    for call in calls:
        sums.add(call)
    return sums


@contextmanager
def open_account(
    store: Store, folder: Path, section: Analyst, asset: str, partition: str, stage: str = "diagnosis"
) -> Iterator[Account]:
    """Take the home's account, and book what was spent to the ledger at the end, whatever happened.

    Args:
        store: Holds the ledger.
        folder: The home's `answers`.
        section: Prices and caps.
        asset: For which it is spent.
        partition: The same.
        stage: Stage of the pipeline, for the ledger.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "account.lock", "the model server's account of this home"):
        account = Account(section, folder, asset, partition, totals(read_calls(folder)), stage)
        try:
            yield account
        finally:
            _book(store, folder)


def _book(store: Store, folder: Path) -> None:
    """Enter every call that is not in the ledger yet, those of runs that were killed among them."""
    mark, calls = folder / "booked", read_calls(folder)
    done = _booked(store, mark)
    groups: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls[done:]:
        groups.setdefault((call.stage, call.asset, call.partition), []).append(call)
    for (stage, asset, partition), own in groups.items():
        sums = totals(own)
        record(
            store,
            {
                ("model_calls", "calls"): sums.calls,
                ("prompt_tokens", "tokens"): sums.prompt_tokens,
                ("cached_prompt_tokens", "tokens"): sums.cached_tokens,
                ("completion_tokens", "tokens"): sums.completion_tokens,
            },
            stage=stage,
            asset=asset,
            partition=partition,
            cost_usd=sums.usd,
        )
    with replacing_file(mark) as partial:
        partial.write_bytes(sealed(str(len(calls))))


def _booked(store: Store, mark: Path) -> int:
    """Return how many calls are in the ledger: as noted, or by the ledger where the note is damaged."""
    text = unsealed(mark.read_bytes().rstrip(b"\n")) if mark.is_file() else "0"
    if text is not None and text.isdigit():
        return int(text)
    return int(sum(row.quantity for row in store.read(LedgerEntry) if row.kind == "model_calls"))
