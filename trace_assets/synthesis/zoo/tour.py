"""A walk through the zoo: does every check see its fault, and nothing else, in this sandbox?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trace_assets.progress import progress
from trace_assets.sandbox import SandboxPool
from trace_assets.synthesis.zoo.animal import sound_names
from trace_assets.synthesis.zoo.animals import ANIMALS
from trace_assets.synthesis.zoo.keeper import Keeper, failed


@dataclass(frozen=True)
class Visit:
    """One environment of the zoo and what its audit said.

    Attributes:
        base: The sound environment that it is, or was made of.
        expected: The check that it must fail; empty for a sound one.
        failed: Checks that it failed, with what they saw.
    """

    name: str
    base: str
    expected: str
    failed: dict[str, str]

    @property
    def right(self) -> bool:
        """Whether it failed exactly what it must."""
        return set(self.failed) == ({self.expected} if self.expected else set())


def tour(pool: SandboxPool) -> Iterator[Visit]:
    """Audit every environment of the zoo, the sound ones first.

    Args:
        pool: Sandboxes of the kind that is to be relied on.

    Raises:
        SandboxUnavailable: There is none.
    """
    keeper = Keeper(pool)
    names = sound_names()
    with progress("zoo", len(names) + len(ANIMALS)) as bar:
        for name in names:
            yield Visit(name, name, "", failed(keeper.audit_sound(name)))
            bar.advance(note=name)
        for animal in ANIMALS:
            yield Visit(animal.name, animal.base, animal.check_id, failed(keeper.audit(animal)))
            bar.advance(note=animal.name)
