"""The asset `learnability`: what the audit's rollouts foretold of training, beside what training showed."""

from __future__ import annotations

from trace_assets.assets.asset import StageCheck, StageResult, TableRow, asset
from trace_assets.environments.learnability import Forecast, Seen, forecast, seen
from trace_assets.records import Adapter, Environment, Learnability, SeedOutcome, TrainingPoint
from trace_assets.report import formatting
from trace_assets.stats.beta_binomial import group_size_for
from trace_assets.study import Study
from trace_assets.training.checkpoints import sandbox_shares

MAX_ERROR = 0.10
"""By how much the foretold share of dead groups may differ from the one seen."""
MAX_SANDBOX_SHARE = 0.10
"""Share of training time that may go into the sandbox."""


@asset(
    "learnability",
    group="training",
    records=(Learnability,),
    deps=["environment", "environment_audit", "adapter", "config/training", "config/rollouts"],
    partitions="capability",
    checks={
        "dead_groups_foretold": "As many groups had no gradient as the audit foretold, within 10 points.",
        "sandbox_share": "At most a tenth of the training time went into the sandbox.",
    },
    light=True,
    shown_on="adapter",
)
def write_learnability(study: Study, capability_id: str) -> StageResult:
    """What the base policy's rollouts foretold of training, beside what training showed."""
    written = study.store.read(Environment, capability_id)
    environment_id = written[0].environment_id if written else ""
    outcomes = [
        one for one in study.store.read(SeedOutcome, capability_id) if one.environment_id == environment_id
    ]
    foretold = forecast(outcomes, study.settings.training.group_size)
    adapter = next(
        (one for one in study.store.read(Adapter, capability_id) if one.environment_id == environment_id),
        None,
    )
    curve = study.store.read(TrainingPoint, capability_id) if adapter is not None else []
    section = study.settings.training
    found = (
        seen(curve, section.tasks_per_iteration, foretold.success.mean, section.warmup_iterations)
        if foretold is not None
        else None
    )
    if adapter is not None and adapter.warm_rollouts:
        found = None  # what was played is not the base policy any more
    row = _row(study, capability_id, environment_id, foretold, found)
    wall, cpu = sandbox_shares(curve)
    row = row.model_copy(
        update={
            "adapter_id": adapter.adapter_id if adapter else "",
            "sandbox_share": wall,
            "sandbox_cpu_share": cpu,
        }
    )
    version = study.store.write([row], Learnability, capability_id)
    shown = {
        "dead_predicted": row.dead_predicted,
        "dead_seen": row.dead_seen,
        "error": row.error,
        "n": row.n_groups,
        "sandbox_share": row.sandbox_share,
        "signal_group_size": row.signal_group_size,
    }
    return StageResult(
        version,
        1,
        {name: value for name, value in shown.items() if value is not None},
        tables={"dead groups": _table(row)} if foretold is not None else {},
        checks=(_foretold_check(study, row), _sandbox_check(row)),
    )


def _row(
    study: Study, capability_id: str, environment_id: str, foretold: Forecast | None, found: Seen | None
) -> Learnability:
    section = study.settings.training
    fit = foretold.success if foretold is not None else None
    predicted = foretold.dead.value if foretold is not None else None
    dead = found.dead.value if found is not None else None
    return Learnability(
        capability_id=capability_id,
        environment_id=environment_id,
        adapter_id="",
        n_seeds=fit.n_seeds if fit else 0,
        n_rollouts=fit.n_rollouts if fit else 0,
        fit=fit.method if fit else "",
        alpha=fit.alpha if fit else None,
        beta=fit.beta if fit else None,
        pass_rate=fit.mean if fit else None,
        icc=foretold.icc.value if foretold else None,
        icc_low=foretold.icc.low if foretold else None,
        icc_high=foretold.icc.high if foretold else None,
        group_size=section.group_size,
        all_pass=foretold.all_pass if foretold else None,
        all_fail=foretold.all_fail if foretold else None,
        plug_in=foretold.plug_in if foretold else None,
        dead_predicted=predicted,
        dead_low=foretold.dead.low if foretold else None,
        dead_high=foretold.dead.high if foretold else None,
        dead_seen=dead,
        dead_seen_low=found.dead.low if found else None,
        dead_seen_high=found.dead.high if found else None,
        n_groups=found.n_groups if found else 0,
        n_iterations=found.window if found else 0,
        error=dead - predicted if dead is not None and predicted is not None else None,
        signal_group_size=group_size_for(fit, section.wanted_signal) if fit else None,
        sandbox_share=None,
        sandbox_cpu_share=None,
    )


def _foretold_check(study: Study, row: Learnability) -> StageCheck:
    """Say whether the share of dead groups came out as foretold."""
    name, rollouts, section = "dead_groups_foretold", study.settings.rollouts, study.settings.training
    if row.dead_predicted is None:
        return StageCheck(name, None, "the base policy was not rolled out in the environment.")
    if row.error is None:
        why = "its training began with demonstrations" if row.adapter_id else "no adapter was trained in it"
        return StageCheck(name, None, f"{why}: nothing to compare the forecast with.")
    if rollouts.engine == "openai" or (rollouts.temperature, rollouts.max_new_tokens) != (
        section.temperature,
        section.max_new_tokens,
    ):
        return StageCheck(name, None, "the audit's rollouts were sampled otherwise than those of training.")
    return StageCheck(
        name,
        abs(row.error) < MAX_ERROR,
        f"{formatting.percent(row.dead_predicted, row.dead_low, row.dead_high)} of groups of "
        f"{row.group_size} foretold dead (n = {row.n_seeds} seeds), "
        f"{formatting.percent(row.dead_seen, row.dead_seen_low, row.dead_seen_high)} seen "
        f"(n = {row.n_groups} groups of iterations 1 to {row.n_iterations}): "
        f"{100 * row.error:+.1f} points, allowed {100 * MAX_ERROR:.0f}.",
        "warning",
    )


def _sandbox_check(row: Learnability) -> StageCheck:
    """Say whether the sandbox took little of the training time."""
    if row.sandbox_share is None:
        return StageCheck("sandbox_share", None, "no adapter was trained in a sandbox.")
    return StageCheck(
        "sandbox_share",
        row.sandbox_share <= MAX_SANDBOX_SHARE,
        f"{row.sandbox_share:.1%} of the training time went into calls into the sandbox, "
        f"{row.sandbox_cpu_share or 0.0:.1%} as its own CPU time; allowed {MAX_SANDBOX_SHARE:.0%}.",
        "warning",
    )


def _table(row: Learnability) -> list[TableRow]:
    """Return the forecast and what was seen, as rows for the page."""
    return [
        {
            "share of groups": name,
            "value": formatting.percent(value, low, high),
            "n": n,
        }
        for name, value, low, high, n in (
            ("dead, foretold", row.dead_predicted, row.dead_low, row.dead_high, f"{row.n_seeds} seeds"),
            (
                f"dead, seen in iterations 1 to {row.n_iterations}",
                row.dead_seen,
                row.dead_seen_low,
                row.dead_seen_high,
                f"{row.n_groups} groups",
            ),
            ("all pass", row.all_pass, None, None, f"{row.n_seeds} seeds"),
            ("all fail", row.all_fail, None, None, f"{row.n_seeds} seeds"),
            ("one outcome, were all seeds equally hard", row.plug_in, None, None, f"{row.n_seeds} seeds"),
        )
    ]
