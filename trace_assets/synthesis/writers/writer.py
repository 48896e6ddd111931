"""What writes an environment, and the record of what was written."""

from __future__ import annotations

import hashlib
from typing import Protocol, runtime_checkable

from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, Environment, EnvironmentCheck
from trace_assets.synthesis.contract.target_contract import TargetContract


@runtime_checkable
class Writer(Protocol):
    """Recipes and language models alike. What it writes is only ever run in the sandbox."""

    @property
    def name(self) -> str:
        """Who writes, as stored in `Environment.writer`: `recipe:<name>` or `model:<name>`."""
        ...

    def write(self, spec: CapabilitySpec, contract: TargetContract) -> str:
        """Write the source of an environment module that teaches the capability.

        Raises:
            InputError: This writer cannot write for this capability or target.
        """
        ...

    def mend(
        self,
        spec: CapabilitySpec,
        contract: TargetContract,
        source: str,
        failed: tuple[EnvironmentCheck, ...],
    ) -> str | None:
        """Write the module again after an audit.

        Args:
            spec: As for `write`.
            contract: As for `write`.
            source: The version that was audited.
            failed: The checks that rejected it, with their evidence.

        Returns:
            The next version, or None when this writer has nothing better to offer.
        """
        ...


def environment_id(source: str) -> str:
    """Return the id of a module: 16 hex digits of the hash of its source.

    >>> environment_id("")
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(source.encode("utf-8")).hexdigest()[:16]


def environment_of(spec: CapabilitySpec, source: str, writer: str, n_versions: int = 1) -> Environment:
    """Return the record of a module."""
    return Environment(
        environment_id=environment_id(source),
        capability_id=spec.capability_id,
        target=spec.target,
        writer=writer,
        source=source,
        n_versions=n_versions,
    )


def write_environment(spec: CapabilitySpec, contract: TargetContract) -> Environment:
    """Write an environment that teaches a capability of a target's agent, from a recipe.

    Models write through `drafting.draft_environment`.

    Args:
        spec: The capability.
        contract: Of the target that the capability was found in.

    Raises:
        InputError: The contract is of another target, or no recipe fits.
    """
    from trace_assets.synthesis.writers.recipe_writer import RecipeWriter

    if contract.target != spec.target:
        raise InputError(
            f"capability '{spec.capability_id}' belongs to target '{spec.target}', but the contract is of "
            f"'{contract.target}'; extract the contract of '{spec.target}'."
        )
    writer = RecipeWriter.for_spec(spec)
    return environment_of(spec, writer.write(spec, contract), writer.name)
