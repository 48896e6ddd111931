"""A deliberately broken environment: a sound one, the edits that break it, and the check that must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SOUND_FOLDER = Path(__file__).parent / "sound"


def sound_names() -> list[str]:
    """Return the names of the sound environments."""
    return sorted(file.stem for file in SOUND_FOLDER.glob("*.py") if file.stem != "__init__")


def sound_source(name: str) -> str:
    """Return a sound environment's module."""
    return (SOUND_FOLDER / f"{name}.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Animal:
    """One broken environment.

    Attributes:
        name: What is wrong with it, in a few words.
        check_id: The one check that it fails; those that need it are skips, all others pass or are skips.
        base: The sound environment that it was.
        edits: (old, new) texts; each old one stands in the source exactly once. No edits: the fault is in
            what the environment meets, such as what a base policy can do.
        knows: Whether the base policy solves (seed, trial); it says goodbye otherwise. None: no policy is
            rolled out, and the statistical checks are skips.
        real: Whether its contract comes with real trajectories, those of the sound environment: without them
            the fidelity checks but the schema's are skips.
        rules: Thresholds of the policy that this animal is held to otherwise than `ZOO_RULES`.
        section: Settings of the section `synthesis` that this animal needs otherwise than `ZOO_SECTION`.
        held: Whether it is audited in a sandbox that holds clock and chance still. The checks that look for
            what differs from process to process find nothing there; they are for those that cannot.
    """

    name: str
    check_id: str
    base: str
    edits: tuple[tuple[str, str], ...]
    knows: Callable[[int, int], bool] | None = None
    real: bool = False
    section: tuple[tuple[str, int | float], ...] = ()
    rules: tuple[tuple[str, float], ...] = ()
    held: bool = True

    def source(self) -> str:
        """Return the broken module.

        Raises:
            ValueError: An edit's old text is not in the sound source exactly once.
        """
        source = sound_source(self.base)
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(
                    f"'{self.name}' edits a text that stands {source.count(old)} times in {self.base}: {old}"
                )
            source = source.replace(old, new)
        return source
