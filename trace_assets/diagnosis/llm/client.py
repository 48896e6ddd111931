"""Asks questions of an OpenAI-compatible server and hands back only answers that passed their examination."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from trace_assets.diagnosis.llm.budget import Account, CapReached
from trace_assets.diagnosis.llm.reading import dumped, refusal_in
from trace_assets.diagnosis.llm.recording import Answers, Recording, prompt_hash
from trace_assets.diagnosis.llm.request import A, Question, render
from trace_assets.errors import InputError
from trace_assets.policies.openai_connection import Connection, Retries
from trace_assets.policies.openai_faults import (
    ServerFault,
    is_same_model,
    longest_reply,
    public_url,
    shown,
)
from trace_assets.settings import Analyst
from trace_assets.system.processes import finish

TOLD_TWICE = 2
"""How often a question or its answer must turn out too long, or to be another model's, before that is
believed: replicas differ."""
_ONE_QUESTION = ("request", "server", "garbage", "empty", "timeout")
"""Faults that may lie in one question: where others were served meanwhile, only that one is given up."""
LONGEST_TOKEN = 64
"""Characters of a token at the most, as far as a whole reply goes; a longer reply is cut off."""
LONGEST_ECHO = 4000
"""Characters of an unusable answer that are sent back with the complaints."""

NO_SERVER = "http://127.0.0.1:9/v1"
"""Stands for the address where answers come from a recording; nothing is sent there."""
CUT_OFF = "it is too long and was cut off; be brief"
OPTIONAL = ("temperature", "seed", "response_format", "reasoning_effort", "stream_options", "stream")
"""What a request can do without, where a server refuses it by name."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Spoken:
    """What a model said to one request.

    Attributes:
        text: The words, or the arguments of the tool that it called instead.
        cut: Whether they end at the limit of length.
        refused: Why it refused, where it did.
        by_server: Whether the server marks it as refused, so that asking again is no use.
        thought: Whether tokens went into reasoning.
    """

    text: str
    cut: bool = False
    refused: str = ""
    by_server: bool = False
    thought: bool = False


class Unanswered(Exception):
    """A question got no usable answer in all rounds; others may have.

    Attributes:
        reason: `full` (it does not fit the context), `cut` (its answer does not fit a reply), or what was
            wrong with the last answer.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unrecorded(Exception):
    """A prompt that the recording does not hold."""


class Incomplete(Unanswered):
    """A question of which a part stayed open in all rounds.

    Attributes:
        answer: The rest of the answer. It is not remembered.
    """

    def __init__(self, reason: str, answer: Any) -> None:
        super().__init__(reason)
        self.answer = answer


def require_server(section: Analyst) -> None:
    """Refuse a section at which no model can be asked.

    Args:
        section: With the prices of its models, where they are known.

    Raises:
        InputError: It names neither a server nor a recording, or a cap on money without prices.
    """
    if not section.base_url and not section.recording:
        raise InputError(
            "a model analyst needs a server: set analyst.base_url, such as http://127.0.0.1:8000/v1, or "
            "analyst.recording to a file of recorded answers."
        )
    priced = section.prompt_usd or section.completion_usd or not section.base_url
    if section.cap_usd is not None and not priced:
        raise InputError(
            "analyst.cap_usd cannot hold without prices: set analyst.prompt_usd and "
            "analyst.completion_usd, or use analyst.cap_calls."
        )


class ModelServer:
    """The server, behind the memory of its answers and the account of its cost.

    A question whose answer is remembered makes no request. Otherwise structured output is asked for by JSON
    schema; a server that refuses the schema, the temperature or the seed is asked without from then on. An
    answer that does not fit the schema or its question is sent back with what is wrong, a bounded number of
    times. What could not be had is raised as `Unanswered` and not remembered.

    Args:
        section: Address, limits, prices.
        answers: Remembered answers.
        account: What it may cost.

    Attributes:
        setting: Name of the setting that holds the address, for messages.
    """

    setting = "analyst.base_url"

    def __init__(self, section: Analyst, answers: Answers, account: Account) -> None:
        require_server(section)
        self.section, self.answers, self.account = section, answers, account
        self.remembered = 0
        self.refused: set[str] = set()
        self.reply_tokens = section.reply_tokens
        self._schema_known = False
        retries = Retries(
            more=section.retries,
            first_pause=section.pause_seconds,
            longest_wait=section.longest_wait_seconds,
        )
        self.recording = (
            Recording(Path(section.recording).expanduser(), public_url(section.base_url))
            if section.recording
            else None
        )
        self._unrecorded: list[tuple[str, str]] = []
        self._connection = Connection(
            section.base_url or NO_SERVER,
            key_variable=section.key_variable,
            timeout_seconds=section.timeout_seconds,
            retries=retries,
            on_fault=lambda fault: account.faults.update([fault.kind]),
        )
        self._asked: dict[str, asyncio.Lock] = {}
        self._begun: dict[str, asyncio.Event] = {}
        self._ended = asyncio.Event()
        self._served = 0

    def run(self, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> bool:
        """Work on items, a bounded number at once, and close the connections.

        Returns:
            Whether all were begun: False when the cap was reached, after what was in flight ended.

        Raises:
            TraceError: The server cannot be used; what was answered is remembered.
        """
        return finish(self._run(items, work))

    def ask_alone(self, question: Question[A]) -> A | None:
        """Ask one question and close the connections.

        Returns:
            The answer; None when the cap left nothing to ask it with.

        Raises:
            Unanswered: There is none.
            TraceError: The server cannot be used.
        """
        answers: list[A] = []

        async def work(asked: Question[A]) -> None:
            answers.append(await self.ask(asked))

        return answers[0] if self.run([question], work) else None

    async def _run(self, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> bool:
        left = iter(items)
        stopped: list[Exception] = []
        self._asked, self._begun, self._ended = {}, {}, asyncio.Event()

        async def worker() -> None:
            for item in left:
                if stopped:
                    return
                try:
                    await work(item)
                except Unrecorded:
                    continue  # all of them are told of together
                except Exception as error:  # whatever it is, the others end what they have begun
                    stopped.append(error)
                    return

        try:
            await asyncio.gather(*(worker() for _ in range(self.section.concurrency)))
        finally:
            await self._connection.close()
            missed, self._unrecorded = self._unrecorded, []
        if missed and self.recording is not None:
            raise InputError(self.recording.unrecorded(missed))
        real = [error for error in stopped if not isinstance(error, CapReached)]
        if real:
            raise real[0]
        return not stopped

    async def ask(self, question: Question[A]) -> A:
        """Return an answer that passed its examination.

        Raises:
            Unanswered: There is none.
            CapReached: The next request might cost more than is left.
            TraceError: The server cannot be used.
        """
        async with self._asked.setdefault(question.key, asyncio.Lock()):  # equal questions are asked once
            known = self.answers.get(question)
            if known is not None:
                self.remembered += 1
                self._record_remembered(question, known)
                if isinstance(known, str):
                    raise Unanswered(known)
                return known
            answer = await self._behind_the_first(question)
            self.answers.put(question, answer)
            return answer

    async def _behind_the_first(self, question: Question[A]) -> A:
        """Ask; of questions that begin alike the first alone, so that the server has that in its cache."""
        begun = self._begun.get(question.system)
        if begun is not None:
            await begun.wait()
            return await self._rounds(question)
        self._begun[question.system] = answered = asyncio.Event()
        try:
            return await self._rounds(question)
        finally:
            answered.set()

    async def _rounds(self, question: Question[A]) -> A:
        """Ask until nothing is open, each time only for what still is."""
        messages, complaints, cut = question.messages, ["nothing was asked"], 0
        answer: A | None = None
        said, refusals = Spoken(""), 0
        for _ in range(self.section.repairs + 1):
            said = await self._complete(question, messages)
            before = answer
            answer, complaints = question.piece(said.text, answer)
            whole = answer is not None and not complaints
            if said.cut and not (whole and question.in_parts):
                # Of a list that was cut off what is whole counts; elsewhere the end may have mattered.
                answer = answer if question.in_parts else None
                self.account.faults["cut"] += 1
                cut = 0 if answer != before else cut + 1
                complaints = [CUT_OFF, *complaints]
                if cut == TOLD_TWICE:
                    if question.kind == "label":  # which then asks for fewer labels at once
                        self.answers.put(question, "cut")
                    raise Unanswered(_spent_on_thoughts(said) or "cut")
            elif answer is not None and not complaints:
                return answer
            self.account.faults["unusable_answer"] += 1
            if said.refused:
                self.account.faults["refusal"] += 1
                refusals += 1
                if said.by_server or refusals == TOLD_TWICE:
                    raise Unanswered(f"the model refused: {said.refused}")
            # Strict servers refuse an empty message.
            echo = [{"role": "assistant", "content": said.text[:LONGEST_ECHO]}] if said.text.strip() else []
            told = render(
                "repair.md", complaints=complaints, in_parts=question.in_parts and answer is not None
            )
            messages = [*question.messages, *echo, {"role": "user", "content": told}]
        usable = None if answer is None else question.rest(answer)
        if usable is None:
            raise Unanswered(
                f"the model refused: {said.refused}" if said.refused else "; ".join(complaints[:3])
            )
        self.account.faults["incomplete_answer"] += 1
        raise Incomplete("; ".join(complaints[:3]), usable)

    async def _complete(self, question: Question[A], messages: list[dict[str, str]]) -> Spoken:
        """Make one request; return what was said and why it ended."""
        full, others, before = 0, 0, self._served
        if self.recording is not None and self.recording.replays:
            return self._replayed(question, messages)
        while True:
            body = self._body(question, messages)
            paid = _Paid(self, question.kind, body, messages)
            try:
                answer = await self._connection.complete(body, paid)
                told = "" if answer.model is None else str(answer.model)[:300]
                if self.section.check_model and not is_same_model(question.model, told):
                    paid.settle(answer.usage, answer.choices[0].message.answer)  # it costs all the same
                    self.account.faults["other_model"] += 1
                    others += 1
                    if others < TOLD_TWICE:
                        continue
                    raise ServerFault("other_model", shown(told, ""))
            except ServerFault as fault:
                if fault.kind in ("full", "request") and self._shortens(fault, body):
                    continue
                if fault.kind == "full":
                    full += 1
                    if full < TOLD_TWICE:
                        continue
                    if len(messages) == len(question.messages):
                        self.answers.put(question, "full")
                    raise Unanswered("full") from None
                if fault.kind == "request" and self._does_without(fault, body):
                    continue
                again = len(messages) > len(question.messages) and fault.kind == "request"
                if again or (fault.kind in _ONE_QUESTION and self._served > before):
                    raise Unanswered(f"the server failed on it ({fault.said})") from None
                times = f"{self.section.retries + 1} times "
                raise self._connection.explain(
                    fault, model=question.model, setting=self.setting, attempts=times
                ) from None
            self._served += 1
            self._schema_known |= "response_format" in body
            choice = answer.choices[0]
            said = choice.message.answer
            paid.settle(answer.usage, said)
            longest = self.reply_tokens * LONGEST_TOKEN
            filtered = (
                "it was stopped by the server's filter" if choice.finish_reason == "content_filter" else ""
            )
            refused = choice.message.refusal or filtered
            spoken = Spoken(
                text=said[:longest],
                cut=len(said) > longest or choice.finish_reason == "length",
                refused=(refused or refusal_in(said))[:200],
                by_server=bool(refused),
                thought=bool(choice.message.thoughts) or "<think" in said[:200],
            )
            if self.recording is not None:
                key = prompt_hash(self._whole_body(question, messages))
                self.recording.add(key, question.kind, body, asdict(spoken), _counts(answer.usage))
            return spoken

    def _replayed(self, question: Question[A], messages: list[dict[str, str]]) -> Spoken:
        """Return what was recorded of a request.

        Raises:
            Unrecorded: Nothing was.
        """
        assert self.recording is not None
        key = prompt_hash(self._whole_body(question, messages))
        row = self.recording.get(key)
        if row is None:
            self._unrecorded.append((question.kind, key))
            raise Unrecorded(key)
        self.recording.replayed += 1
        return Spoken(
            row["text"],
            bool(row.get("cut")),
            str(row.get("refused") or ""),
            bool(row.get("by_server")),
            bool(row.get("thought")),
        )

    def _record_remembered(self, question: Question[A], known: A | str) -> None:
        """Put an answer that this home remembers into the recording, or it would lack what it rests on."""
        if self.recording is None or self.recording.replays or isinstance(known, str):
            return
        body = self._whole_body(question, question.messages)
        key = prompt_hash(body)
        if self.recording.get(key) is None:
            text = str(getattr(known, "text", "")) or dumped(known)
            self.recording.add(key, question.kind, body, asdict(Spoken(text)), None)

    def _whole_body(self, question: Question[A], messages: list[dict[str, str]]) -> dict[str, Any]:
        """Return what decides an answer, whatever of it a server refuses."""
        return {
            "model": question.model,
            "messages": messages,
            "temperature": question.temperature,
            "seed": question.seed,
        }

    async def ticket(self, kind: str, size: int) -> str:
        """Set a request's highest price aside; wait for room that requests in flight still hold."""
        while (ticket := self.account.reserve(kind, size, self.reply_tokens)) is None:
            self._ended.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self.account.looks_again)
        return ticket

    def ended(self) -> None:
        """A request is over: one that waits for room may look again."""
        self._ended.set()

    def _body(self, question: Question[A], messages: list[dict[str, str]]) -> dict[str, Any]:
        body = {
            "model": question.model,
            "messages": messages,
            "temperature": question.temperature,
            "seed": question.seed,
            "response_format": question.response_format,
            "max_tokens": self.reply_tokens,
            "reasoning_effort": self.section.effort or {},
            "extra_body": dict(self.section.extra_body),
        }
        if self.section.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in body.items() if name not in self.refused and value != {}}

    def _shortens(self, fault: ServerFault, body: dict[str, Any]) -> bool:
        """Ask for shorter replies where the server says how long they may be, from then on."""
        most = longest_reply(fault.said, int(body["max_tokens"]))
        if most is None:
            return False
        self.reply_tokens = most
        return True

    def _does_without(self, fault: ServerFault, body: dict[str, Any]) -> bool:
        """Leave away what the server refuses; False when there is nothing left to leave away."""
        said = fault.said.lower()
        optional = [name for name in OPTIONAL if name in body]
        named = [name for name in optional if name in said]
        if not named and "response_format" in optional and not self._schema_known:
            named = ["response_format"]  # servers word a schema that they cannot use in many ways
        self.refused.update(named[:1])
        return bool(named)


def _counts(usage: object) -> dict[str, int] | None:
    """Return what a server says of its tokens, as far as that is numbers."""
    names = ("prompt_tokens", "completion_tokens")
    given = usage if isinstance(usage, dict) else {}
    found = {name: given[name] for name in names if isinstance(given.get(name), int)}
    return found or None


def _spent_on_thoughts(said: Spoken) -> str:
    if said.thought and not said.text.strip():
        return "its whole reply went into reasoning: raise analyst.reply_tokens, or lower analyst.effort"
    return ""


class _Paid:
    """The cost of one request, attempt by attempt: see `Meter`."""

    def __init__(
        self, server: ModelServer, kind: str, body: dict[str, Any], messages: list[dict[str, str]]
    ) -> None:
        self._server, self._kind, self._ticket = server, kind, ""
        self._text = sum(len(one["content"].encode()) for one in messages)
        # Templates add some tokens a message, and some servers put the schema into the prompt.
        self._size = len(json.dumps(body, ensure_ascii=False).encode()) + 64 * len(messages)

    async def begin(self) -> None:
        """Set the highest price aside.

        Raises:
            CapReached: It is more than is left.
        """
        self._ticket = await self._server.ticket(self._kind, self._size)

    def end(self, fault: ServerFault | None) -> None:
        """Book a failed attempt where it may cost something; an answered one is settled when it is read."""
        if fault is None:
            return
        account = self._server.account
        (account.give_up if fault.may_cost else account.release)(self._ticket)
        self._server.ended()

    def settle(self, said: object, reply: str) -> None:
        """Book the answer."""
        account = self._server.account
        size = len(reply.encode("utf-8", "replace"))
        usage = account.settle(self._ticket, said, prompt_text=self._text, reply_text=size)
        if not usage.said:
            account.faults["usage"] += 1
        self._server.ended()
