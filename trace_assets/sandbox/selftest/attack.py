"""What an attack is, and the attacks that this package ships."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_assets.errors import InputError
from trace_assets.sandbox.backend import IsolationLevel

Group = Literal["exhaustion", "escape", "integrity", "placement", "recovery"]
Place = Literal["module", "tools", "oracle", "reset", "step", "verdict"]
GROUPS: tuple[Group, ...] = ("exhaustion", "escape", "integrity", "placement", "recovery")
SHORT, LONG = 0.6, 8.0
_FOLDER = Path(__file__).parent / "attacks"


class Attack(BaseModel):
    """One attack, as a file of `battery/attacks/` describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    group: Group
    tries: str
    """What it tries, in one sentence."""
    expected: tuple[str, ...] = Field(min_length=1)
    """Outcomes that are good, each as the beginning of an outcome: see `outcome.Outcome`."""
    code: dict[Place, str] = {}
    """Hostile code by the function of the victim that it begins; `module` is put at the module's end."""
    says: str = ""
    """Regular expression that the fault's message must match, so that a mistake in the attack is no pass."""
    call: Literal["tools", "oracle", "step", "verdict"] = "verdict"
    """The last function that is called; those before it in an episode are called first."""
    copies: int = Field(default=1, ge=1)
    """Episodes that strike at the same time in one sandbox."""
    action_text: str = "now"
    """What the agent says."""
    action_bytes: int = Field(default=0, ge=0)
    """Length of what it says: a long text fills the socket to a victim that does not read."""
    deadline: float = Field(default=0, ge=0)
    """Wall seconds a call, in place of the sandbox's own; 0: few where the deadline is what must pass, and
    enough for a busy machine elsewhere."""
    backends: tuple[IsolationLevel, ...] = ("docker", "bubblewrap")
    """Where it means something."""
    why_not: str = ""
    """Why it means nothing in the others."""
    harmless: bool = False
    """It does no harm even where nothing isolates it, so that the battery itself can be tested there."""
    wall: Literal["leaf", "container"] = "leaf"
    """What holds it: all of the sandbox, or the container alone, with an episode that keeps the kernel."""
    slow: bool = False

    @property
    def limit(self) -> float:
        """Wall seconds a call."""
        return self.deadline or (SHORT if "timeout" in self.expected else LONG)

    def wants(self, isolation: IsolationLevel) -> str | None:
        """Why it is not played in a backend; None when it is."""
        if isolation == "none":
            return None if self.harmless else "not played without isolation: it would do what it tries"
        if isolation not in self.backends:
            return self.why_not or f"means nothing in {isolation}"
        return None


@cache
def load_attacks() -> tuple[Attack, ...]:
    """Return every attack that is written as a file, in the order of the groups.

    Raises:
        InputError: A file is not what this module describes.
    """
    found: list[Attack] = []
    for path in sorted(_FOLDER.glob("*.toml")):
        group = re.split(r"[_.]", path.name)[0]
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            wall = {"wall": document["wall"]} if "wall" in document else {}
            found += [Attack(group=group, **{**wall, **row}) for row in document["attack"]]
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValidationError) as error:
            raise InputError(
                f"the attacks in {path} cannot be read ({error}); install the package again."
            ) from None
    _check_names(found)
    return tuple(sorted(found, key=lambda one: GROUPS.index(one.group)))


def _check_names(attacks: Sequence[Attack]) -> None:
    names = [one.name for one in attacks]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"attack '{doubled[0]}' is there twice; each needs a name of its own.")
