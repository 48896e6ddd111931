"""The pages of the docs site that are made from the code, by their names below docs/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click

from tests.report.diagnosed_study import diagnosed_study
from tests.report.taught_study import taught_study
from trace_assets.cli.commands import COMMANDS
from trace_assets.cli.lazy import _leaves
from trace_assets.cli.loudness import PANEL
from trace_assets.cli.settings import section_readers
from trace_assets.definitions import pipeline
from trace_assets.records import TABLES
from trace_assets.records.base import describe_columns
from trace_assets.records.table import polars_schema
from trace_assets.report.page import render
from trace_assets.settings import Settings
from trace_assets.settings.settings import setting_rows
from trace_assets.store.views import ready_queries

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = (
    "Made from scripted rows, to show what a report looks like: no figure in it is a result. What was "
    "measured stands in [results](../results.md)."
)


def generated() -> dict[str, str]:
    """Return every generated page: name below docs/ to its content."""
    diagnosed = diagnosed_study()
    return {
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "reference/commands.md": commands(),
        "reference/settings.md": settings(),
        "reference/tables.md": tables(),
        "examples/diagnosis.html": render(diagnosed),
        "examples/whole-loop.html": render(taught_study(diagnosed)),
        "examples/reports.md": reports(),
        "examples/gallery.md": gallery(),
    }


def commands() -> str:
    """Return the reference of all commands."""
    lines = [
        "# Commands\n",
        "Made from the program. All commands take the options at the end of this page.\n",
    ]
    common: dict[str, str] = {}
    for panel in dict.fromkeys(command.rich_help_panel for command in COMMANDS):
        lines.append(f"## {panel}\n")
        for command in COMMANDS:
            if command.rich_help_panel != panel:
                continue
            real = command.load()
            for leaf in _leaves(real):
                name = command.name if leaf is real else f"{command.name} {leaf.name}"
                lines += [f"### trace {name}\n", f"{_plain(leaf.help or '')}\n"]
                lines += _options(leaf, common)
            lines += ["```sh", *command.examples, "```\n"]
    lines += ["## Options of most commands\n", "| option | does |", "|---|---|"]
    lines += [f"| `{names}` | {words} |" for names, words in common.items()]
    return "\n".join(lines) + "\n"


def _options(command: click.Command, common: dict[str, str]) -> Iterator[str]:
    rows = []
    for parameter in command.params:
        words = _cell(getattr(parameter, "help", None) or "")
        if isinstance(parameter, click.Argument):
            rows.append(f"| `{(parameter.name or '').upper()}` | {words} |")
            continue
        names = ", ".join([*parameter.opts, *parameter.secondary_opts])
        if getattr(parameter, "rich_help_panel", None) == PANEL:
            common[names] = words
        elif not getattr(parameter, "hidden", False):
            rows.append(f"| `{names}` | {words} |")
    if rows:
        yield from ("| option | does |", "|---|---|", *rows, "")


def settings() -> str:
    """Return the reference of all settings."""
    lines = [
        "# Settings\n",
        "Made from the program; `trace settings` prints the same with what is in force.\n",
    ]
    section, expert = "", False
    for row in setting_rows(Settings(), section_readers()):
        if row.section != section:
            section, expert = row.section, False
            said = (type(getattr(Settings(), section)).__doc__ or "").splitlines()[0]
            recomputed = ", ".join(f"`{name}`" for name in row.recomputes) or "nothing"
            lines += [f"\n## [{section}]\n", f"{_cell(said)} An edit recomputes {recomputed}.\n"]
            lines += ["| key | default | meaning |", "|---|---|---|"]
        if row.expert and not expert:
            expert = True
            lines += ["\nFor experts:\n", "| key | default | meaning |", "|---|---|---|"]
        lines.append(f"| `{row.key}` | `{_cell(json.dumps(row.default))}` | {_cell(row.meaning)} |")
    return "\n".join(lines) + "\n"


def tables() -> str:
    """Return the reference of all tables and ready queries."""
    writers = {record.table: one.name for one in pipeline() for record in one.records}
    lines = [
        "# Tables\n",
        "Made from the program. `trace sql NAME` prints one; `trace sql` lists them all.\n",
    ]
    for record in sorted(TABLES, key=lambda record: record.table):
        said = (record.__doc__ or "").strip().splitlines()[0]
        by = f" Written by `{writers[record.table]}`." if record.table in writers else ""
        lines += [
            f"## {record.table}\n",
            f"{_cell(said)}{by}\n",
            "| column | type | meaning |",
            "|---|---|---|",
        ]
        meanings = describe_columns(record)
        for name, kind in polars_schema(record).items():
            key = " (key)" if name in record.key else ""
            lines.append(f"| `{name}`{key} | {_cell(str(kind))} | {_cell(meanings.get(name, ''))} |")
        lines.append("")
    lines += ["## Ready queries\n", "| `trace sql NAME` | answers | parameters |", "|---|---|---|"]
    for query in ready_queries().values():
        taken = "; ".join(f"`{one.name}`: {_cell(one.meaning)}" for one in query.parameters)
        lines.append(f"| `{query.name}` | {_cell(query.purpose)} | {taken} |")
    return "\n".join(lines) + "\n"


def reports() -> str:
    """Return the page that leads to the example reports."""
    return (
        f"# Two reports\n\n{MADE_UP}\n\n"
        "- [After `trace diagnose`](diagnosis.html): what the agent lacks, with the messages that show it.\n"
        "- [After the whole loop](whole-loop.html): environments, adapters, arms, routing, cost.\n\n"
        "A report is one file without scripts, for screen, phone and paper.\n\n"
        "![The head of a report](../images/report.png)\n"
    )


def gallery() -> str:
    """Return the plots that assets show, one below the other."""
    names = {
        "contrast": "Gap and coverage of every candidate",
        "adapter": "A learning curve",
        "reliability": "Whether a router's probabilities hold",
        "evaluation": "Pass rates of all arms",
    }
    shown = "\n\n".join(f"## {words}\n\n![{words}](../images/{name}.png)" for name, words in names.items())
    return f"# Plots\n\nAs Dagster's pages and the report show them, of very small runs.\n\n{shown}\n"


def _plain(text: str) -> str:
    """Return a help text as Markdown, without the markup of a terminal."""
    return re.sub(r"\\(?=\[)", "", text).replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")
