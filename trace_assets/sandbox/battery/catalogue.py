"""The attacks as a table for people: `python -m trace_assets.sandbox.battery.catalogue`."""

from __future__ import annotations

from collections import Counter, defaultdict

from trace_assets.sandbox.battery.attack import GROUPS, Attack, load_attacks
from trace_assets.sandbox.battery.run import SCENARIOS
from trace_assets.sandbox.battery.scenario import Scenario


def catalogue() -> str:
    """Return every attack by group and by the outcomes that are good, as a table in Markdown."""
    by_outcome: dict[tuple[str, str], list[str]] = defaultdict(list)
    every: list[Attack | Scenario] = [*load_attacks(), *SCENARIOS]
    for one in every:
        by_outcome[one.group, " or ".join(one.expected)].append(one.name)
    counts = Counter[str]()
    for (group, _), names in by_outcome.items():
        counts[group] += len(names)
    lines = ["| group | good outcome | attacks |", "|---|---|---|"]
    for group in GROUPS:
        rows = sorted(
            ((outcome, names) for (of, outcome), names in by_outcome.items() if of == group),
            key=lambda row: -len(row[1]),
        )
        for number, (outcome, names) in enumerate(rows):
            title = f"{group} ({counts[group]})" if number == 0 else ""
            lines.append(f"| {title} | {outcome} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(catalogue())
