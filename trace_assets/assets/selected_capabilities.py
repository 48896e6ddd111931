"""The assets `selected_capabilities`, `capability_spec`, `label_leak`, `stability`: do they hold?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.contrast import _best
from trace_assets.diagnosis.chance import Findings, Null, chance_null
from trace_assets.diagnosis.contrast import considered_tests
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import measure_leak, unread_labels
from trace_assets.diagnosis.repair.shares import decisive_shares
from trace_assets.diagnosis.selection import select
from trace_assets.diagnosis.stability import Candidates, Sections, stability
from trace_assets.errors import InputError
from trace_assets.records import (
    Capability,
    CapabilitySpec,
    Contrast,
    DecisiveShare,
    LabelLeak,
    ProposedFinding,
    Repair,
    SelectedCapability,
    Stability,
    Triage,
)
from trace_assets.report import formatting
from trace_assets.report.asset_report.diagnosis import selection_report
from trace_assets.report.asset_report.rollouts import Row
from trace_assets.report.plots import Dot, interval_dots, svg_markdown
from trace_assets.resources.analysts import Evidence, by_target, evidence_by_target, open_detectors
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study
from trace_assets.system.progress import progress

_SAYS = {
    "opening": "what the user opens with: how hard the task is",
    "replies": "what the user says later",
    "closing": "what follows the agent's last message",
    "results": "what tools answered",
    "shape": "counts and lengths",
    "withheld": "what was withheld from labellers",
}


@asset(
    "selected_capabilities",
    group="diagnosis",
    records=(SelectedCapability, DecisiveShare),
    deps=[
        *("trajectories", "contrast", "labels", "lack_causes", "triage", "suspect_tasks", "lucky_passes"),
        *("capability_dictionary", "repairs"),
        *("config/triage", "config/discovery", "config/contrast", "config/selection", "config/targets"),
    ],
    light=True,
)
def select_capabilities(study: Study) -> StageResult:
    """The decision on every candidate with its reason; kept ones become partitions."""
    contrasts: dict[str, list[Contrast]] = defaultdict(list)
    for row in study.store.read(Contrast):
        contrasts[row.target].append(row)
    rows: list[SelectedCapability] = []
    decisive: list[DecisiveShare] = []
    repairs = study.store.read(Repair)
    section = study.settings.selection
    _check_overrides(study)
    for one in evidence_by_target(study, with_causes=True):
        own = contrasts.get(one.target, [])
        matrix = LabelMatrix.build(one.labels, one.triage, one.target)
        shares = decisive_shares(matrix, repairs, one.target, live=one.target == study.settings.targets.name)
        nulls = {one.target: partial(chance_of, study, one)}
        read = study.settings.contrast.accept_empty
        unread = frozenset[str]() if read else unread_labels(own, one.labels)
        rows += select(
            own,
            one.capabilities,
            one.labels,
            one.triage,
            section,
            shares,
            nulls=nulls,
            causes=one.causes,
            unread=unread,
        )
        decisive += shares
    version = text_version(
        study.store.write(rows, SelectedCapability), study.store.write(decisive, DecisiveShare)
    )
    every = [row for own in contrasts.values() for row in own]
    kept = [row for row in rows if row.kept and not row.overridden_by]
    overridden = [row for row in rows if row.overridden_by]
    best = _best([row for row in every if row.capability_id in {one.capability_id for one in kept}])
    if best:
        best["coverage"] = max(
            sum(row.marginal_coverage or 0.0 for row in kept if row.target == target) for target in contrasts
        )
    asset_report = selection_report(rows, every, study.settings.selection, decisive)
    return StageResult(
        version,
        len(rows),
        {
            "kept": len(kept),
            **({"kept_by_override": len(overridden)} if overridden else {}),
            "rejected": len(rows) - len(kept) - len(overridden),
            **_priced(study, rows),
            **best,
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
    )


def chance_of(study: Study, one: Evidence, upto: float) -> Null:
    """Return what shuffled outcomes come to in one target, up to a p-value."""
    matrix = LabelMatrix.build(one.labels, one.triage, one.target)
    proposed = [row for row in study.store.read(ProposedFinding) if row.target == one.target]
    settings = study.settings
    findings = Findings.of_tables(matrix, proposed, one.capabilities, settings.discovery)
    return chance_null(matrix, findings, settings.contrast, settings.selection, upto)


def _check_overrides(study: Study) -> None:
    known = {name for row in study.store.read(Capability) for name in (row.capability_id, row.name)}
    for name in study.settings.selection.overrides:
        if name not in known:
            raise InputError(
                f"selection.overrides names '{name}', which is neither the id nor the name of a candidate; "
                "`trace sql gap_table` lists them."
            )


def _priced(study: Study, rows: Sequence[SelectedCapability]) -> dict[str, int]:
    """Return for how many candidates the settings name a price; the others cost 1."""
    prices = study.settings.selection.prices
    detectors = {row.capability_id: row.detector or "" for row in study.store.read(Capability)}
    named = [row for row in rows if {row.capability_id, detectors.get(row.capability_id, "")} & prices.keys()]
    return {"priced_by_settings": len(named)} if prices else {}


def kept_capabilities(study: Study) -> list[str]:
    """Return the ids of kept capabilities of every target: those that get an environment."""
    return sorted(row.capability_id for row in study.store.read(SelectedCapability) if row.kept)


def trainable(study: Study) -> list[str]:
    """Return the ids of kept capabilities of the live target: those that the live agent is taught."""
    return sorted(
        row.capability_id
        for row in study.store.read(SelectedCapability)
        if row.kept and row.target == study.settings.targets.name
    )


@asset(
    "capability_spec",
    group="diagnosis",
    records=(CapabilitySpec,),
    deps=["selected_capabilities", "capability_dictionary"],
    partitions="capability",
    light=True,
)
def write_spec(study: Study, capability_id: str) -> StageResult:
    """The cut-off: all that one capability's environment and adapter may depend on.

    Raises:
        InputError: There is no such capability.
    """
    for row in study.store.read(Capability):
        if row.capability_id == capability_id:
            spec = CapabilitySpec(**row.part(CapabilitySpec))
            version = study.store.write([spec], CapabilitySpec, capability_id)
            return StageResult(version, 1, {"detector": spec.detector or "", "name": spec.name})
    raise InputError(
        f"capability '{capability_id}' is not in the dictionary (any more); run `trace sync` to plan anew."
    )


@asset(
    "label_leak",
    group="diagnosis",
    records=(LabelLeak,),
    deps=["trajectories", "triage"],
    checks={
        "labels_blind": "The outcome cannot be told from what labellers see beside the agent's own behaviour."
    },
)
def write_leak(study: Study) -> StageResult:
    """The leak meter: how well a small classifier tells the outcome from what labellers are shown."""
    triage = study.store.read(Triage)
    rows: list[LabelLeak] = []
    for target, group in by_target(read_trajectories(study.store)).items():
        rows += measure_leak(group, [row for row in triage if row.target == target])
    version = study.store.write(rows, LabelLeak)
    judged = [row for row in rows if row.judged and row.auc is not None]
    worst = max((row.auc for row in judged if row.auc is not None), default=None)
    return StageResult(
        version,
        len(rows),
        {"n": len(triage), "channels_that_leak": sum(row.leaks for row in judged)}
        | ({"worst_auc": worst} if worst is not None else {}),
        pages={f"leak meter of {target}": _page(rows, target) for target in sorted({r.target for r in rows})},
        tables={"channels": [_row(row) for row in rows]},
        checks=(_check(rows),),
    )


def _check(rows: list[LabelLeak]) -> StageCheck:
    judged = [row for row in rows if row.judged and row.auc is not None]
    if not rows:
        return StageCheck("labels_blind", None, "there are no judged trajectories", "warning")
    leaks = [row for row in judged if row.leaks]
    shown = "; ".join(f"{row.target}, {_SAYS[row.channel]}: AUC {_auc(row)}" for row in leaks or judged)
    if not judged:
        shown = "labellers see nothing beside the agent's behaviour and what tools answered"
    said = "the outcome can be told from" if leaks else "the outcome cannot be told:"
    return StageCheck("labels_blind", not leaks, f"{said} {shown}.", "warning")


def _auc(row: LabelLeak) -> str:
    pairs = f"{row.n_pairs} pairs of trials of one task" if row.within_task else f"{row.n_pairs} pairs"
    return f"{formatting.share(row.auc, row.auc_low, row.auc_high)} (n = {pairs})"


def _row(row: LabelLeak) -> Row:
    return {
        "target": row.target,
        "channel": row.channel,
        "AUC": formatting.share(row.auc, row.auc_low, row.auc_high),
        "pairs": row.n_pairs,
        "within a task": row.within_task,
        "failures": row.n_failed,
        "successes": row.n_passed,
        "judged": row.judged,
    }


def _page(rows: list[LabelLeak], target: str) -> str:
    dots = [
        Dot(
            label=_SAYS[row.channel],
            value=row.auc,
            low=row.auc if row.auc_low is None else row.auc_low,
            high=row.auc if row.auc_high is None else row.auc_high,
            text=formatting.share(row.auc, row.auc_low, row.auc_high),
            note=f"n = {row.n_pairs} pairs",
            tone="strong" if row.judged else "",
        )
        for row in rows
        if row.target == target and row.auc is not None
    ]
    about = (
        "How well a small classifier tells success from failure, out of fold, by what labellers see beside "
        "the agent's own behaviour: 50 % tells nothing. Strong: should tell nothing. Tool answers and "
        "lengths follow what the agent did and may tell honestly."
    )
    if not dots:
        return f"{about}\n\nNothing varies in any channel."
    plot = interval_dots(dots, title=f"leak meter of {target}", reference=0.5)
    own = [row for row in rows if row.target == target]
    n = f"n = {own[0].n_failed} failures and {own[0].n_passed} successes of {own[0].n_tasks} tasks."
    return f"{svg_markdown(plot, 'area under the ROC curve')}\n\n{about} {n}"


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
