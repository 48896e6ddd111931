"""The world of ToolSandbox made repeatable: its clock, its fresh ids, its scenarios and their families.

Imported before anything of `tool_sandbox`: its tools take `uuid4` by name, and the dates that milestones wait
for are computed when scenarios are built.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import time_machine

FIXED_CLOCK = "2025-03-12T10:00:00"
"""A Wednesday morning: "next Friday" and "tomorrow 5PM" are neither today nor past."""
SECONDS_A_STEP = 1.0
NETWORK = frozenset(
    (
        "convert_currency",
        "search_lat_lon",
        "search_location_around_lat_lon",
        "search_stock",
        "search_weather_around_lat_lon",
    )
)
"""Tools that ask a web service."""

os.environ["TZ"] = "UTC"
time.tzset()


class Clock:
    """The time that the process believes it is: it stands still, and moves on a second a step."""

    def __init__(self) -> None:
        self._travel: Any = None
        self.start = ""

    def set(self, option: str) -> str:
        """Set the clock; return the time that episodes begin at.

        Args:
            option: An ISO time without a zone, `fixed`, or `today` for ten o'clock on the machine's day.

        Raises:
            ValueError: It is none of these.
        """
        self.release()
        if option == "today":
            self.start = datetime.now().strftime("%Y-%m-%dT10:00:00")
        else:
            self.start = FIXED_CLOCK if option == "fixed" else option
        self._turn()
        return self.start

    def release(self) -> None:
        """Let the machine's time be seen."""
        if self._travel is not None:
            self._travel.stop()
            self._travel = None

    def _turn(self) -> None:
        moment = datetime.fromisoformat(self.start).replace(tzinfo=UTC)
        self._travel = time_machine.travel(moment, tick=False)
        self._hands = self._travel.start()

    def rewind(self) -> None:
        """Go back to the beginning of an episode."""
        self.release()
        self._turn()

    def tick(self) -> None:
        """Move on by one step."""
        self._hands.shift(SECONDS_A_STEP)

    def day(self) -> str:
        """Return the machine's own day."""
        self.release()
        day = datetime.now().strftime("%Y-%m-%d")
        self._turn()
        return day


CLOCK = Clock()
_IDS = random.Random(0)


def seed_ids(text: str) -> None:
    """Make the ids of new things, and whatever else is drawn, follow from a text."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    _IDS.seed(number)
    random.seed(number)


def _uuid4() -> uuid.UUID:
    return uuid.UUID(int=_IDS.getrandbits(128), version=4)


uuid.uuid4 = _uuid4


def build() -> dict[str, Any]:
    """Build the base scenarios under the present clock: those of the paper, without its augmentations."""
    from tool_sandbox.common.tool_discovery import ToolBackend
    from tool_sandbox.scenarios.insufficient_information_scenarios import (
        named_insufficient_information_scenarios,
    )
    from tool_sandbox.scenarios.multiple_tool_call_scenarios import named_multiple_tool_call_scenarios
    from tool_sandbox.scenarios.multiple_user_turn_scenarios import named_multiple_user_turn_scenarios
    from tool_sandbox.scenarios.single_tool_call_scenarios import named_single_tool_call_scenarios

    seed_ids("build")
    found: dict[str, Any] = {}
    for name_them in (
        named_single_tool_call_scenarios,
        named_multiple_tool_call_scenarios,
        named_multiple_user_turn_scenarios,
        named_insufficient_information_scenarios,
    ):
        found.update(name_them(preferred_tool_backend=ToolBackend.DEFAULT))
    return found


def needs_network(scenario: Any) -> bool:
    """Say whether a scenario hands out a tool that asks a web service."""
    return bool(NETWORK & set(scenario.starting_context.tool_allow_list or ()))


def families(asked: dict[str, str]) -> dict[str, str]:
    """Return the family of every scenario: variants of one base scenario, and whatever asks the same.

    A scenario's name begins with the name of what it varies, as in `find_temperature` and
    `find_temperature_low_battery_mode`.

    Args:
        asked: What the user wants, by name of the scenario.
    """
    family: dict[str, str] = {}
    for name in sorted(asked, key=lambda name: (len(name), name)):
        roots = [other for other in asked if name.startswith(f"{other}_")]
        family[name] = family[min(roots, key=len)] if roots else name
    first: dict[str, str] = {}
    for name in sorted(asked):
        words = " ".join(asked[name].lower().split())
        same = first.setdefault(words, family[name])
        if same != family[name]:
            old = family[name]
            family = {one: same if root == old else root for one, root in family.items()}
            first = {text: same if root == old else root for text, root in first.items()}
    return family


def splits_of(family: dict[str, str]) -> dict[str, str]:
    """Return the split of every family: in the order of their hashes, half discovery, then a quarter each.

    All scenarios are counted, those that are not listed too: what is listed moves no scenario.
    """
    sizes = Counter(family.values())
    found: dict[str, str] = {}
    before = 0
    for name in sorted(sizes, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        share = (before + sizes[name] / 2) / len(family)
        found[name] = "discovery" if share < 0.5 else "validation" if share < 0.75 else "test"
        before += sizes[name]
    return found
