"""`trace init` and `trace run`: from a model and a benchmark to a finished study."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trace_assets.cli.options import Config, Json, Keep, Set, Yes, complete_asset
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError, TraceError

if TYPE_CHECKING:
    from trace_assets.study import Study

SETTINGS = "trace.toml"


def init(
    target: Annotated[
        str,
        typer.Option(help="tau2:retail and the like (`trace targets list`), or your target's module file."),
    ] = "embedded",
    model: Annotated[str, typer.Option(help="The agent's: a Hugging Face folder, or hub name.")] = "",
    user: Annotated[
        str, typer.Option(help="Who plays the user: a server's address, `scripted`, or `none`.")
    ] = "",
    user_model: Annotated[str, typer.Option(help="Of that server; asked of it unless given.")] = "",
    analyst: Annotated[
        str, typer.Option(help="A model that reads the runs, beside the rules (analyst.model).")
    ] = "",
    base_url: Annotated[str, typer.Option(help="Its server; the user's unless given.")] = "",
    source: Annotated[
        Path | None, typer.Option("--from", help="The benchmark's repository, as you cloned it.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Training preset; chosen by the GPU unless given.")] = "",
    folder: Annotated[Path, typer.Option("--to", help="Where the study begins.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Replace a trace.toml that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Begin a study of your model: write trace.toml, prepare the target's interpreter, run the doctor.

    Exit 3 when something is still missing: each thing is said with how to get it, and trace.toml stands.
    """
    from trace_assets.store.files import Home, write_text
    from trace_assets.study import Study
    from trace_assets.system.machine import accelerators
    from trace_assets.training.presets import CPU, choose_preset, read_shape
    from trace_assets.workflows.new_study import (
        NewStudy,
        analyst_address,
        find_model,
        read_back,
        settings_text,
        user_options,
    )

    file = folder / SETTINGS
    if file.exists() and not force:
        raise InputError(f"{file} is there already: name another folder in --to, or replace it by --force.")
    name, module = _target(target)
    path = find_model(model, name)
    shape = read_shape(Path(path)) if path else None
    choice = choose_preset(shape, accelerators(), preset)
    vllm = choice.name != CPU and find_spec("vllm") is not None
    new = NewStudy(name, module, path, choice, user_options(name, user, user_model), vllm)
    new = replace(new, analyst=analyst, analyst_url=analyst_address(analyst, base_url, user))
    text = settings_text(new)
    settings = read_back(text)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    console = make_console(stderr=as_json)
    console.print(f"wrote {escape(str(file))}: preset {choice.name} ({escape(choice.words)})", soft_wrap=True)
    study = Study.of(Home.open(None if folder == Path(".") else folder / ".trace"), settings)
    missing = [] if choice.fits is not False else [f"GPU memory: {choice.words}."]
    if why := _prepare(study, source):
        missing.append(why)
    closed, wanted = _doctor(study, on_gpu=choice.name != CPU)
    missing += [f"{name}: {fix}" if fix else name for name, fix in closed.items()]
    if as_json:
        document = {
            "settings": str(file),
            "preset": choice.name,
            "gib": choice.gib,
            "fits": choice.fits,
            "vllm": vllm,
            "door": wanted,
            "missing": missing,
        }
        print(json.dumps(document, indent=2))
    else:
        for words in missing:
            console.print(f"[red]missing[/] {escape(words)}", soft_wrap=True)
        inside = "" if folder == Path(".") else f"cd {folder} && "
        after = "Then" if missing else "Next"
        console.print(f"{after}: {escape(inside)}trace plan, trace run, trace release, trace serve")
    raise typer.Exit(3 if missing else 0)


def _target(named: str) -> tuple[str, str]:
    """Return a target's name, and the file of its module where it is one of your own."""
    from trace_assets.targets.process.target import ProcessTarget, module_file, of_module
    from trace_assets.targets.registry import BENCHMARKS, benchmark_of
    from trace_assets.workflows.new_study import EMBEDDED

    path = module_file(Path(named).expanduser())
    if path.suffix != ".py":
        known = benchmark_of(named) is not None or named == EMBEDDED or named.startswith("openenv")
        if known:
            return named, ""
        names = ", ".join([EMBEDDED, "openenv", *(one for b in BENCHMARKS.values() for one in b.domains)])
        raise InputError(f"there is no target '{named}': take one of {names}, or your target's module file.")
    config = of_module(path)
    with closing(ProcessTarget(config)) as own:
        return own.name, str(config.module)


def _prepare(study: Study, source: Path | None) -> str:
    """Install the benchmark where its folder was named; say what is missing, nothing where all is there."""
    from trace_assets.targets.registry import benchmark_of, install, read_installed

    benchmark = benchmark_of(study.settings.targets.name)
    if benchmark is None:
        if source is not None:
            raise InputError("--from is the repository of a benchmark; this target is none.")
        return ""
    try:
        if source is not None:
            install(study.home.targets, benchmark.name, source)
        else:
            read_installed(study.home.targets, benchmark.name)
    except TraceError as error:
        return f"{benchmark.name}: {error}"
    return ""


def _doctor(study: Study, *, on_gpu: bool) -> tuple[dict[str, str], str]:
    """Return what keeps the wanted door shut with how to mend it, and the door."""
    from trace_assets.cli.checkup.machine import Door, shut
    from trace_assets.cli.doctor import examine

    door = Door.real if on_gpu else Door.loop
    findings = list(examine(study, battery=False))
    fixes = {finding.name: f"{finding.detail}. {finding.fix}" for finding in findings}
    return {name: fixes[name] for name in shut(findings)[door]}, door.value


def run(
    select: Annotated[
        list[str] | None,
        typer.Option(
            help=r"Asset or asset\[partition] to do first, with its settings; may be repeated.",
            autocompletion=complete_asset,
        ),
    ] = None,
    yes: Yes = False,
    keep: Keep = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Do the whole study: roll out, diagnose, teach, evaluate; run again, it goes on where it ended.

    It is `trace sync` on the live target. Where the settings let vLLM play, it starts with the step that
    plays and ends with it, so that the next one has the GPU.
    """
    from trace_assets.cli.pipeline import sync

    try:
        sync(select=select, yes=yes, keep=keep, config=config, overrides=overrides, as_json=as_json)
    except typer.Exit as end:
        if end.exit_code == 0 and not as_json and not select:
            make_console().print("Next: trace report, trace release, trace serve")
        raise
