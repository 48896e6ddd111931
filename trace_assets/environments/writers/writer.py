"""What writes an environment, and the record of what was written."""

from __future__ import annotations

import hashlib
import pprint
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.templates.families import AT_ONCE, FAMILIES, Recipe
from trace_assets.environments.templates.plan import FEATURES
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, Environment, EnvironmentCheck
from trace_assets.shipped import text_templates

if TYPE_CHECKING:
    from jinja2 import Template


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

    Raises:
        InputError: The contract is of another target, or no recipe fits.
    """
    if contract.target != spec.target:
        raise InputError(
            f"capability '{spec.capability_id}' belongs to target '{spec.target}', but the contract is of "
            f"'{contract.target}'; extract the contract of '{spec.target}'."
        )
    writer = RecipeWriter.for_spec(spec)
    return environment_of(spec, writer.write(spec, contract), writer.name)


def write_together(capability_id: str, contract: TargetContract) -> Environment:
    """Write an environment in which several capabilities are needed at once, from a recipe.

    Raises:
        InputError: The contract does not show that several things are asked for at once.
    """
    spec = CapabilitySpec(
        capability_id=capability_id,
        target=contract.target,
        name="Do all that is asked for, each as its state says",
        description="Several things are asked for at once, and each is done as the state of its object says.",
    )
    writer = RecipeWriter(AT_ONCE)
    return environment_of(spec, writer.write(spec, contract), writer.name)


# Environments from recipes: templates keyed by detector family, filled from the contract alone.


RECIPES = {family: recipe.template for family, recipe in sorted(FAMILIES.items())}
"""Detector family -> recipe."""
MAX_CHARACTERS = 40_000
"""A table written longer than this with its values aligned is written with one blank a level."""


class RecipeWriter:
    """Fills the recipe of one detector family.

    Args:
        recipe: A key of `RECIPES`, or a recipe itself.

    Raises:
        InputError: There is no such recipe.
    """

    def __init__(self, recipe: str | Recipe) -> None:
        if isinstance(recipe, str) and recipe not in RECIPES:
            raise InputError(f"there is no recipe for '{recipe}'; there are {', '.join(RECIPES)}.")
        self._recipe = FAMILIES[recipe] if isinstance(recipe, str) else recipe

    @classmethod
    def for_spec(cls, spec: CapabilitySpec) -> RecipeWriter:
        """Return the writer for a capability's detector.

        Raises:
            InputError: No recipe is keyed by that detector.
        """
        if spec.detector not in RECIPES:
            found = f"detector '{spec.detector}'" if spec.detector else "no detector, a model proposed it"
            raise InputError(
                f"no recipe writes an environment for capability '{spec.capability_id}' ({found}); recipes "
                f"exist for {', '.join(RECIPES)}: leave this capability out, or use a writer that needs none."
            )
        return cls(spec.detector)

    @property
    def name(self) -> str:
        """`recipe:<recipe>`."""
        return f"recipe:{self._recipe.template}"

    def write(self, spec: CapabilitySpec, contract: TargetContract) -> str:
        """Write the module.

        Raises:
            InputError: The contract shows too little of what the recipe needs; the message names it.
        """
        filled = self._recipe.fill(spec, contract)
        return _template(filled.template or self._recipe.template).render(
            title=_line(spec.name) or spec.capability_id,
            capability=_line(spec.description),
            recipe=self._recipe.template,
            target=contract.target,
            tools=_literal([tool.openai() for tool in contract.tools]),
            plan=_literal(filled.plan),
            p={name: name in filled.features for name in FEATURES},
            look_key='PLAN["read_key"]' if "read_key" in filled.features else 'PLAN["key"]',
        )

    def mend(
        self,
        spec: CapabilitySpec,
        contract: TargetContract,
        source: str,
        failed: Sequence[EnvironmentCheck],
    ) -> str | None:
        """A recipe writes the same again: there is nothing to mend."""
        return None


def _literal(value: Any) -> str:
    text = pprint.pformat(value, width=110, sort_dicts=False)
    return text if len(text) <= MAX_CHARACTERS else _shallow(value, 1)


def _shallow(value: Any, depth: int) -> str:
    """Write a large value with one blank a level: aligned by their keys, nested schemas are mostly blanks."""
    text = repr(value)
    if len(text) + depth <= 110 or not isinstance(value, dict | list) or not value:
        return text
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return pprint.pformat(value, 1, 110 - depth, compact=True).replace("\n", "\n" + " " * depth)
    if isinstance(value, dict):
        parts = [f"{key!r}: {_shallow(held, depth + 1)}" for key, held in value.items()]
    else:
        parts = [_shallow(held, depth + 1) for held in value]
    return "[{"[isinstance(value, dict)] + (",\n" + " " * depth).join(parts) + "]}"[isinstance(value, dict)]


def _line(text: str) -> str:
    """Return a text as it may stand in a docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())


def _template(name: str) -> Template:
    return text_templates("environments", "templates").get_template(f"{name}.py.jinja")
