"""The asset `capability_dictionary`: candidates of detectors, of a model, or of both side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.diagnosis.contrast import in_first_half
from trace_assets.diagnosis.llm.analyst import ModelAnalyst
from trace_assets.diagnosis.llm.found_again import with_further
from trace_assets.records import (
    Capability,
    FurtherReading,
    Label,
    LackCause,
    Proposal,
    ProposedFinding,
    SingleLack,
    Trajectory,
)
from trace_assets.report.asset_report.diagnosis import dictionary_report
from trace_assets.resources.analysts import by_target, known_of, model_figures, open_detectors, open_model
from trace_assets.resources.open_failures import asked_as, open_failures, usable_runs
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


@dataclass
class _Model:
    """What the model's part came to.

    A capability that the dictionary holds already keeps its id and words (`diagnosis.model.recognise`), so
    its labels and its environment stand however a model names it the next time.
    """

    capabilities: list[Capability] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    stopped: bool = False
    readings: list[FurtherReading] = field(default_factory=list)


@asset(
    "capability_dictionary",
    group="diagnosis",
    records=(Capability, Proposal, ProposedFinding, SingleLack, FurtherReading),
    deps=["tasks", "trajectories", "triage", "suspect_tasks", "config/triage", "config/discovery"],
    checks={"discovery_complete": "Every discovery pass was read, and the proposals were merged."},
    blocking=["discovery_complete"],
    unfinished=["discovery_complete"],
)
def discover(study: Study) -> StageResult:
    """Candidate capabilities: what failures seem to lack, each with its proposals."""
    usable = usable_runs(study)
    trajectories = [one for one in read_trajectories(study.store) if one.trajectory_id in usable]
    half = study.settings.discovery.split == "half"
    if half:
        trajectories = [one for one in trajectories if in_first_half(one.task_id)]
    groups, who = by_target(trajectories), study.settings.discovery.analyst
    found: list[Capability] = []
    findings: list[ProposedFinding] = []
    singles: list[SingleLack] = []
    if who in ("detectors", "both"):
        for target, group in groups.items():
            own = open_detectors(study, target, proposing=True).discover_among(group)
            found, findings = [*found, *own.capabilities], [*findings, *own.findings]
            singles += own.singles
    model = _ask_model(study, groups, found) if who in ("model", "both") else _Model()
    found += model.capabilities
    if half:
        found = [one.model_copy(update={"discovered_on": "half"}) for one in found]
    study.store.write(model.proposals, Proposal)
    study.store.write(model.readings, FurtherReading)
    study.store.write(findings, ProposedFinding)
    study.store.write(singles, SingleLack)
    version = study.store.write(found, Capability)
    return StageResult(
        version,
        len(found),
        {
            "candidates": len(found),
            "targets": len({row.target for row in found}),
            "n": len(usable),
            **model.figures,
        },
        tables=dictionary_report(found).tables,
        checks=(_complete(model),),
    )


def _ask_model(
    study: Study, groups: dict[str, list[Trajectory]], by_detectors: Sequence[Capability]
) -> _Model:
    done, passes, groups_made, compacted, recognised = _Model(), 0, 0, 0, 0
    done.readings = study.store.read(FurtherReading)
    before = [row for row in study.store.read(Proposal) if row.reading > 1]
    known = [one for one in study.store.read(Capability) if one.detector is None]
    told = {
        target: replace(known_of(study, target, group), explained=_explained(study, group))
        for target, group in groups.items()
    }
    with open_model(study, "capability_dictionary", known=known, told=told) as (analyst, server):
        for target, group in groups.items():
            own = analyst.discover(group)
            done.proposals += analyst.merged.proposals
            proposed, merged = analyst.proposed, analyst.merged
            passes += len({row.discovery_pass for row in proposed.proposals})
            groups_made += merged.n_groups
            recognised += merged.n_recognised
            compacted += proposed.n_compacted
            done.stopped |= not (proposed.complete and merged.complete)
            done.remarks += [
                f"{target}: pass {number} gave no usable answer ({reason[:120]})"
                for number, reason in sorted(proposed.missing.items())
            ]
            if merged.reason:
                done.remarks.append(
                    f"{target}: proposals were merged by equal names only ({merged.reason[:120]})"
                )
            if merged.unrecognised:
                done.remarks.append(
                    f"{target}: what the dictionary held was recognised by its words only "
                    f"({merged.unrecognised[:120]})"
                )
            if not proposed.complete or not merged.complete:
                done.remarks.append(f"{target}: the cap on spending was reached")
            else:
                seen = [one for one in by_detectors if one.target == target]
                own = _read_further(study, analyst, group, own, seen, done)
            done.capabilities += own
    held = {one.capability_id for one in (*done.capabilities, *by_detectors)}
    done.proposals += [row for row in before if row.merged_into is None or row.merged_into in held]
    if done.stopped:
        # The rest of the dictionary was not looked for yet: it stays until somebody has.
        found = {one.capability_id for one in done.capabilities}
        done.capabilities += [one for one in known if one.capability_id not in found]
    done.figures = {
        "proposals": len(done.proposals),
        "proposing_passes": passes,
        "merged_groups": groups_made,
        "recognised": recognised,
        "compacted_transcripts": compacted,
        "further_readings": len(done.readings),
        **model_figures(server),
    }
    return done


def _read_further(
    study: Study,
    analyst: ModelAnalyst,
    group: Sequence[Trajectory],
    own: list[Capability],
    by_detectors: Sequence[Capability],
    done: _Model,
) -> list[Capability]:
    """Read the failures that no candidate explains, where it is known which those are; return all candidates.

    It is known once what the dictionary holds was labelled and judged: never in the first run of this asset.
    """
    section, target = study.settings.discovery, group[0].target
    candidates = [*by_detectors, *own]
    failures = [one.trajectory_id for one in group if one.success is False]
    open_ = open_failures(study, target, failures, candidates)
    if not open_.to_read:
        return own
    new = analyst.read_further(group, candidates, open_.to_read, open_.reading)
    further, merged = analyst.further, analyst.merged
    if not (further.proposed.complete and merged.complete):
        done.stopped = True
        done.remarks.append(f"{target}: the cap on spending was reached")
        return own
    done.remarks += [
        f"{target}: failures that no candidate explains were not read again ({reason[:120]})"
        for reason in further.proposed.missing.values()
    ]
    done.proposals += [*merged.proposals, *further.again]
    done.readings.append(
        FurtherReading(
            target=target,
            reading=open_.reading,
            asked_as=asked_as(section),
            trajectories=tuple(sorted(open_.to_read.harmless)),
            n_new=len(new),
            n_again=len({name for row in further.again for name in row.trajectories}),
        )
    )
    return with_further(own, new, section.max_candidates)


def _explained(study: Study, group: Sequence[Trajectory]) -> frozenset[str]:
    """Return failures of which the last diagnosis says what decided them, where some are new since.

    What is new and what stayed unexplained is then read first, so that the dictionary gains what these runs
    need. With nothing new the same runs are read in the same order, and answers that were paid are had again.
    """
    failed = {one.trajectory_id for one in group if not one.success}
    judged = study.store.read(LackCause)
    explained = {row.trajectory_id for row in judged if row.decisive == "yes"}
    labelled = set(study.store.frame(Label)["trajectory_id"].to_list())
    return frozenset(failed & explained) if failed - labelled else frozenset()


def _complete(model: _Model) -> StageCheck:
    """Whether all passes were read: a cap stops what comes next, a pass that the model spoilt does not."""
    if not model.remarks:
        return StageCheck("discovery_complete", True, "every pass was read and its proposals merged.")
    mend = (
        " Raise analyst.cap_usd or analyst.cap_calls and run the same command again." if model.stopped else ""
    )
    severity: Literal["error", "warning"] = "error" if model.stopped else "warning"
    return StageCheck("discovery_complete", False, f"{'; '.join(model.remarks)}.{mend}", severity)
