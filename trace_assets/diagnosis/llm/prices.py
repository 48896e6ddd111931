"""Prices of common models where the settings name none: from the package `genai-prices`, if it is there.

The package bundles its data, so nothing is looked up elsewhere. It is asked by the server's address: a model
of the same name on a server of one's own has no price.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trace_assets.settings import Analyst

PACKAGE = "genai_prices"
MILLION = 1_000_000
_SIZES = (1_000, 500_000)
"""Prompts at which prices are read: some models cost more on long ones, and a cap must hold for these too."""


def with_prices(section: Analyst, models: Iterable[str]) -> Analyst:
    """Return a section with the prices of its models, the highest of each kind, where it has none.

    Args:
        section: Whose settings come first; a price of the settings is never replaced.
        models: All that are asked on its server. If one of them is not known nothing is filled in.
    """
    wanted = {one for one in models if one}
    if section.prompt_usd or section.completion_usd or not section.base_url or not wanted:
        return section
    if find_spec(PACKAGE) is None:
        return section
    package = import_module(PACKAGE)
    try:
        found = [_prices(package, model, section.base_url) for model in sorted(wanted)]
    except Exception:  # of a package that is only of help: unknown models, servers, versions
        return section
    prompt, cached, completion = (max(prices) for prices in zip(*found, strict=True))
    if not prompt or not completion:
        return section
    return section.model_copy(
        update={"prompt_usd": prompt, "cached_usd": cached, "completion_usd": completion}
    )


def _prices(package: Any, model: str, base_url: str) -> tuple[float, float, float]:
    """Return USD for a million prompt, cached and completion tokens."""

    def cost(**tokens: int) -> Any:
        return package.calc_price(package.Usage(**tokens), model, provider_api_url=base_url)

    prompt = max(float(cost(input_tokens=size).input_price) / size for size in _SIZES)
    cached = max(float(cost(input_tokens=size, cache_read_tokens=size).input_price) / size for size in _SIZES)
    completion = max(
        float(cost(input_tokens=size, output_tokens=1000).output_price) / 1000 for size in _SIZES
    )
    return prompt * MILLION, cached * MILLION, completion * MILLION
