"""The page `docs/truth.md` and those below it: how right the diagnosis is, as one command finds it.

What is written by hand lies in `tables/`: the first page with its rows is `front.md`, a round of strangers
is `round_N.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.truth.clusters import clusters
from tests.truth.corrected import Corrected
from tests.truth.grades import ORIGIN, Grade
from tests.truth.luck import LuckScore
from tests.truth.outcome import DOMAINS, Outcome, developed_on, domain_of
from tests.truth.readings import PARTIES, TABLES, Readings
from tests.truth.remaining import planted_lacks, planted_words, text
from tests.truth.scores import (
    CauseScore,
    FaultScore,
    LabelScore,
    Share,
    Wanted,
    all_grades,
    grades_by,
    score_capabilities,
    score_causes,
    score_faults,
    score_labels,
    score_passed,
    share,
)


@dataclass(frozen=True)
class Scored:
    """All outcomes of one way of trying: each file alone, and all policies of a target together."""

    alone: Sequence[Outcome]
    pooled: Sequence[Outcome]

    def of(self, domain: str) -> Scored:
        """Return those of one domain."""
        return Scored(
            [one for one in self.alone if domain_of(one.target) == domain],
            [one for one in self.pooled if domain_of(one.target) == domain],
        )


@dataclass(frozen=True)
class Results:
    """What the page shows."""

    command: str
    readings: Readings
    left_out: Scored
    in_sample: Scored
    corrected: Sequence[Corrected] = ()
    luck: Sequence[LuckScore] = ()
    recorded: str = ""
    on_record: Mapping[str, Mapping[str, Share]] = field(default_factory=dict)


AIMS = {
    "party right": "85 %",
    "other parties' failures found": "70 %",
    "accusations of others that are true": "85 %",
    "passed runs on which another party is accused": "at most 5 %",
    "decisive message, exact": "55 %",
    "decisive message, within two": "70 %",
    "capabilities a rule can find: candidate or better": "80 %",
    "capabilities a rule can find: kept or promising": "60 %",
    "LACKING occurs": "95 %",
    "LACKING is a deficiency": "80 %",
    "LACKING is decisive": "60 %",
    "LACKING of kept ones is decisive": "75 %",
}


def figures(scored: Scored, readings: Readings) -> dict[str, Share]:
    """Return every headline figure."""
    faults = score_faults(scored.pooled, readings)
    causes = score_causes(scored.pooled, readings)
    wanted = [
        one for outcome in scored.pooled for one in score_capabilities(outcome, readings) if one.by_rule
    ]
    grades = all_grades(scored.pooled, readings)
    labels, kept = score_labels(grades), score_labels([one for one in grades if one.kept])
    return {
        "party right": faults.right,
        "other parties' failures found": faults.found,
        "accusations of others that are true": faults.true,
        "passed runs on which another party is accused": faults.accused,
        "decisive message, exact": causes.exact,
        "decisive message, within two": causes.within,
        "capability is the first decisive one": causes.first,
        "capability sank the run": causes.sinking,
        "capability is among those read": causes.named,
        "capabilities a rule can find: candidate or better": share(bool(one.verdict) for one in wanted),
        "capabilities a rule can find: kept or promising": share(
            one.verdict in ("kept", "promising") for one in wanted
        ),
        "LACKING occurs": labels.occurs,
        "LACKING is a deficiency": labels.deficiency,
        "LACKING is decisive": labels.decisive,
        "LACKING of kept ones is decisive": kept.decisive,
    }


def pages(results: Results) -> dict[str, str]:
    """Return all pages as Markdown: names below the folder of the first one, and their text."""
    return {
        "truth.md": front(text("front"), results),
        "truth/rules.md": _joined(_rules(results)),
        "truth/rounds.md": _joined([text("intro_rounds"), *(text(name) for name in round_names())]),
        "truth/invented.md": _joined(
            [text("intro_invented"), text("others_sets"), *planted_words(), *planted_lacks()]
        ),
        "truth/models.md": _joined(
            [text("intro_models"), results.recorded, text("whole"), text("whole_sets")]
        ),
    }


def front(template: str, results: Results) -> str:
    """Return the first page: what is written by hand, with figures in the place of `{{column: figure}}`.

    Raises:
        KeyError: There is no such figure.
    """
    readings = results.readings
    agents = [one.fault == "agent" for one in readings.failed.values()]
    of = {
        "left out": figures(results.left_out, readings),
        "in sample": figures(results.in_sample, readings),
        **{f"{who} on record": own for who, own in results.on_record.items()},
    }
    own = {"always the agent": share(agents), "confidence": _confidence_table(results, readings)}

    def figure(found: re.Match[str]) -> str:
        column, _, name = found[1].partition(": ")
        if column.endswith("on record") and column not in of:
            return "–"  # the figures of another recording, or of none
        return str(of[column][name] if name else own[column])

    return re.sub(r"\{\{(.+?)\}\}", figure, template) + "\n"


def round_names() -> list[str]:
    """Return the tables that tell of a round on strangers' runs, in their order."""
    return sorted(path.stem for path in TABLES.glob("round_*.md"))


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _rules(results: Results) -> list[str]:
    readings = results.readings
    n_failed, n_passed = len(readings.failed), len(readings.passed)
    agents = sum(one.fault == "agent" for one in readings.failed.values())
    return [
        "# Rules and detectors on tau2-bench",
        "How right rules and detectors are on 330 published runs: by domain, by party, by detector and by "
        "confidence; and what is still wrong.",
        f"Made by `{results.command}` from readings that are not part of this repository: {n_failed} failed "
        f"runs of three agents in four tau2-bench settings, each read in full by one reader ({ORIGIN}), "
        f"{agents} of them the agent's own failures, and {n_passed} labels on passed runs. Where there are "
        "no readings the command says so and writes nothing. Intervals are Wilson's at 95 %; runs of one "
        "task by several agents are not quite independent, so they are a little too narrow.",
        "**Left out**: each rule and detector family is scored only on domains on whose readings it was not "
        "developed (`tests/truth/tables/developed_on.toml`); telecom with and without a user is one domain. "
        "Rules are written by hand, not fitted: this shows whether a rule holds where nobody looked while it "
        "was written, not what its author knew of such agents in general. **In sample**: everything, "
        "everywhere.",
        "## In one table",
        _headline(results),
        "By domain, left out:",
        _by_domain(results.left_out, readings),
        "By domain, in sample:",
        _by_domain(results.in_sample, readings),
        "## Whose fault?",
        "Rows: as read; columns: as said. Left out, then in sample.",
        _confusion(score_faults(results.left_out.pooled, readings)),
        _confusion(score_faults(results.in_sample.pooled, readings)),
        "*Passed runs on which another party is accused*: every passed run is looked at as if it alone had "
        "failed for a reason that nobody can see.",
        _wrong(score_faults(results.in_sample.pooled, readings), readings),
        "Each set alone, where what other agents' runs tell of a task is not known:",
        _alone(results),
        text("once"),
        "## Are suspected tasks wrong?",
        "The tasks stand in the files as they were; a later release of tau2-bench reads otherwise for some: "
        "what it expects to be done or told was corrected. That is nobody's reading. Airline's differences "
        "were seen before the rules were written, retail's after; what was corrected for other reasons than "
        "that it was wrong cannot be told apart.",
        _corrected_table(results.corrected),
        "## Are the capabilities found?",
        "Wanted is what decided at least a tenth of a set's agent failures, and two runs. A candidate is it "
        "when it says the same (below) and labels a third of these runs LACKING.",
        "All policies of a target together, left out:",
        _wanted_table(results.left_out.pooled, readings),
        "All policies of a target together, in sample:",
        _wanted_table(results.in_sample.pooled, readings),
        "Each set alone (one agent, one trial a task), in sample:",
        _wanted_table(results.in_sample.alone, readings),
        "## Are LACKING labels right?",
        "Three grades, all labels below the line: it *occurs*; it is a *deficiency* (the reading names it); "
        "it is *decisive* (it sank the run: the reading's capability, or one that had to be there as well). "
        "*Ungraded* names nothing that the reading names and was read by nobody: never counted as right.",
        "By target, all policies together, in sample:",
        _grades_table(all_grades(results.in_sample.pooled, readings), results.in_sample.pooled, "target"),
        "By detector:",
        _grades_table(all_grades(results.in_sample.pooled, readings), results.in_sample.pooled, "detector"),
        _passed_words(results.in_sample.pooled, readings),
        "## Why did this run fail?",
        _causes_table(results, readings),
        "*Blamed* are passed runs for which a capability is named: not wrong by itself, as runs also pass by "
        "luck and by breaking the policy.",
        "Figures are of the rows of `failure_causes`: the benchmark and the asset call one function.",
        "How sure a row is, and how often its party and (of the agent's) a capability that sank the run are "
        "right:",
        _confidence_table(results, readings),
        "## Is a pass a good witness?",
        "Passed runs that the table `lucky_passes` names, and what was read of them. A run may be of several "
        "kinds. The runs that were read were chosen for need, not at random.",
        _luck_table(results.luck),
        text("remaining"),
        "## How a label is matched with a reading",
        "Readings are free English; 76 texts are put into "
        f"{len(clusters())} clusters of one meaning, by hash. A cluster says what a label must be about: a "
        "kind of mistake (a forbidden call, a missing call, a wrong value, ...), a tool, an argument. What a "
        "label is about is read from its capability's structure, never from its wording. So a new detector "
        "is scored as it comes, and a nicer name earns nothing. The price: a label that is right in other "
        "words than the reading's is ungraded until somebody reads it (`python -m tests.truth --ungraded "
        "FILE`), and a label may match what was read in a run while it means another call of the same tool.",
    ]


def _confidence_table(results: Results, readings: Readings) -> str:
    scores = [
        score_causes(one.pooled, readings).by_confidence for one in (results.left_out, results.in_sample)
    ]
    levels = [level for level in ("high", "medium", "low") if any(level in one for one in scores)]
    return table(
        ["confidence", "left out", "in sample"],
        [[level, *(str(one.get(level, "–")) for one in scores)] for level in levels],
    )


def _luck_table(rows: Sequence[LuckScore]) -> str:
    return table(
        ["kind", "passed runs", "runs read that lack something", "labels read that say LACKING"],
        [[row.kind.replace("_", " "), str(row.n), str(row.runs), str(row.labels)] for row in rows],
    )


def write_pages(results: Results, path: Path) -> None:
    """Write the first page to a path, the others into a folder of its name beside it."""
    for name, words in pages(results).items():
        place = path if name == "truth.md" else path.with_suffix("") / Path(name).name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(words, encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a sentence where it has no rows."""
    if not rows:
        return "*Nothing.*"
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def _headline(results: Results) -> str:
    left = figures(results.left_out, results.readings)
    own = figures(results.in_sample, results.readings)
    rows = [[name, AIMS.get(name, ""), str(left[name]), str(own[name])] for name in left]
    return table(["figure", "aim", "left out", "in sample"], rows)


def _by_domain(scored: Scored, readings: Readings) -> str:
    by = {domain: figures(scored.of(domain), readings) for domain in DOMAINS}
    names = list(next(iter(by.values())))
    return table(["figure", *DOMAINS], [[name, *(str(by[d][name]) for d in DOMAINS)] for name in names])


def _confusion(score: FaultScore) -> str:
    said = [one for one in PARTIES if any(score.confusion.get((read, one), 0) for read in PARTIES)]
    read = [one for one in PARTIES if any(score.confusion.get((one, other), 0) for other in PARTIES)]
    return table(
        ["read \\ said", *said],
        [[one, *(str(score.confusion.get((one, other), 0)) for other in said)] for one in read],
    )


def _wrong(score: FaultScore, readings: Readings) -> str:
    rows = [
        [f"`{run[:8]}`", readings.failed[run].file.removesuffix(".json"), read, said, f"`{rule}`"]
        for run, read, said, rule in sorted(score.wrong, key=lambda one: (one[1], one[2], one[0]))
    ]
    return "Wrong ones, in sample:\n\n" + table(["run", "set", "read", "said", "rule"], rows)


def _alone(results: Results) -> str:
    rows = []
    for name, scored in (("left out", results.left_out), ("in sample", results.in_sample)):
        one = score_faults(scored.alone, results.readings)
        rows.append([name, str(one.right), str(one.found), str(one.true), str(one.accused)])
    head = ["", "party right", "others' failures found", "accusations that are true", "passed runs accused"]
    return table(head, rows)


def _corrected_table(corrected: Sequence[Corrected]) -> str:
    return table(
        ["target", "corrected tasks", "said to be wrong: corrected", "corrected: said to be wrong"],
        [[one.target, str(one.changed), str(one.true), str(one.found)] for one in corrected],
    )


def _wanted_table(outcomes: Sequence[Outcome], readings: Readings) -> str:
    rows = [
        [
            one.set_name,
            clusters()[one.cluster].name,
            f"{one.n} of {one.of}",
            "rule" if one.by_rule else "model",
            f"**{one.verdict}**" if one.verdict == "kept" else one.verdict or "–",
            "; ".join(one.candidates[:2]),
        ]
        for one in (wanted for outcome in outcomes for wanted in score_capabilities(outcome, readings))
    ]
    return table(["set", "lacking", "agent failures", "findable by", "verdict", "candidates"], rows)


def _grades_table(grades: Sequence[Grade], outcomes: Sequence[Outcome], by: str) -> str:
    target = {
        one.trajectory_id: outcome.target for outcome in outcomes for one in outcome.diagnosed.trajectories
    }
    groups: Mapping[str, LabelScore] = grades_by(
        grades,
        (lambda one: target[one.label.trajectory_id])
        if by == "target"
        else (lambda one: one.capability.detector or one.capability.analyst),
    )
    every = {**groups, "all": score_labels(grades)}
    rows = [
        [
            name,
            str(one.occurs),
            str(one.deficiency),
            str(one.decisive),
            str(one.first),
            str(one.ungraded),
            str(one.by_hand),
        ]
        for name, one in every.items()
    ]
    return table([by, "occurs", "deficiency", "decisive", "first decisive", "ungraded", "read by hand"], rows)


def _passed_words(outcomes: Sequence[Outcome], readings: Readings) -> str:
    score = score_passed(outcomes, readings.passed)
    return (
        f"On passed runs, where a candidate is the capability that was read: LACKING was seen in "
        f"{score.lacking}; PRESENT was left alone in {score.present}. For {score.unlabelled} labels there is "
        "no such candidate."
    )


def _causes_table(results: Results, readings: Readings) -> str:
    scores: dict[str, CauseScore] = {}
    for domain in DOMAINS:
        scores[f"{domain}, left out"] = score_causes(results.left_out.of(domain).pooled, readings)
        scores[f"{domain}, in sample"] = score_causes(results.in_sample.of(domain).pooled, readings)
    scores["all, left out"] = score_causes(results.left_out.pooled, readings)
    scores["all, in sample"] = score_causes(results.in_sample.pooled, readings)
    rows = [
        [
            name,
            *(str(x) for x in (one.party, one.exact, one.within, one.sinking, one.named, one.silent)),
            *(str(x) for x in (one.accused, one.blamed)),
        ]
        for name, one in scores.items()
    ]
    head = [
        "",
        "party",
        "message exact",
        "within two",
        "capability sank it",
        "among those read",
        "none named",
    ]
    return table([*head, "passed: others accused", "passed: blamed"], rows)


def declared() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return what is declared of families and rules."""
    return {kind: developed_on(kind) for kind in ("families", "rules")}


def wanted_of(outcomes: Sequence[Outcome], readings: Readings) -> list[Wanted]:
    """Return what should be found in several sets."""
    return [one for outcome in outcomes for one in score_capabilities(outcome, readings)]
