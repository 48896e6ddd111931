"""What model calls cost: a journal that survives a kill, a forecast, and a cap that holds for a whole home.

What a request may cost at most is a line of `answers/in_flight.jsonl` before it is sent, and what it did
cost one of `answers/spent.jsonl` when it has ended, before its answer is used. A request that was given up -
by a time-out, a lost connection, a fault of the server, a kill - may well be billed: it is booked at its
highest price. So is what a server says nothing of, or nothing that can be true. The ledger gets the sums when
a stage ends, also when it ends in a fault; lines of a run that was killed are booked by the next one. Whoever
asks holds the lock of the account, so there is one writer and one concurrency limit a home. Where it has a
database many may ask at once, each under a limit of its own: see `shared_account`.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple
from uuid import uuid4

from trace_assets.policies.openai_answers import Usage, read_usage
from trace_assets.records import LedgerEntry
from trace_assets.settings import Analyst
from trace_assets.store.database import database_of
from trace_assets.store.files import replacing_file
from trace_assets.store.history import record
from trace_assets.store.lines import append_lines, read_lines, sealed, unsealed
from trace_assets.store.locks import exclusive
from trace_assets.store.tables import Store

_log = logging.getLogger(__name__)

MILLION = 1_000_000
SPENT = "spent.jsonl"
"""What every ended request cost, a line each."""
IN_FLIGHT = "in_flight.jsonl"
"""Reservations of a run, and those that were given back; one that was neither given back nor booked was cut
off by a kill."""


class CapReached(Exception):
    """The next request might cost more than the cap leaves."""


@dataclass(frozen=True)
class Call:
    """One request that was made.

    Attributes:
        asset: What it was made for.
        partition: The same.
        kind: `discover`, `merge`, `label`, `cause`, `triage`, `reflect`, `write` or `mend`.
        prompt_tokens: Read by the server.
        cached_tokens: Those of them that came from its prompt cache.
        completion_tokens: Written by it.
        usd: Price by the settings.
        stage: Stage of the pipeline that it was made in.
        at_most: Whether it is booked at its highest price, as what it did cost is not known.
        ticket: Of its reservation.
        text_bytes: Of its messages, 0 where that was not noted.
    """

    asset: str
    partition: str
    kind: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usd: float
    stage: str = "diagnosis"
    at_most: bool = False
    ticket: str = ""
    text_bytes: int = 0


@dataclass
class Totals:
    """Sums over calls."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    at_most: int = 0

    def add(self, call: Call) -> None:
        """Count one call."""
        self.calls += 1
        self.at_most += call.at_most
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


class Reserved(NamedTuple):
    """What a request in flight may cost."""

    kind: str
    prompt_bytes: int
    reply_tokens: int
    usd: float


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
    _reserved: dict[str, Reserved] = field(default_factory=dict)

    looks_again: ClassVar[float | None] = None
    """Seconds after which who waits for room looks again: others, of whom nobody tells, may have made it."""

    def reserve(self, kind: str, prompt_bytes: int, reply_tokens: int) -> str | None:
        """Set the most that a request can cost aside, and write it down, before it is sent.

        A token is at least one byte, so the bytes of the prompt bound its tokens, and the reply is bounded by
        what is asked for: what is spent never exceeds the cap, whatever comes of the request.

        Args:
            kind: What it is for.
            prompt_bytes: Of all that is sent.
            reply_tokens: Longest reply.

        Returns:
            A ticket for `settle`, `give_up` or `release`; None when requests in flight have to end first.

        Raises:
            CapReached: It does not fit although nothing is in flight.
        """
        most = self.dearest(prompt_bytes, reply_tokens)
        spent = self.before.usd + self.spent.usd + sum(one.usd for one in self._reserved.values())
        calls = self.before.calls + self.spent.calls + len(self._reserved)
        over_usd = self.section.cap_usd is not None and spent + most > self.section.cap_usd
        over_calls = self.section.cap_calls is not None and calls + 1 > self.section.cap_calls
        if over_usd or over_calls:
            if self._reserved:
                return None
            raise CapReached
        ticket = uuid4().hex[:16]
        self._reserved[ticket] = Reserved(kind, prompt_bytes, reply_tokens, most)
        _append(self.folder / IN_FLIGHT, {"reserved": asdict(self._at_most(ticket))})
        return ticket

    def dearest(self, prompt_bytes: int, reply_tokens: int) -> float:
        """Return the most that a request can cost, in USD."""
        cached = (0, prompt_bytes)
        return max(price(self.section, prompt_bytes, reply_tokens, one) for one in cached)

    def release(self, ticket: str) -> None:
        """Give a reservation back: its request was never sent, or refused."""
        if self._reserved.pop(ticket, None) is not None:
            _append(self.folder / IN_FLIGHT, {"released": ticket})

    def give_up(self, ticket: str) -> None:
        """Book a request of which nothing came, and which may cost something all the same."""
        if ticket in self._reserved:
            self._book(self._at_most(ticket))

    def settle(self, ticket: str, said: object, *, prompt_text: int = 0, reply_text: int = 0) -> Usage:
        """Book a finished request.

        Args:
            ticket: From `reserve`.
            said: What the server says of its usage, as it came.
            prompt_text: Bytes of the messages alone.
            reply_text: Bytes of the reply.

        Returns:
            What was booked.
        """
        held = self._reserved[ticket]
        usage = read_usage(
            said, held.prompt_bytes, held.reply_tokens, prompt_text=prompt_text, reply_text=reply_text
        )
        cost = min(held.usd, price(self.section, usage.prompt, usage.completion, usage.cached))
        tokens = (usage.prompt, usage.cached, usage.completion)
        self._book(
            Call(
                self.asset,
                self.partition,
                held.kind,
                *tokens,
                cost,
                self.stage,
                not usage.said,
                ticket,
                prompt_text,
            )
        )
        return usage

    def _at_most(self, ticket: str) -> Call:
        held = self._reserved[ticket]
        return Call(self.asset, self.partition, held.kind, 0, 0, 0, held.usd, self.stage, True, ticket)

    def _book(self, call: Call) -> None:
        append_call(self.folder / SPENT, call)
        del self._reserved[call.ticket]
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
        if self.spent.at_most:
            shown["calls_at_highest_price"] = self.spent.at_most
        return shown | {f"model_faults_{kind}": number for kind, number in sorted(self.faults.items())}


def append_call(journal: Path, call: Call) -> None:
    """Write down what a request cost, for good."""
    _append(journal, asdict(call))


def read_calls(folder: Path) -> list[Call]:
    """Return the journal's calls, oldest first.

    A line that a kill cut short is left out. One that was altered counts as the dearest call of the journal:
    what it cost is not known, and a cap must hold.
    """
    path = folder / SPENT
    lines = read_lines(path)
    if lines.altered:
        numbers = ", ".join(map(str, lines.altered))
        _log.warning("%s: line %s was altered; it counts as the dearest call of all", path, numbers)
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


BYTES_A_TOKEN = 3.4
"""Of prompts, where no server has told yet: of transcripts and policies, over current tokenizers."""
LEAST_MEASURED = 5
"""Calls from which what servers told of their prompts is believed."""


def bytes_per_token(calls: Sequence[Call]) -> float:
    """Return how many bytes of a prompt make a token, as servers counted them.

    Args:
        calls: Of the journal; those booked at their highest price tell nothing.
    """
    known = [one for one in calls if one.text_bytes and one.prompt_tokens and not one.at_most]
    if len(known) < LEAST_MEASURED:
        return BYTES_A_TOKEN
    return sum(one.text_bytes for one in known) / sum(one.prompt_tokens for one in known)


def _append(path: Path, line: Mapping[str, object]) -> None:
    append_lines(path, [json.dumps(line)])


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
    if (database := database_of(folder.parent)) is not None:
        from trace_assets.diagnosis.llm.shared_account import SharedAccount

        account: Account = SharedAccount(
            section, folder, asset, partition, Totals(), stage, database=database
        )
        try:
            yield account
        finally:
            with _turn(folder):
                _book(store, folder)
        return
    with _turn(folder):
        _give_up_interrupted(folder)
        account = Account(section, folder, asset, partition, totals(read_calls(folder)), stage)
        try:
            yield account
        finally:
            _book(store, folder)


def _turn(folder: Path) -> AbstractContextManager[None]:
    return exclusive(folder / "account.lock", "the model server's account of this home")


def spent_by_files(folder: Path) -> tuple[float, int]:
    """Return what the calls of a home have cost by its files, in USD, and their number; nobody asks now."""
    with _turn(folder):
        _give_up_interrupted(folder)
        sums = totals(read_calls(folder))
        return sums.usd, sums.calls


def _give_up_interrupted(folder: Path) -> None:
    """Book the requests that a killed run had in flight at their highest price.

    A line that was altered counts as the dearest of them.
    """
    path = folder / IN_FLIGHT
    lines = read_lines(path)
    booked = {call.ticket for call in read_calls(folder)}
    still: dict[str, Call] = {}
    dearest: Call | None = None
    for _, text in lines.whole:
        with suppress(ValueError, TypeError, AttributeError):
            row = json.loads(text)
            if "reserved" in row:
                call = Call(**row["reserved"])
                still[call.ticket] = call
                dearest = call if dearest is None or call.usd > dearest.usd else dearest
            still.pop(str(row.get("released")), None)
    lost = [call for ticket, call in still.items() if ticket not in booked]
    if dearest is not None:
        lost += [replace(dearest, kind="unreadable", ticket="") for _ in lines.altered]
    if lost:
        append_lines(folder / SPENT, [json.dumps(asdict(call)) for call in lost])
    path.unlink(missing_ok=True)


def _book(store: Store, folder: Path) -> None:
    """Enter every call that is not in the ledger yet, those of runs that were killed among them."""
    mark, calls = folder / "booked", read_calls(folder)
    noted = _noted(mark)
    groups: defaultdict[_Spender, list[Call]] = defaultdict(list)
    for call in calls[noted or 0 :]:
        groups[call.stage, call.asset, call.partition].append(call)
    if noted is None:
        for spender, number in _in_ledger(store).items():
            groups[spender] = groups[spender][number:]
    if any(groups.values()):
        _note(mark, "")  # a kill from here on leaves it to the ledger which calls are in it
    for (stage, asset, partition), own in groups.items():
        if not own:
            continue
        sums = totals(own)
        record(
            store,
            {
                (_CALLS, "calls"): sums.calls,
                ("prompt_tokens", "tokens"): sums.prompt_tokens,
                ("cached_prompt_tokens", "tokens"): sums.cached_tokens,
                ("completion_tokens", "tokens"): sums.completion_tokens,
            },
            stage=stage,
            asset=asset,
            partition=partition,
            cost_usd=sums.usd,
        )
    _note(mark, str(len(calls)))


_CALLS = "model_calls"
_Spender = tuple[str, str, str]
"""Stage, asset and partition."""


def _note(mark: Path, text: str) -> None:
    with replacing_file(mark) as partial:
        partial.write_bytes(sealed(text))


def _noted(mark: Path) -> int | None:
    """Return how many calls are in the ledger as noted; None where the note is lost, damaged or empty."""
    text = unsealed(mark.read_bytes().rstrip(b"\n")) if mark.is_file() else None
    return int(text) if text is not None and text.isdigit() else None


def _in_ledger(store: Store) -> Counter[_Spender]:
    """Return how many calls of each spender the ledger holds."""
    found = Counter[_Spender]()
    for row in store.read(LedgerEntry):
        if row.kind == _CALLS:
            found[row.stage, row.asset, row.partition] += int(row.quantity)
    return found
