from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from chat_server import ChatServer
from honest_reader import HonestReader

from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.llm.analyst import ModelAnalyst, rehearse
from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.records import Capability, Trajectory
from trace_assets.settings import Analyst, Discovery, Labels
from trace_assets.store import Store

FAST = {"pause_seconds": 0.01, "timeout_seconds": 60.0, "concurrency": 4}
OpenAnalyst = Callable[..., Any]


@pytest.fixture(scope="session")
def planted() -> list[Capability]:
    """The three planted deficits, as detectors find them on a large rehearsal."""
    return DetectorAnalyst(Discovery()).discover(rehearse(300).trajectories)[:3]


@pytest.fixture(scope="session")
def trajectories() -> list[Trajectory]:
    return rehearse(50).trajectories


@pytest.fixture(scope="session")
def reader(planted: list[Capability]) -> HonestReader:
    return HonestReader(planted)


@pytest.fixture
def honest(reader: HonestReader) -> Iterator[ChatServer]:
    with ChatServer(reader.answer) as server:
        yield server


@pytest.fixture
def open_analyst(tmp_path: Path) -> OpenAnalyst:
    """Open a model analyst on a home of the test's own."""

    @contextmanager
    def opened(
        url: str,
        home: str = "home",
        discovery: dict[str, Any] | None = None,
        labels: dict[str, Any] | None = None,
        **more: Any,
    ) -> Iterator[tuple[ModelAnalyst, ModelServer]]:
        section = Analyst(**{"base_url": url, **FAST, **more})
        folder = tmp_path / home
        with open_account(Store(folder / "tables"), folder / "answers", section, "labels", "b") as account:
            server = ModelServer(section, Answers(folder / "answers"), account)
            yield (
                ModelAnalyst(
                    server,
                    Discovery(**{"model": "m", **(discovery or {})}),
                    Labels(**{"model": "m", **(labels or {})}),
                ),
                server,
            )

    return opened
