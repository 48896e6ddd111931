"""How often the test split was opened, and for what: nothing forbids a second look, but none is forgotten."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.store.content import text_version
from trace_assets.store.files import write_text


@dataclass(frozen=True)
class Configuration:
    """What is evaluated on the test split. Equal configurations are one opening.

    Attributes:
        target: Version of the target, which fixes the test tasks.
        base: Content hash of the base model.
        adapters: Adapter name -> content hash.
        routing: Version of the router whose choices the arm `routed` follows.
    """

    target: str
    base: str
    adapters: Mapping[str, str]
    routing: str

    @property
    def fingerprint(self) -> str:
        """Content hash of all four."""
        adapters = json.dumps(dict(self.adapters), sort_keys=True)
        return text_version(self.target, self.base, adapters, self.routing)


@dataclass(frozen=True)
class Opening:
    """One configuration that was shown the test split.

    Attributes:
        number: 1 for the first configuration on this target version, 2 for the next.
        opened_at: When it was opened first, ISO 8601 in UTC.
        times: How often it was evaluated; repeating the same configuration is no new look.
        fingerprint: Of the configuration.
        target: Version of the target.
        base: Content hash of the base model.
        adapters: Adapter name -> content hash.
        routing: Version of the router.
    """

    number: int
    opened_at: str
    times: int
    fingerprint: str
    target: str
    base: str
    adapters: dict[str, str]
    routing: str


def open_test_split(path: Path, configuration: Configuration) -> Opening:
    """Record that the test split is about to be opened. Call before the first test episode is played.

    Args:
        path: The record, a JSON file; made when it is not there.
        configuration: What will be evaluated.

    Returns:
        The opening. `number` above 1 says that another configuration saw the same test tasks before.

    Raises:
        InputError: The file is not such a record. It is never overwritten then: a lost count would pass for a
            first look.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        every = openings(path)
        mine = [row for row in every if row.fingerprint == configuration.fingerprint]
        if mine:
            opening = Opening(**{**asdict(mine[0]), "times": mine[0].times + 1})
            every[every.index(mine[0])] = opening
        else:
            opening = Opening(
                number=1 + sum(row.target == configuration.target for row in every),
                opened_at=datetime.now(UTC).isoformat(timespec="seconds"),
                times=1,
                fingerprint=configuration.fingerprint,
                target=configuration.target,
                base=configuration.base,
                adapters=dict(configuration.adapters),
                routing=configuration.routing,
            )
            every.append(opening)
        write_text(path, json.dumps([asdict(row) for row in every], indent=1, sort_keys=True))
    return opening


def openings(path: Path, target: str | None = None) -> list[Opening]:
    """Return all openings, oldest first.

    Args:
        path: The record; nothing was opened when it is not there.
        target: Only those of one target version.

    Raises:
        InputError: The file is not such a record.
    """
    if not path.exists():
        return []
    try:
        rows = [Opening(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"the record of test-split openings {path} cannot be read ({error}): restore it, or move it away "
            "and say in the report that earlier openings are not known."
        ) from error
    return [row for row in rows if target in (None, row.target)]


def how_often(found: list[Opening]) -> str:
    """Return one sentence for the report, about the openings of one target version.

    >>> how_often([])
    'The test split was never opened.'
    """
    if not found:
        return "The test split was never opened."
    if len(found) == 1:
        return f"The test split was opened once, for one configuration ({found[0].opened_at})."
    return (
        f"The test split was opened {len(found)} times, for as many configurations "
        f"(first {found[0].opened_at}, last {found[-1].opened_at}): only the first was a first look."
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
