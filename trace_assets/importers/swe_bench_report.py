"""Reports of SWE-bench's evaluation that lie beside trajectories: which instances are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from trace_assets.untrusted.json_text import read_json

_LARGEST = 1 << 24
"""Bytes of a file that may be such a report."""
_MEMORY = 1 << 28
"""Bytes of memory that reading one may take."""
_YES = ("resolved_ids", "resolved")
_NO = (
    "unresolved_ids",
    "unresolved",
    "empty_patch_ids",
    "no_generation",
    "submitted_ids",
    "completed_ids",
    "generated",
    "applied",
)
_BROKEN = ("error_ids", "infra_failure_ids")
"""Of these nothing is known: the evaluation itself failed."""


def resolved(instance: str, own: Path, run: Path) -> bool | None:
    """Tell whether an instance's patch resolved its issue; None where no report says so.

    Args:
        instance: Its id.
        own: The folder of its trajectory.
        run: The folder of the whole run.
    """
    for folder in dict.fromkeys((own, run, run / "sb-cli-reports", run / "evaluation")):
        verdict = _reports(folder, *_stamps(folder)).get(instance)
        if verdict is not None:
            return verdict
    return None


@lru_cache(maxsize=64)
def _reports(folder: Path, *stamps: tuple[str, int]) -> dict[str, bool]:
    """Return what the reports in a folder say; `stamps` makes a changed folder be read again."""
    found: dict[str, bool] = {}
    for name, _ in stamps:
        try:
            found.update(_verdicts(read_json((folder / name).read_bytes(), _MEMORY)))
        except (ValueError, OSError):
            continue
    return found


def _stamps(folder: Path) -> Iterator[tuple[str, int]]:
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".traj.json") or path.name in ("preds.json", "all_preds.json"):
            continue
        about = path.stat()
        if about.st_size <= _LARGEST:
            yield path.name, about.st_mtime_ns


def _verdicts(report: Any) -> Iterator[tuple[str, bool]]:
    """Yield (instance, resolved) of a report of any of the evaluation's forms."""
    if not isinstance(report, dict):
        return
    said = [report[name] for name in _YES if isinstance(report.get(name), list)]
    if said:
        broken = {str(one) for name in _BROKEN for one in _list(report, name)}
        yield from (
            (str(one), False) for name in _NO for one in _list(report, name) if str(one) not in broken
        )
        yield from ((str(one), True) for one in said[0])
        return
    for instance, about in report.items():  # an instance's own report
        if isinstance(about, dict) and isinstance(about.get("resolved"), bool):
            yield instance, about["resolved"]


def _list(report: dict[str, Any], name: str) -> list[Any]:
    value = report.get(name)
    return value if isinstance(value, list) else []
