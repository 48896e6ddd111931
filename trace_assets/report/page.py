"""The report with everything: one HTML page without a script, for screen, phone, dark rooms and paper.

Its plots also stand alone as Markdown images, for places that show Markdown, such as Dagster metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trace_assets.report import formatting
from trace_assets.report.data import MOST_SAMPLES, SAMPLES_KEPT, SAMPLES_REJECTED, ReportData, stage_costs
from trace_assets.report.headline import contrasted, headline
from trace_assets.report.plots import pictured, stylesheet
from trace_assets.report.views.deficits import deficits_view, gap_plot
from trace_assets.report.views.environments import (
    adapters_plot,
    audit_view,
    curve_plot,
    curves_by_name,
    teaching_view,
)
from trace_assets.report.views.evidence import evidence_view
from trace_assets.report.views.result import (
    arms_plot,
    basis,
    result_view,
    rounds_view,
    routing_view,
    trust_view,
)
from trace_assets.untrusted.printable import printable


def render(data: ReportData) -> str:
    """Return the page as one HTML document. Data are escaped; equal data give an equal page."""
    environment = templates(data.names)
    environment.globals["elsewhere"] = data.elsewhere
    views: dict[str, Any] = {
        "result": result_view(data),
        "rounds": rounds_view(data),
        "deficits": deficits_view(data),
        "evidence": evidence_view(data),
        "trust": trust_view(data),
        "teaching": teaching_view(data),
        "audits": audit_view(data),
        "routing": routing_view(data),
        "costs": costs_view(data),
    }
    page = environment.get_template("page.html.jinja").render(
        styles=styles(),
        headline=headline(data),
        as_of=f"{max(row.recorded_at for row in data.ledger):%Y-%m-%d %H:%M} UTC" if data.ledger else "",
        tiles=tiles(data),
        rules={"kept": SAMPLES_KEPT, "rejected": SAMPLES_REJECTED, "most": MOST_SAMPLES},
        thresholds=data.thresholds,
        sections=sections(views),
        **views,
    )
    return printable(with_labels(page))


def templates(names: Mapping[str, str] | None = None) -> Environment:
    """Return what fills the templates; `names` are those of capabilities."""
    environment = Environment(
        loader=PackageLoader("trace_assets.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        share=formatting.share,
        percent=formatting.percent,
        points=formatting.points,
        points_ci=formatting.points,
        p=formatting.p_value,
        count=formatting.count,
        commas=lambda n: f"{n:,.0f}",
        duration=formatting.duration,
        money=formatting.money,
        arm=lambda arm: formatting.arm_name(arm, dict(names or {})),
    )
    return environment


def styles() -> Markup:
    """Return the style of a page and its plots."""
    style = resources.files("trace_assets.report").joinpath("page.css").read_text(encoding="utf-8")
    return Markup(style + stylesheet())


@dataclass(frozen=True)
class PageSection:
    """One section of the page.

    Attributes:
        name: Its heading.
        anchor: Its id; its template has the same name.
        what: What is missing where it is not there.
        there: Whether there is anything to show.
        taught: Whether it needs a model that can be trained.
    """

    name: str
    anchor: str
    what: str
    there: bool
    taught: bool = False

    @property
    def template(self) -> str:
        """The file that shows it."""
        return f"{self.anchor}.html.jinja"


def sections(views: Mapping[str, Any]) -> list[PageSection]:
    """Return the sections in the page's order; of those without content only what is missing is told."""
    trust, teaching, routing = views["trust"], views["teaching"], views["routing"]
    taught = any(teaching[name] for name in ("environments", "adapters", "worth"))
    routed = any(routing[name] for name in ("confusions", "scores"))
    known = any(trust[name] for name in ("faults", "left_out", "leaks", "agreement", "stability"))
    evidence = bool(views["evidence"] or views["deficits"]["nothing_found"])
    return [
        PageSection(
            "Result",
            "result",
            "Evaluation on test tasks",
            bool(views["result"] or views["rounds"]),
            taught=True,
        ),
        PageSection("What the agent lacks", "deficits", "Contrast of capabilities", True),
        PageSection("Evidence", "evidence", "Labels with evidence", evidence),
        PageSection("How far to trust it", "trust", "Whose fault the failures are", known),
        PageSection("How it was taught", "teaching", "Environments and adapters", taught, taught=True),
        PageSection("Audits", "audit", "Audits", bool(views["audits"]), taught=True),
        PageSection("Routing", "routing", "Routing", routed, taught=True),
        PageSection("Cost", "cost", "Anything", bool(views["costs"]["rows"])),
        PageSection("How to read this", "method", "", True),
    ]


_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_ROW = re.compile(r"(?<=<tr)(?=[ >]).*?(?=</tr>)", re.DOTALL)


def with_labels(page: str) -> str:
    """Return the page with each cell knowing its column's name: a phone shows rows as cards.

    >>> table = "<table><thead><tr><th>n</th></tr></thead><tbody><tr><td>3</td></tr></tbody></table>"
    >>> with_labels(table)
    '<table><thead><tr><th>n</th></tr></thead><tbody><tr><td data-label="n">3</td></tr></tbody></table>'
    """

    def label(table: re.Match[str]) -> str:
        names = [re.sub(r"<[^>]*>", "", name) for name in re.findall(r"<th\b[^>]*>(.*?)</th>", table[0])]

        def row(found: re.Match[str]) -> str:
            columns = iter(names)
            return re.sub(r"<td(?=[ >])", lambda _: f'<td data-label="{next(columns, "")}"', found[0])

        return _ROW.sub(row, table[0])

    return _TABLE.sub(label, page)


def tiles(data: ReportData) -> list[dict[str, str]]:
    """Return the key figures, each with what it rests on; those that are not known yet are left out."""
    shown = []
    base, routed = data.overall.get("base"), data.overall.get("routed")
    if base and base.pass_rate is not None:
        interval = formatting.percent(base.pass_rate, base.pass_rate_low, base.pass_rate_high)
        shown.append(_tile("Base model passes", interval, basis(base)))
    if routed and routed.pass_rate is not None:
        interval = formatting.percent(routed.pass_rate, routed.pass_rate_low, routed.pass_rate_high)
        shown.append(_tile("Routed adapters pass", interval, basis(routed)))
        if routed.delta is not None:
            gain = formatting.points(routed.delta, routed.delta_low, routed.delta_high)
            shown.append(
                _tile("Gain, points", gain, f"paired over {formatting.count(routed.n_tasks, 'task')}")
            )
    if data.triage:
        failed = [row for row in data.triage if row.outcome == "failed"]
        own = sum(row.fault == "agent" for row in failed)
        of = f"of {formatting.count(len(failed), 'failure')} in {len(data.triage):,} trajectories"
        if (counted := contrasted(data)) != own:
            of += f"; {counted:,} in the contrast"
        shown.append(_tile("The agent's own failures", f"{own:,}", of))
    if data.selected:
        shown.append(
            _tile("Capabilities to teach", str(len(data.kept)), f"of {len(data.selected)} candidates")
        )
    total = costs_view(data)["total"]
    if data.ledger:
        paid = formatting.money(max(0.0, total["usd"] - data.imported_usd))
        imported = f", imported runs {formatting.money(data.imported_usd)}" if data.imported_usd else ""
        shown.append(_tile("CPU time", formatting.duration(total["cpu"]), f"money: {paid}{imported}"))
    return shown


def costs_view(data: ReportData) -> dict[str, Any]:
    """Return what each stage took, and the sum."""
    rows: list[dict[str, Any]] = [
        {
            "stage": stage,
            "wall": spent.get("wall", 0.0),
            "cpu": spent.get("cpu", 0.0),
            "episodes": spent.get("rollouts", 0.0),
            "tokens": spent.get("prompt_tokens", 0.0) + spent.get("completion_tokens", 0.0),
            "usd": spent.get("usd", 0.0),
        }
        for stage, spent in stage_costs(data.ledger).items()
    ]
    total = {
        name: sum(float(row[name]) for row in rows) for name in ("wall", "cpu", "episodes", "tokens", "usd")
    }
    longest = max((float(row["wall"]) for row in rows), default=0.0) or 1.0
    for row in rows:
        row["width"] = f"{100 * float(row['wall']) / longest:.1f}"
    return {"rows": rows, "total": total, "imported": data.imported_usd}


def _tile(name: str, figure: str, basis: str) -> dict[str, str]:
    value, bracket, interval = figure.partition(" [")
    return {"name": name, "figure": value, "basis": f"[{interval} · {basis}" if bracket else basis}


def plot_pages(data: ReportData) -> dict[str, str]:
    """Return Markdown by title: the plots of those stages that have run, each with what it rests on."""
    pages: dict[str, str] = {"result": headline(data)}
    for target in sorted({row.target for row in data.contrasts}):
        n = max(row.n_tasks for row in data.contrasts if row.target == target)
        words = f"95 % intervals over {formatting.count(n, 'task')}."
        pages |= pictured(f"gap and coverage in {target}", gap_plot(data, target), words)
    if data.summary:
        largest = max(data.overall.values(), key=lambda row: row.n_trials)
        pages |= pictured("pass rates", arms_plot(data), f"95 % intervals, {basis(largest)}.")
    if data.adapters:
        n = min(row.validation_n for row in data.adapters)
        words = f"Held-out seeds, at least {formatting.count(n, 'episode')} a figure."
        pages |= pictured("adapters", adapters_plot(data.adapters, data.names), words)
    for name, points in curves_by_name(data.curves).items():
        words = f"{max(p.n for p in points)} rollouts an iteration."
        pages |= pictured(f"learning curve {name}", curve_plot(points, data.names.get(name, name)), words)
    return pages
