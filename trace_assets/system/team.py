"""Who helps this process with work that can be divided: the nodes of a cluster, where it works on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Team(Protocol):
    """Makes calls in other processes, on this machine and on others."""

    @property
    def workers(self) -> int:
        """Calls that it makes at once, when nobody else is at work."""

    def each(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """Call a function of a module with each of some arguments.

        A call whose process or machine is lost is made anew, alone, so it must do no harm twice.

        Returns:
            What the calls returned, in the order in which they ended.

        Raises:
            Unavailable: One was lost again and again.
        """


_present: ContextVar[Team | None] = ContextVar("team", default=None)


def team() -> Team | None:
    """Return who helps this process, None where it is on its own."""
    return _present.get()


@contextmanager
def helped_by(helpers: Team | None) -> Iterator[None]:
    """Have a team help until the body ends."""
    before = _present.set(helpers)
    try:
        yield
    finally:
        _present.reset(before)
