"""`python -m tests.audit_fixtures [--json] [--set KEY=VALUE]`: try the audit on environments known as broken.

Each broken one must fail the check that is meant for it and no other, each sound one none: exit 1 where one
does otherwise. It runs in the sandbox that the settings ask for: it shows what an audit here is worth.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from tests.audit_fixtures.runner import Visit, tour
from trace_assets.resources.sandbox import sandbox_pool
from trace_assets.study import Study


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit all of them, print each as it is done, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit_fixtures", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    asked = parser.parse_args(arguments)
    study = Study.open(None, None, asked.set or None)
    console = Console(soft_wrap=True, highlight=False)
    visits: list[Visit] = []
    with sandbox_pool(study) as pool:
        for visit in tour(pool):
            visits.append(visit)
            if not asked.json:
                console.print(_line(visit))
        isolation = pool.isolation_level
    wrong = [visit for visit in visits if not visit.right]
    if asked.json:
        rows = [
            {"name": v.name, "base": v.base, "expected": v.expected, "failed": v.failed, "right": v.right}
            for v in visits
        ]
        print(json.dumps({"isolation": isolation, "wrong": len(wrong), "visits": rows}, indent=2))
    else:
        sound = sum(not visit.expected for visit in visits)
        console.print(
            f"{len(visits) - sound} broken and {sound} sound environments, {len(wrong)} audited wrongly "
            f"(isolation: {isolation})."
        )
    return 1 if wrong else 0


def _line(visit: Visit) -> str:
    seen = ", ".join(visit.failed) or "nothing"
    mark = "[green]right[/]" if visit.right else "[red]WRONG[/]"
    wanted = "" if visit.right else f", should fail {visit.expected or 'nothing'}"
    return f"{mark} {escape(visit.name)} [dim]({visit.base})[/] fails {seen}{wanted}"


if __name__ == "__main__":
    raise SystemExit(main())
