"""How good a router is: accuracy, calibration and confusion against a known right choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from trace_assets.records import NO_ADAPTER, Route, RouterScore
from trace_assets.statistics.calibration import expected_calibration_error
from trace_assets.statistics.wilson import wilson


def score(routes: Iterable[Route], truth: Mapping[str, str], split: str = "test") -> RouterScore:
    """Score one router's routes against the choice that each task calls for.

    Args:
        routes: Routes of one router. Tasks without a known choice are left out of the count.
        truth: Task id -> choice.
        split: Where the tasks come from, such as `test` or `discovery (held out)`.

    Returns:
        The score; figures are null when no task is in both.

    Raises:
        ValueError: The routes are of several routers, or a task is routed twice.
    """
    every = list(routes)
    if len({route.router for route in every}) > 1:
        raise ValueError(f"routes of several routers: {sorted({route.router for route in every})}")
    if len({route.task_id for route in every}) < len(every):
        raise ValueError("a task is routed twice")
    known = [route for route in every if route.task_id in truth]
    n, right = len(known), [route.choice == truth[route.task_id] for route in known]
    low, high = wilson(sum(right), n)
    most = max(Counter(truth[route.task_id] for route in known).values(), default=0)
    confidence = [float(route.probabilities[route.choice]) for route in known]
    return RouterScore(
        router=every[0].router if every else "",
        split=split,
        n=n,
        accuracy=sum(right) / n if n else None,
        accuracy_low=low if n else None,
        accuracy_high=high if n else None,
        calibration_error=expected_calibration_error(confidence, right),
        majority_share=most / n if n else None,
    )


def confusion(routes: Iterable[Route], truth: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Count choices by what the task called for.

    Args:
        routes: Routes of one router.
        truth: Task id -> choice.

    Returns:
        Called for -> chosen -> tasks; square, both in sorted order with `none` last, zeros included.

    >>> confusion([], {})
    {}
    """
    pairs = Counter((truth[route.task_id], route.choice) for route in routes if route.task_id in truth)
    names = sorted({name for pair in pairs for name in pair}, key=lambda name: (name == NO_ADAPTER, name))
    return {row: {column: pairs[row, column] for column in names} for row in names}
