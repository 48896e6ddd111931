"""`trace doctor`: what works on this machine, and how to mend what does not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.study import Study


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What.
        ok: Whether it works.
        detail: What was seen.
        fix: What to do when it does not.
        needed_for: Which door needs it.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed_for: str = ""


def doctor(config: Config = None, overrides: Set = None, as_json: Json = False) -> None:
    """Report what this machine can do; exit 0 when the embedded loop can run, 3 when it cannot."""
    findings = list(examine(open_study(config, overrides)))
    loop = all(finding.ok for finding in findings if finding.needed_for in ("everything", "the loop"))
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        console = make_console()
        for finding in findings:
            mark = "[green]✓[/]" if finding.ok else "[yellow]–[/]"
            console.print(f"{mark} {finding.name}: {escape(finding.detail)}", soft_wrap=True)
            if not finding.ok and finding.fix:
                console.print(
                    f"    for {finding.needed_for}: {escape(finding.fix)}", soft_wrap=True, style="dim"
                )
    raise typer.Exit(0 if loop else 3)


def examine(study: Study) -> Iterator[Finding]:
    """Look at everything that some part of the product needs."""
    yield Finding("home", True, str(study.home.path), needed_for="everything")
    free = shutil.disk_usage(study.home.path).free / 2**30
    yield Finding("disk", free > 2, f"{free:.1f} GiB free", "make room: 2 GiB are wanted", "the loop")
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", True, f"{cores}", needed_for="everything")
    for package in ("dagster", "duckdb", "polars"):
        yield _package(package, "everything", "pip install trace-assets")
    for package in ("torch", "transformers", "trl", "peft"):
        yield _package(package, "the loop", "pip install 'trace-assets[train]'")
    yield _package("vllm", "serving real models", "pip install 'trace-assets[serve]' (on a GPU machine)")
    yield _gpu()
    yield from _sandbox(study)
    yield from _server(study)


def _package(name: str, needed_for: str, fix: str) -> Finding:
    try:
        return Finding(name, True, version(name), needed_for=needed_for)
    except PackageNotFoundError:
        return Finding(name, False, "not installed", fix, needed_for)


def _gpu() -> Finding:
    found = shutil.which("nvidia-smi")
    detail = "nvidia-smi is there" if found else "none seen; the tiny agent does not need one"
    return Finding("gpu", bool(found), detail, "a GPU with 24 GiB or more", "real models")


def _sandbox(study: Study) -> Iterator[Finding]:
    from trace_assets.sandbox.probe import probe
    from trace_assets.stages.synthesis import sandbox_config

    for result in probe(sandbox_config(study)):
        works = result.status in ("ok", "slow")
        yield Finding(f"sandbox {result.name}", works, result.detail, needed_for="the loop")


def _server(study: Study) -> Iterator[Finding]:
    section = study.settings.rollouts
    if section.engine != "openai":
        return
    import httpx

    fix = f"start the server, or correct rollouts.base_url ({section.base_url})"
    try:
        answer = httpx.get(f"{section.base_url.rstrip('/')}/models", timeout=10)
        yield Finding("model server", answer.status_code < 500, f"HTTP {answer.status_code}", fix, "the loop")
    except httpx.HTTPError as error:
        yield Finding("model server", False, f"{type(error).__name__}: {error}", fix, "the loop")
