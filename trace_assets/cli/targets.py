"""`trace targets`: what an agent can be rolled out in here, benchmarks, and targets of one's own."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.markup import escape

from trace_assets.cli.options import MANY, MOST_SEED, Config, Json, Set, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError, TraceError
from trace_assets.targets.registry import BENCHMARKS

if TYPE_CHECKING:
    from trace_assets.records import Split
    from trace_assets.study import Study
    from trace_assets.targets.protocol import Target
    from trace_assets.targets.tau2.parity import ParityReport


# `trace targets parity`: is a score of ours the score that tau2-bench's own program would give?


class Splits(StrEnum):
    """Whose tasks are played."""

    discovery = "discovery"
    validation = "validation"
    test = "test"
    all = "all"


def parity(
    target: Annotated[str, typer.Argument(help="A target of tau2, such as tau2:airline.")],
    tasks: Annotated[
        int, typer.Option(help="Tasks to play, in tau2's order; 0 plays all of the split.", min=0, max=MANY)
    ] = 20,
    split: Annotated[Splits, typer.Option(help="Whose tasks.")] = Splits.discovery,
    trials: Annotated[int, typer.Option(help="Conversations a task.", min=1, max=MANY)] = 1,
    seed: Annotated[
        int, typer.Option(help="tau2 draws the seeds of the trials from it.", min=0, max=MOST_SEED)
    ] = 300,
    concurrency: Annotated[int, typer.Option(help="Conversations at once.", min=1, max=MANY)] = 4,
    margin: Annotated[
        float,
        typer.Option(
            help="Difference of pass rates that is let pass, its whole interval inside; 0 wants every reward "
            "equal.",
            min=0.0,
        ),
    ] = 0.0,
    patience: Annotated[
        float,
        typer.Option(help="Seconds without a finished conversation before tau2 run is killed.", min=1.0),
    ] = 3600.0,
    again: Annotated[
        bool, typer.Option("--again", help="Play all anew: another model stands behind the same name.")
    ] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Play tasks by our runner and by `tau2 run`, and compare rewards. Exit 0 when they agree, 1 when not.

    The agent is the server that `rollouts` names, the user that of targets.options; both are asked alike.
    Finished conversations are kept: the same command goes on, and plays again what broke.
    """
    from trace_assets.records import Split
    from trace_assets.workflows.benchmark_parity import ParityPlan, compare_with_official

    splits: tuple[Split, ...] = get_args(Split) if split is Splits.all else (split.value,)
    plan = ParityPlan(
        target=target,
        splits=splits,
        tasks=tasks or None,
        trials=trials,
        seed=seed,
        concurrency=concurrency,
        patience=patience,
        again=again,
    )
    report, folder = compare_with_official(open_study(config, overrides), plan)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        _tell(report)
        print(f"kept in {folder}")
    raise typer.Exit(0 if agrees(report, margin) else 1)


def agrees(report: ParityReport, margin: float) -> bool:
    """Whether every conversation was judged by both, and alike.

    Args:
        report: The comparison.
        margin: 0 wants every reward equal. Above, the 95 % interval of the difference of pass rates must lie
            within the margin on both sides of 0: a test of equivalence at 2.5 % a side, which few tasks never
            pass.
    """
    if report.n < len(report.pairs) or report.n == 0:
        return False
    if report.equal == report.n:
        return True
    low, high = report.difference_low, report.difference_high
    return low is not None and high is not None and -margin <= low and high <= margin and margin > 0


def _tell(report: ParityReport) -> None:
    console = make_console()
    console.print(
        f"{report.target}: {report.equal} of {report.n} rewards equal "
        f"({report.equal_low:.3f} to {report.equal_high:.3f}), {report.same_conversations} of "
        f"{len(report.pairs)} conversations the same word for word",
        soft_wrap=True,
    )
    for name, value, low, high in (
        ("by our runner", report.ours, report.ours_low, report.ours_high),
        ("by tau2 run", report.official, report.official_low, report.official_high),
        ("difference", report.difference, report.difference_low, report.difference_high),
    ):
        if value is not None:
            interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
            console.print(f"  {name}: {value:.3f}{interval}, n = {report.n} in {report.n_tasks} tasks")
    if report.left_out:
        console.print(
            f"  {len(report.left_out)} tasks left out: a language model judges them", soft_wrap=True
        )
    for one in report.pairs:
        if one.state == "equal":
            continue
        state = "differs" if one.state == "differs" else "not compared"
        console.print(
            f"[red]{state}[/] {escape(one.task_id)} trial {one.trial}: {one.ours} here ({one.our_end}), "
            f"{one.official} in tau2 run ({one.official_end}); {escape(one.difference)}",
            soft_wrap=True,
        )


app = typer.Typer(name="targets", help="Where an agent can be rolled out: benchmarks, and your own targets.")
app.command("parity")(parity)


@app.command("list")
def list_targets(config: Config = None, overrides: Set = None, as_json: Json = False) -> None:
    """List the targets that can be rolled out in from here, and where they come from."""
    from trace_assets.targets.registry import RECORD, read_installed

    study = open_study(config, overrides)
    rows = [{"target": "embedded", "state": "ready", "from": "this package", "commit": ""}]
    for benchmark in BENCHMARKS.values():
        installed = (study.home.targets / benchmark.name / RECORD).is_file()
        found = read_installed(study.home.targets, benchmark.name) if installed else None
        for name in benchmark.domains:
            rows.append(
                {
                    "target": name,
                    "state": "ready" if found else f"trace targets install {benchmark.name} --from DIR",
                    "from": found.source if found else "",
                    "commit": found.commit if found else "",
                }
            )
    rows.append({"target": "openenv", "state": "set targets.options.url", "from": "a server", "commit": ""})
    if study.settings.targets.path:
        section = study.settings.targets
        rows.append({"target": section.name, "state": "configured", "from": section.path, "commit": ""})
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    console = make_console()
    for row in rows:
        console.print(
            f"{row['target']:<22} {escape(row['state'])}  [dim]{escape(row['from'])} {row['commit']}[/]",
            soft_wrap=True,
        )


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="What the target calls itself.")],
    folder: Annotated[
        Path | None, typer.Option("--to", help="Where; a folder of that name by default.")
    ] = None,
) -> None:
    """Write a working target to begin from: module, test, a scripted agent with a fault, and settings."""
    from trace_assets.targets.template import write_template

    place = folder or Path(name)
    for file in write_template(name, place):
        print(file)
    print(f"Next: trace targets check {place / 'target.py'}")
    print(f"Then, with `python {place / 'agent.py'}` at work in another terminal:")
    print(f"  trace sync --config {place / 'trace.toml'} --select tasks --select trajectories")
    print(f"  trace diagnose --config {place / 'trace.toml'}")


@app.command("check")
def check(
    target: Annotated[
        str | None, typer.Argument(help="A module file or a target's name; the configured one by default.")
    ] = None,
    tasks: Annotated[int, typer.Option(help="Tasks of each split to play.", min=1, max=MANY)] = 20,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Check a target: determinism, oracle, do-nothing floor, schemas, isolation. Exit 0 when it conforms."""
    from trace_assets.cli.analyst import report_findings
    from trace_assets.targets.conformance import examine_target

    study = open_study(config, overrides)
    findings = examine_target(lambda: _open(study, target), tasks=tasks)
    raise report_findings(findings, as_json=as_json)


def _open(study: Study, target: str | None) -> Target:
    from trace_assets.targets.process.target import ProcessConfig, ProcessTarget, module_file
    from trace_assets.targets.registry import open_named

    section = study.settings.targets
    if target is None or target == section.name:
        return study.__class__(study.home, study.settings).target
    if target.endswith(".py") or "/" in target:
        path = module_file(Path(target))
        python = Path(section.python or sys.executable)
        return ProcessTarget(
            ProcessConfig(
                module=path.absolute(),
                python=python,
                options=section.options,
                call_seconds=section.call_seconds,
                processes=section.processes or 2,
            )
        )
    return open_named(section, target, study.home.targets)


@app.command("install")
def install(
    name: Annotated[str, typer.Argument(help=f"Which benchmark: {', '.join(BENCHMARKS)}.")],
    source: Annotated[Path, typer.Option("--from", help="Its repository, as you cloned it.")],
    python: Annotated[str, typer.Option(help="Interpreter to use; the best that is found by default.")] = "",
    config: Config = None,
    overrides: Set = None,
) -> None:
    """Prepare a benchmark's own interpreter and try its targets. Nothing of the benchmark is copied."""
    from trace_assets.targets.registry import install as prepare

    study = open_study(config, overrides)
    found = prepare(study.home.targets, name, source, python)
    print(f"{name} {found.commit or 'without a commit'} from {found.source} in {found.python}")
    broken = 0
    for domain in BENCHMARKS[name].domains:
        broken += not _try(study, domain)
    raise typer.Exit(1 if broken else 0)


def _try(study: Study, domain: str) -> bool:
    """Print how many tasks a domain has; say what is missing where it cannot be opened."""
    from trace_assets.targets.process.target import ProcessTarget
    from trace_assets.targets.registry import open_named

    target = open_named(study.settings.targets, domain, study.home.targets, serverless=True)
    assert isinstance(target, ProcessTarget)
    try:
        counts = {split: len(target.tasks(split)) for split in ("discovery", "validation", "test")}
        said = ", ".join(f"{n} {split}" for split, n in counts.items())
        print(f"{domain}: {said}; data {target.description.provenance.get('data', '')}")
        return True
    except TraceError as error:
        print(f"{domain}: {error}", file=sys.stderr)
        return False
    finally:
        target.close()


@app.command("regrade")
def regrade(
    files: Annotated[list[Path], typer.Argument(help="Simulation files of tau2-bench.")],
    domain: Annotated[str, typer.Option(help="Their target, such as tau2:airline.")],
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Judge recorded tau2 simulations again by the installed evaluator; exit 1 where a reward differs."""
    from trace_assets.targets.registry import benchmark_of
    from trace_assets.workflows.benchmark_parity import regrade_files

    if benchmark_of(domain) is None or not domain.startswith("tau2:"):
        raise InputError(f"'{domain}' is not a target of tau2; name one such as tau2:airline in --domain.")
    study = open_study(config, overrides)
    found = regrade_files(study, domain, files)
    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    else:
        for one in found:
            print(f"{one.file}: {one.equal} of {one.n} equal{one.words}")
    raise typer.Exit(0 if all(one.equal == one.n for one in found) else 1)
