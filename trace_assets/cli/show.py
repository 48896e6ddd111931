"""`trace show`: one trajectory in the terminal, with its labels and why it failed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.options import Config, Json, Set, leave_home_alone, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError
from trace_assets.untrusted.printable import one_line, printable

if TYPE_CHECKING:
    from trace_assets.records import FailureCause, MessageRow, ToolCall
    from trace_assets.report.one_trajectory import OneTrajectory
    from trace_assets.study import Study

LONGEST = 300
"""Characters of a message, result or argument list that are printed unless all is asked for."""
_ROLES = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "blue"}


def show(
    trajectory: Annotated[str, typer.Argument(help="A trajectory's id, or its beginning.")],
    full: Annotated[bool, typer.Option("--full", help="Print messages whole.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Write it as an HTML page, messages whole, and print its path.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the page goes; into the home unless given."),
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Print one trajectory: its messages, its labels, and where and why it failed."""
    from trace_assets.report.one_trajectory import gather_trajectory

    study = open_study(config, overrides, writable=False)
    leave_home_alone(study, output)
    found = gather_trajectory(study.store, trajectory)
    if page or output is not None:
        written = _write_page(study, found, output)
        print(json.dumps({"path": str(written)}) if as_json else written)
        return
    if as_json:
        print(json.dumps(found.document(), indent=2))
        return
    print_trajectory(found, make_console(), None if full else LONGEST)


def _write_page(study: Study, one: OneTrajectory, output: Path | None) -> Path:
    from trace_assets.report.one_trajectory import render_trajectory
    from trace_assets.store.files import make_folder, write_text

    name = re.sub(r"[^A-Za-z0-9._-]", "-", one.head.trajectory_id)[:100]
    place = output or (study.home.reports if study.home.is_writable else Path()) / f"trajectory-{name}.html"
    try:
        make_folder(place.absolute().parent)
        write_text(place.absolute(), render_trajectory(one))
    except OSError as error:
        raise InputError(
            f"the page {place} cannot be written ({error.strerror}); name another --output."
        ) from error
    return place.absolute()


def print_trajectory(one: OneTrajectory, console: Console, longest: int | None = LONGEST) -> None:
    """Print a trajectory.

    Args:
        one: What the store says of it.
        console: Where to.
        longest: Characters of a text that are printed; None prints all.
    """

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    head = one.head
    outcome = "not judged" if head.success is None else "passed" if head.success else "failed"
    colour = {"passed": "green", "failed": "red"}.get(outcome, "yellow")
    reward = "" if head.reward is None else f", reward {head.reward:g}"
    say(f"[bold]{_line(head.trajectory_id)}[/] [{colour}]{outcome}[/]{reward}, stopped: {_line(head.stop)}")
    say(f"target {_line(head.target)}, task {_line(head.task_id)}, policy {_line(head.policy)}")
    if one.instruction:
        say(f"task: {_cut(one.instruction, longest)}")
    say("")
    decisive = one.cause.decisive_message if one.cause else None
    numbers = {name: place for place, name in enumerate(_lacking(one), 1)}
    for row in one.messages:
        marks = [f"lacks {numbers[name]}" for name in one.lacks_at.get(row.index, ())]
        marks = (["decisive"] if row.index == decisive else []) + marks
        _print_message(row, marks, say, longest)
    if not one.messages:
        say("[dim]Its messages are not in the store.[/]")
    for lines in (_why(one), _lucky(one), _labels(one, numbers), _expected(one), _doubts(one)):
        if lines:
            say("")
            for line in lines:
                say(line)


def _print_message(row: MessageRow, marks: list[str], say: Any, longest: int | None) -> None:
    who = row.role if row.role != "tool" else f"tool {one_line(row.tool_name or '')}".rstrip()
    who += " error" if row.is_error else ""
    mark = f" [bold red]◄ {escape(', '.join(marks))}[/]" if marks else ""
    style = "red" if row.is_error else _ROLES.get(row.role, "")
    arrow = "[bold red]►[/]" if "decisive" in marks else " "
    text = _cut(row.content or "", longest)
    empty = "" if text or row.tool_calls else "[dim](empty)[/]"
    say(f"{arrow}{row.index:>3} [{style}]{escape(who)}[/]{mark} {text}{empty}".rstrip())
    for call in row.tool_calls:
        say(f"       [bold]{_line(call.name)}[/]({_arguments(call, longest)})")


def _arguments(call: ToolCall, longest: int | None) -> str:
    told = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items()
    )
    return _cut(told, longest)


def _why(one: OneTrajectory) -> list[str]:
    if one.overridden:
        by_hand = f"[bold]Override[/]: {_cut(one.overridden, None)}"
        return [by_hand, *(_cause(one.cause) if one.cause else [])]
    if one.cause is None:
        missing = one.triage is None or one.triage.outcome != "passed"
        undiagnosed = "Why it failed is not known yet: run `trace diagnose`."
        return [undiagnosed] if missing and not one.head.success else []
    return _cause(one.cause)


def _cause(cause: FailureCause) -> list[str]:
    at = "" if cause.decisive_message is None else f", message {cause.decisive_message}"
    by = f"by {'a model' if cause.source == 'model' else 'rule'} ({_line(cause.rule)})"
    lines = [
        f"[bold]Why it failed[/]: {_line(cause.party)}{at}; confidence {cause.confidence}, {by}",
        f"  {_cut(cause.words, None) or 'nothing says more'}",
    ]
    if cause.suspected:
        lines.append(f"  suspected, not decided: {_line(cause.suspected)}, by {_cut(cause.suspicion, None)}")
    if cause.repaired is not None:
        lines.append(f"  repaired and replayed it {'passes' if cause.repaired else 'still fails'}")
    return lines


def _lacking(one: OneTrajectory) -> list[str]:
    """Return the capabilities that it lacks, the cause first."""
    first = one.cause.capability if one.cause else None
    names = dict.fromkeys(row.capability_id for row in one.labels if row.label == "LACKING")
    return sorted(names, key=lambda name: name != first)


def _labels(one: OneTrajectory, numbers: dict[str, int]) -> list[str]:
    lines = ["[bold]Labels[/] (given without sight of the outcome)"] if one.labels else []
    order = sorted(one.labels, key=lambda row: (row.label != "LACKING", numbers.get(row.capability_id, 0)))
    for row in order:
        number = f"{numbers[row.capability_id]}." if row.label == "LACKING" else ""
        at = f" (message {', '.join(map(str, row.evidence))})" if row.evidence else ""
        said = f": {_cut(row.rationale, None)}" if row.rationale else ""
        by = f" [dim]{_line(row.labeller)}[/]" if row.labeller != "detectors" else ""
        style = "red" if row.label == "LACKING" else "green"
        name = _line(one.names.get(row.capability_id, row.capability_id))
        lines.append(f"  {number:>2} [{style}]{row.label}[/] {name}{at}{said}{by}")
        other = one.same_as.get(row.capability_id, "")
        if other:
            lines.append(f"       [dim]said twice: '{_line(one.names.get(other, other))}' stands for it[/]")
    return lines


def _expected(one: OneTrajectory) -> list[str]:
    from trace_assets.diagnosis.expected.diffs import in_words

    lines = (
        ["[bold]Expected against done[/] (from the ground truth; no labeller sees it)"] if one.diffs else []
    )
    for row in one.diffs:
        at = "" if row.message is None else f" (message {row.message})"
        lines.append(f"  {row.kind}: {_cut(in_words(row), None)}{at}")
    return lines


def _lucky(one: OneTrajectory) -> list[str]:
    lines = ["[bold]Why its pass says little[/]"] if one.lucky else []
    for row in one.lucky:
        at = f" (message {', '.join(map(str, row.evidence))})" if row.evidence else ""
        aside = ", left out of ER+" if row.aside else ""
        lines.append(f"  {row.kind.replace('_', ' ')}{at}{aside}: {_cut(row.detail, None)}")
    return lines


def _doubts(one: OneTrajectory) -> list[str]:
    lines = ["[bold]What speaks against its task[/]"] if one.suspects else []
    for row in one.suspects:
        aside = ", put aside" if row.aside else ""
        lines.append(f"  {row.grade}{aside}: {_cut(row.detail, None)}")
    return lines


def _line(text: str) -> str:
    return escape(one_line(text))


def _cut(text: str, longest: int | None) -> str:
    """Return a text from outside on one line, or whole where no length is given, without anything hidden."""
    if longest is None:
        return escape(printable(text))
    told = " ".join(text.split())
    rest = len(told) - longest
    return escape(one_line(told[:longest])) + (f" [dim]… {rest:,} more[/]" if rest > 0 else "")
