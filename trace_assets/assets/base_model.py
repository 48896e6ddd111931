"""The asset `base_model`: the policy that is diagnosed and adapted."""

from __future__ import annotations

from pathlib import Path

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.errors import require_extra
from trace_assets.records import BaseCheckpoint
from trace_assets.report.asset_report.rollouts import base_model_report
from trace_assets.resources.policy import enter, trained_folder
from trace_assets.study import Study


@asset(
    "base_model",
    group="rollouts",
    records=(BaseCheckpoint,),
    deps=["config/base_model", "config/targets"],
    checks={"pass_rate_in_band": "The base model fails often enough to learn from, and not always."},
    kinds=("pytorch", "huggingface"),
    pool="gpu",
    door="loop",
)
def write_base_model(study: Study) -> StageResult:
    """The policy that is diagnosed and adapted: the tiny agent trained from scratch, or a model folder."""
    require_extra("torch", "train", "the base model")
    from trace_assets.training.demo_agent.pretraining import train_base, wanted_of

    section, folder = study.settings.base_model, trained_folder(study)
    own = study.home.path / section.path  # the agent of the round before lies in the home itself
    inside = bool(section.path) and not Path(section.path).is_absolute() and own.is_dir()
    asked = section.model_copy(update={"path": str(own)}) if inside else section
    base = train_base(study.target, asked, folder)
    if inside:
        enter(study, own)
        base = base.model_copy(update={"path": section.path})
    if not section.path:
        enter(study, folder)
        base = base.model_copy(update={"path": study.home.relative(folder)})
    version = study.store.write([base], BaseCheckpoint)
    low, high = wanted_of(study.target, section).pass_rate_low, section.pass_rate_high
    checks = (
        StageCheck("pass_rate_in_band", None, "the model was not trained here", severity="warning")
        if base.pass_rate is None
        else StageCheck(
            "pass_rate_in_band",
            low <= base.pass_rate <= high,
            f"pass rate {base.pass_rate:.3f} [{base.pass_rate_low:.3f}, {base.pass_rate_high:.3f}] on "
            f"{base.n} validation episodes; wanted {low:.2f} to {high:.2f}.",
            severity="warning",
        ),
    )
    figures = {"pass_rate": base.pass_rate, "steps": base.steps, "parameters": base.parameters, "n": base.n}
    return StageResult(
        version,
        1,
        {name: value for name, value in figures.items() if value is not None},
        pages=base_model_report(base, low, high).pages,
        checks=checks,
    )
