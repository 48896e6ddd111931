"""The asset `stability`: what becomes of the candidates when the study is repeated."""

from __future__ import annotations

from trace_assets.assets.asset import StageResult, asset
from trace_assets.diagnosis.contrast import considered_tests
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.stability import Candidates, Sections, stability
from trace_assets.records import SelectedCapability, Stability
from trace_assets.resources.analysts import Evidence, evidence_by_target, open_detectors
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study
from trace_assets.system.progress import progress


@asset(
    "stability",
    group="diagnosis",
    records=(Stability,),
    deps=[
        "tasks",
        *("selected_capabilities", "trajectories", "labels", "lack_causes", "triage", "suspect_tasks"),
        "lucky_passes",
        "capability_dictionary",
        *("config/triage", "config/discovery", "config/contrast", "config/selection", "config/stability"),
    ],
)
def estimate_stability(study: Study) -> StageResult:
    """The diagnosis repeated on resampled tasks and on shuffled outcomes: selection probability and null."""
    settings = study.settings
    sections = Sections(settings.discovery, settings.contrast, settings.selection)
    rows: list[Stability] = []
    everything = evidence_by_target(study, with_causes=True)
    turns = settings.stability.resamples + settings.stability.shuffles
    with progress("stability", turns * len(everything)) as bar:
        for one in everything:
            rows += stability(
                _candidates(study, one),
                sections,
                resamples=settings.stability.resamples,
                shuffles=settings.stability.shuffles,
                seed=settings.stability.seed,
                tick=bar.advance,
            )
    version = study.store.write(rows, Stability)
    kept = {row.capability_id for row in study.store.read(SelectedCapability) if row.kept}
    shares = [row.kept for row in rows if row.capability_id in kept]
    chance = {row.target: row.null_any for row in rows}
    return StageResult(
        version,
        len(rows),
        {
            "n": len(rows),
            **({"kept_again_least": min(shares)} if shares else {}),
            **({"kept_by_chance_most": max(chance.values())} if chance else {}),
        },
        pages={"stability": stability_page(rows, kept)} if rows else {},
    )


def _candidates(study: Study, one: Evidence) -> Candidates:
    matrix = LabelMatrix.build(one.labels, one.triage, one.target, one.causes)
    by_id = {row.capability_id: row for row in one.capabilities}
    capabilities = [by_id[name] for name in matrix.capabilities]
    pool = None
    made = [row for row in capabilities if row.detector is not None]
    if made and all(row.discovered_on == "all" for row in made):
        there = {row.trajectory_id: row for row in read_trajectories(study.store, target=one.target)}
        ordered = [there[name] for name in matrix.trajectories]
        pool = open_detectors(study, one.target, proposing=True).pool(ordered)
    return Candidates(one.target, capabilities, matrix, pool, considered_tests(one.capabilities))


def stability_page(rows: list[Stability], kept: set[str]) -> str:
    """Return the table as Markdown, what was kept first."""
    lines = [
        "| capability | kept here | kept again | found again | kept by chance |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row.target, row.capability_id not in kept, -row.kept)):
        lines.append(
            f"| {row.name} ({row.target}) | {'yes' if row.capability_id in kept else 'no'} "
            f"| {100 * row.kept:.0f} % [{100 * row.kept_low:.0f}, {100 * row.kept_high:.0f}] "
            f"| {100 * row.discovered:.0f} % | {100 * row.null_kept:.0f} % |"
        )
    chance = {row.target: row for row in rows}
    for target, row in sorted(chance.items()):
        lines.append(
            f"\n{target}: with shuffled outcomes anything at all is kept in {100 * row.null_any:.0f} % "
            f"[{100 * row.null_any_low:.0f}, {100 * row.null_any_high:.0f}] of {row.n_shuffles} runs."
        )
    return "\n".join(lines)
