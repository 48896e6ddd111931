"""The packages that the product stands on, against the bounds that it was tested within."""

from __future__ import annotations

from collections import defaultdict
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import InvalidRequirement, Requirement

from trace_assets.cli.checkup.finding import EVERY, TRAINING, Door, Finding

DISTRIBUTION = "trace-assets"
GROUPS: dict[str, tuple[str, tuple[Door, ...], str]] = {
    "": ("packages", EVERY, "pip install trace-assets"),
    "train": ("packages for training", TRAINING, "pip install 'trace-assets[train]'"),
    "serve": ("packages for serving", (Door.real,), "pip install 'trace-assets[serve]'"),
}
"""Extra to the finding's name, the doors that need it, and what installs it."""


def packages() -> list[Finding]:
    """Look at every package that `pyproject.toml` names: one finding a group, one for each amiss."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        detail = "this checkout is not installed, so that the bounds of its packages are not known"
        return [Finding("packages", "degraded", detail, EVERY, "pip install -e .")]
    groups = defaultdict[str, list[Requirement]](list)
    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        for extra in GROUPS:
            if wanted.marker is None:
                if not extra:
                    groups[extra].append(wanted)
            elif extra and wanted.marker.evaluate({"extra": extra}):
                groups[extra].append(wanted)
    return [finding for extra, wanted in groups.items() for finding in _group(extra, wanted)]


def _group(extra: str, wanted: list[Requirement]) -> list[Finding]:
    name, doors, install = GROUPS[extra]
    present, absent, amiss = [], [], []
    for one in wanted:
        try:
            found = version(one.name)
        except PackageNotFoundError:
            absent.append(one)
            continue
        present.append(f"{one.name} {found}")
        if not one.specifier.contains(found, prereleases=True):
            detail = f"{found} is outside {one.specifier}, the versions that were tested"
            fix = f"pip install '{one.name}{one.specifier}'"
            amiss.append(Finding(one.name, "degraded", detail, doors, fix))
    if absent:
        missing = ", ".join(one.name for one in absent)
        group = Finding(name, "missing", f"not installed: {missing}", doors, install)
    else:
        group = Finding(name, "ok", ", ".join(present), doors)
    return [group, *amiss]
