"""The texts of a release: cards and their facts, launch script, compose files, how to use them."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from trace_assets.evaluation.non_inferiority import acceptance
from trace_assets.records import (
    Adapter,
    ArmSummary,
    Capability,
    Contrast,
    Environment,
    EnvironmentCheck,
    Label,
    NoHarm,
    Triage,
)
from trace_assets.serving.release.manifest import Release
from trace_assets.system.vllm import Launch
from trace_assets.untrusted.printable import in_markdown


@dataclass(frozen=True)
class Labelled:
    """How a capability was labelled.

    Attributes:
        labellers: Who labelled.
        counts: Outcome -> label -> trajectories; a trajectory whose passes differ counts as `mixed`.
        n: Trajectories with a label.
        n_tasks: Their tasks.
    """

    labellers: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    n: int
    n_tasks: int


@dataclass(frozen=True)
class Evidence:
    """All that a card shows.

    Attributes:
        adapter: Its record.
        served_as: Its name on the server.
        capability: What it teaches.
        environment: Where it was trained; None on the target itself.
        checks: The environment's audit.
        harm: What it does to other skills; None where it was not validated.
        tested: Its own arm on the test tasks, all and by skill; empty where the test split was not opened.
        contrast: Why it was taught; None where it was not diagnosed here.
        labelled: What the diagnosis rests on.
    """

    adapter: Adapter
    served_as: str
    capability: Capability
    environment: Environment | None
    checks: Sequence[EnvironmentCheck]
    harm: NoHarm | None
    tested: Sequence[ArmSummary]
    contrast: Contrast | None
    labelled: Labelled


def count_labels(capability_id: str, labels: Iterable[Label], triage: Iterable[Triage]) -> Labelled:
    """Count the trajectories behind a capability.

    Args:
        capability_id: Whose labels count.
        labels: Labels of any capability.
        triage: Gives outcome and task of a trajectory; a label without one counts as `unjudged`.
    """
    judged = {row.trajectory_id: row for row in triage}
    values: dict[str, set[str]] = defaultdict(set)
    labellers = set()
    for label in labels:
        if label.capability_id == capability_id:
            values[label.trajectory_id].add(label.label)
            labellers.add(label.labeller)
    counts: dict[str, Counter[str]] = {}
    for name, found in values.items():
        outcome = judged[name].outcome if name in judged else "unjudged"
        counts.setdefault(outcome, Counter())["mixed" if len(found) > 1 else next(iter(found))] += 1
    return Labelled(
        labellers=tuple(sorted(labellers)),
        counts={outcome: dict(sorted(row.items())) for outcome, row in sorted(counts.items())},
        n=len(values),
        n_tasks=len({judged[name].task_id for name in values if name in judged}),
    )


VLLM_IMAGE = "vllm/vllm-openai:v0.31.0"
"""The newest that the extra `serve` allows; `VLLM_IMAGE` names another."""
ARMS = (
    *("base", "routed", "oracle_routed", "composed", "oracle_composed", "sum"),
    *("together", "joint", "sequential", "consolidated", "mixed_grpo"),
)


def card(evidence: Evidence) -> str:
    """Return the Markdown card of one adapter."""
    failed = [row for row in evidence.checks if row.status == "fail"]
    return _template("card.md").render(
        one=evidence,
        adapter=evidence.adapter,
        found=acceptance(evidence.adapter).reason,
        checks={status: sum(row.status == status for row in evidence.checks) for status in ("pass", "skip")},
        failed=sorted(failed, key=lambda row: (row.severity, row.check_id)),
        audited=evidence.checks[0] if evidence.checks else None,
    )


def launch_script(launch: Launch, release: Release) -> str:
    """Return `serve.sh`.

    Args:
        launch: With the folders of the release's adapters relative to it; `model` is what `BASE_MODEL` is
            called when it is not set.
        release: The index.
    """
    words = launch.arguments()[1:]
    return _template("serve.sh").render(
        release=release,
        variables={name: value for name, value in launch.variables().items() if name != "HF_HUB_OFFLINE"},
        words=_lines(words),
    )


def _lines(words: Sequence[str]) -> list[str]:
    """Return the words quoted for a shell, a line an option."""
    lines: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return [" ".join(line) for line in lines]


def texts(release: Release, launch: Launch, tested: Sequence[ArmSummary], version: str) -> Mapping[str, str]:
    """Return relative path -> text of everything but the cards, the index and the router.

    Args:
        release: The index.
        launch: As for `launch_script`.
        tested: The summary of the test split over all skills; empty where it was not opened.
        version: Of this program, which the router's container installs.
    """
    order = {arm: place for place, arm in enumerate(ARMS)}
    rows = sorted(
        (row for row in tested if row.skill == "all"),
        key=lambda row: (order.get(row.arm, len(ARMS)), row.arm),
    )
    about = {
        "release": release,
        "rows": rows,
        "version": version,
        "port": launch.port,
        "vllm_image": VLLM_IMAGE,
        "models": (
            "routed",
            release.base.name,
            *(one.served_as for one in release.adapters),
            *(one.served_as for one in release.together),
        ),
        "package": f"trace-assets{'[train]' if release.router.router == 'classifier' else ''}=={version}",
    }
    names = ("README.md", "compose.yaml", "compose.gpu.yaml", "router/Dockerfile")
    rendered = {name: _template(Path(name).name).render(**about) for name in names}
    litellm = {
        "litellm/config.yaml": _template("litellm.yaml").render(**about),
        "litellm/trace_routing.py": _template("trace_routing.py").render(),
    }
    return {**rendered, **litellm, "serve.sh": launch_script(launch, release)}


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("trace_assets.serving.release"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["percent"] = lambda value: "n/a" if value is None else f"{100 * value:.1f} %"
    made.filters["points"] = lambda value: "n/a" if value is None else f"{100 * value:+.1f}"
    made.filters["line"] = lambda text: in_markdown(" ".join(str(text).split())).replace("|", "\\|")
    return made


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(f"{name}.jinja")
