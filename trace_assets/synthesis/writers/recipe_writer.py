"""Environments from recipes: templates keyed by detector family, filled from the contract alone."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, EnvironmentCheck
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.recipes.plan import guarded_plan, several_plan

RECIPES = {
    "ended_with_work_open": "object_untouched",
    "object_untouched": "object_untouched",
    "write_against_state": "write_against_state",
    "write_without_read": "write_without_read",
}
"""Detector family -> recipe. Both ways of stopping early are taught by requests about several objects."""


FEATURES = (
    "maps",
    "copies",
    "wraps",
    "nested",
    "refuses",
    "instead_keyless",
    "plain_errors",
    "shows",
    "keyless",
    "user_answers",
)


class RecipeWriter:
    """Fills one recipe.

    Args:
        recipe: A value of `RECIPES`.

    Raises:
        InputError: There is no such recipe.
    """

    def __init__(self, recipe: str) -> None:
        if recipe not in RECIPES.values():
            known = ", ".join(sorted(set(RECIPES.values())))
            raise InputError(f"there is no recipe '{recipe}'; there are {known}.")
        self._recipe = recipe

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
        return cls(RECIPES[spec.detector])

    @property
    def name(self) -> str:
        """`recipe:<recipe>`."""
        return f"recipe:{self._recipe}"

    def write(self, spec: CapabilitySpec, contract: TargetContract) -> str:
        """Write the module.

        Raises:
            InputError: The contract shows too little of what the recipe needs; the message names it.
        """
        plan = (
            guarded_plan(spec, contract)
            if self._recipe != "object_untouched"
            else several_plan(spec, contract)
        )
        source: str = _template(self._recipe).render(
            title=_line(spec.name) or spec.capability_id,
            capability=_line(spec.description),
            recipe=self._recipe,
            target=contract.target,
            tools=_literal([tool.openai() for tool in contract.tools]),
            p=dict.fromkeys(FEATURES, False),
            plan=_literal(plan),
        )
        return source

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
    return pprint.pformat(value, width=110, sort_dicts=False)


def _line(text: str) -> str:
    """Return a text as it may stand in a docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())


@cache
def _template(name: str) -> Any:
    import jinja2

    folder = resources.files("trace_assets.synthesis").joinpath("recipes")
    loader = jinja2.FunctionLoader(lambda file: folder.joinpath(file).read_text(encoding="utf-8"))
    environment = jinja2.Environment(  # the output is Python, not HTML
        loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    return environment.get_template(f"{name}.py.jinja")
