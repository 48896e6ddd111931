"""The environment that attacks are written into: a desk that pays for the right number, and tools for them.

Seed 0 is an ordinary episode, so that after an attack the same sandbox can be asked whether it is unharmed.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_assets.sandbox.battery.attack import Attack, Place

_TEMPLATE = Path(__file__).with_name("victim.toml")
_PLACES: tuple[Place, ...] = ("tools", "oracle", "reset", "step", "verdict")
_FILL = re.compile(r"@FILL:(.+?):(\d+)@")
CLEAN_OBSERVATION = '{"log": []}'
"""What an episode in which nothing was tried shows."""


@dataclass(frozen=True)
class Bait:
    """What is put on the host for attacks to find; whoever gets it has escaped.

    Attributes:
        file: Path of a file that every user of the host may read.
        secret: What is in it.
        socket: Name of an abstract Unix socket that the host listens on.
        port: TCP and UDP port that the host listens on, on its loopback.
        mark: Part of the name of every file that an attack writes.
        pid: The host's process that plays the attack.
    """

    file: str
    secret: str
    socket: str
    port: int
    mark: str
    pid: int

    def words(self) -> Mapping[str, str]:
        """The names by which attacks speak of it."""
        return {
            "@FILE@": self.file,
            "@SOCKET@": self.socket,
            "@PORT@": str(self.port),
            "@MARK@": self.mark,
            "@PID@": str(self.pid),
        }


def arm(attack: Attack, bait: Bait) -> str:
    """Return the module source of an attack: the victim with the hostile code in its functions.

    `@FILL:text:n@` in the code becomes `text` n times.
    """
    code = dict(attack.code)
    source: str = tomllib.loads(_TEMPLATE.read_text(encoding="utf-8"))["source"]
    for place in _PLACES:
        body = code.get(place, "pass").strip("\n")
        source = source.replace(f"    # HERE: {place}", textwrap.indent(body, "        "))
    source += "\n" + code.get("module", "")
    for word, value in bait.words().items():
        source = source.replace(word, value)
    return _FILL.sub(lambda match: match[1] * int(match[2]), source)
