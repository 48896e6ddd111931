"""What was wrong with a file that was read: one sentence each, with its place."""

from __future__ import annotations

from typing import Literal

from trace_assets.records import Record


class Problem(Record):
    """One thing in a file that could not be read as it should.

    `str(problem)` is the sentence for the person at the terminal.
    """

    path: str
    """The file, as it was named by the caller."""
    position: str = ""
    """Where in it: `simulations[3]`, `line 5 column 12`; empty when the whole file is meant."""
    message: str
    """What is wrong and what was done about it, without the place."""
    severity: Literal["error", "notice"] = "error"
    """error: something was left out. notice: everything was kept, but look at it."""

    def __str__(self) -> str:
        """Return the sentence.

        >>> str(Problem(path="a.json", position="simulations[3]", message="there is no 'id'"))
        "a.json: simulations[3]: there is no 'id'."
        """
        place = f"{self.path}: {self.position}" if self.position else self.path
        return f"{place}: {self.message.rstrip('.')}."
