"""The texts of a release: cards, launch script, compose files and the page that says how to use them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from trace_assets.evaluation.non_inferiority import acceptance
from trace_assets.records import ArmSummary
from trace_assets.serving.release.evidence import Evidence
from trace_assets.serving.release.manifest import Release
from trace_assets.serving.server import Launch
from trace_assets.untrusted.printable import in_markdown

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
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("trace_assets.serving.release"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["percent"] = lambda value: "n/a" if value is None else f"{100 * value:.1f} %"
    made.filters["points"] = lambda value: "n/a" if value is None else f"{100 * value:+.1f}"
    made.filters["line"] = lambda text: in_markdown(" ".join(str(text).split())).replace("|", "\\|")
    return made


def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.jinja")
