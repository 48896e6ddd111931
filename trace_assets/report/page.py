"""One HTML page with everything: no script, nothing loaded, for screen, phone, dark rooms and paper."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trace_assets.report import formatting
from trace_assets.report.data import MOST_SAMPLES, SAMPLES_KEPT, SAMPLES_REJECTED, ReportData, stage_costs
from trace_assets.report.drawing import stylesheet
from trace_assets.report.headline import headline
from trace_assets.report.views.deficits import deficits_view
from trace_assets.report.views.environments import audit_view, teaching_view
from trace_assets.report.views.evidence import evidence_view
from trace_assets.report.views.result import basis, result_view, rounds_view, routing_view, trust_view
from trace_assets.untrusted.printable import printable


def render(data: ReportData) -> str:
    """Return the page as one HTML document. Data are escaped; equal data give an equal page."""
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
        arm=lambda arm: formatting.arm_name(arm, data.names),
    )
    environment.globals["elsewhere"] = data.elsewhere
    style = resources.files("trace_assets.report").joinpath("page.css").read_text(encoding="utf-8")
    page = environment.get_template("page.html.jinja").render(
        styles=Markup(style + stylesheet()),
        headline=headline(data),
        as_of=f"{max(row.recorded_at for row in data.ledger):%Y-%m-%d %H:%M} UTC" if data.ledger else "",
        tiles=tiles(data),
        result=result_view(data),
        rounds=rounds_view(data),
        deficits=deficits_view(data),
        evidence=evidence_view(data),
        rules={"kept": SAMPLES_KEPT, "rejected": SAMPLES_REJECTED, "most": MOST_SAMPLES},
        trust=trust_view(data),
        teaching=teaching_view(data),
        audits=audit_view(data),
        routing=routing_view(data),
        costs=costs_view(data),
        thresholds=data.thresholds,
    )
    return printable(page)


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
