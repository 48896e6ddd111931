"""Decisions of the proxy: made once an opening, remembered, and written down without the opening's text."""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.routing.proxy.deciders import Decider
from trace_assets.routing.proxy.opening import opening_hash

REMEMBERED = 10_000
"""Openings; one that is forgotten is decided again, the same way."""


@dataclass(frozen=True)
class Decision:
    """Where a conversation goes.

    Attributes:
        opening: Hash of its opening.
        choice: An adapter's name, or `none`.
        model: What the server calls it.
        probabilities: Choice -> probability.
    """

    opening: str
    choice: str
    model: str
    probabilities: Mapping[str, float]


class Decisions:
    """Asks a decider, remembers, and records.

    Args:
        decider: Who decides.
        models: Choice -> name of the model on the server, for every choice of the decider.
        record: File for one line of JSON a routed request; None records nothing.
        remembered: How many openings are kept in memory.

    Raises:
        InputError: A choice has no model.
    """

    def __init__(
        self,
        decider: Decider,
        models: Mapping[str, str],
        record: Path | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        missing = [choice for choice in decider.choices if choice not in models]
        if missing:
            raise InputError(
                f"the router may choose '{missing[0]}', which is no adapter that is served: fit the router "
                "again (trace sync --select routing), or release again."
            )
        self.decider, self.models = decider, {choice: models[choice] for choice in decider.choices}
        self._record, self._remembered = record, remembered
        self._known: OrderedDict[str, Decision] = OrderedDict()
        if record is not None:
            try:
                record.parent.mkdir(parents=True, exist_ok=True)
                record.open("ab").close()
            except OSError as error:
                raise InputError(f"decisions cannot be recorded in {record} ({error.strerror}).") from error

    async def of(self, text: str, headers: Mapping[str, str], turn: int = 0) -> Decision:
        """Return the decision on a conversation, and record it.

        Args:
            text: Its opening.
            headers: Of the request, for a decider that asks the server.
            turn: Replies that the conversation already holds.

        Raises:
            Refused: The server refused the routing question.
            Unavailable: The decider could not decide.
        """
        key = opening_hash(text)
        known = self._known.get(key)
        if known is None:
            row = await self.decider.decide(text, headers)
            choice = max(row, key=lambda name: row[name])
            known = Decision(key, choice, self.models[choice], row)
            self._known[key] = known
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
            remembered = False
        else:
            self._known.move_to_end(key)
            remembered = True
        self._write(known, turn, remembered)
        return known

    def _write(self, decision: Decision, turn: int, remembered: bool) -> None:
        if self._record is None:
            return
        line = json.dumps(
            {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "opening": decision.opening,
                "turn": turn,
                "choice": decision.choice,
                "model": decision.model,
                "probabilities": {name: round(value, 6) for name, value in decision.probabilities.items()},
                "router": self.decider.name,
                "version": self.decider.version,
                "remembered": remembered,
            }
        )
        # One write to a file opened for appending: lines of several processes do not mix.
        file = os.open(self._record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode() + b"\n")
        finally:
            os.close(file)
