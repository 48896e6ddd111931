"""What the model calls of a diagnosis will cost, before any is made."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from trace_assets.assets.environment import WriterDesk, open_model_writer
from trace_assets.diagnosis.expected.diffs import action_diffs
from trace_assets.diagnosis.llm.batches import draw_batches
from trace_assets.diagnosis.llm.budget import bytes_per_token, price, read_calls, totals
from trace_assets.diagnosis.llm.cases import Grounds, rules_question
from trace_assets.diagnosis.llm.causes import triage_question
from trace_assets.diagnosis.llm.discovery import discovery_question
from trace_assets.diagnosis.llm.further import Open, further_batches, further_question
from trace_assets.diagnosis.llm.labelling import cases_and_parents, label_question, ordered
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.request import A, Question
from trace_assets.diagnosis.llm.transcript import BYTES_A_TOKEN as ESTIMATED
from trace_assets.diagnosis.llm.transcript import estimate_tokens, view
from trace_assets.diagnosis.triage import is_looked_at, triage
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.judge.agents import Judging, judging
from trace_assets.environments.writers.writer import write_environment
from trace_assets.errors import InputError
from trace_assets.records import (
    ActionDiff,
    Capability,
    CapabilitySpec,
    Label,
    LackCause,
    SelectedCapability,
    Task,
    ToldTask,
    Trajectory,
    Triage,
)
from trace_assets.resources.analysts import analyst_section, by_target, context_of, judge_section, known_of
from trace_assets.resources.contract import read_contract
from trace_assets.resources.open_failures import open_failures, usable_runs
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study

PROPOSALS_TOKENS = 700
"""Reply of one discovery pass, and of the merge for each pass: a guess."""
RULES_TOKENS = 2000
"""Reply that writes a policy's rules down as cases."""
LABEL_TOKENS = 70
"""Reply for one label: a sentence, some indices."""
CAPABILITY_TOKENS = 110
"""One capability in the prompt, where it is not known yet."""
RULING_TOKENS = 80
"""Reply of one triage: a sentence, some indices."""
ASSUMED_CAPABILITIES = 8
"""A target's candidates by a model, where it has proposed none yet."""
OPEN_SHARE = 0.3
"""Failures no candidate explains, where nothing is labelled yet: 5 and 6 of 17 in docs/truth/models.md."""
ASSUMED_CASES = 20
"""The same where they are cases: the policy's rules are among them."""


@dataclass(frozen=True)
class Forecast:
    """What one stage will ask.

    Attributes:
        stage: `triage`, `discovery`, `labels`, `lack_causes`, or `further reading`: of the failures that no
            candidate explains, with the labels and causes that follow from it.
        calls: Requests, each answered at the first try.
        remembered: Questions whose answers are there already.
        prompt_tokens: Of the requests, estimated.
        completion_tokens: Of the replies, guessed.
        usd: By the settings' prices, without what prompt caches save.
        assumed: What had to be assumed, empty where everything is known.
    """

    stage: str
    calls: int
    remembered: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    assumed: str = ""


def asks_model(study: Study) -> bool:
    """Tell whether the settings name a model for triage, discovery or labels."""
    return bool(paid_stages(study))


def paid_stages(study: Study) -> list[str]:
    """Return the assets of the diagnosis for which the settings name a model: these are asked for."""
    settings = study.settings
    named = {
        "triage": bool(settings.triage.model),
        "capability_dictionary": settings.discovery.analyst != "detectors",
        "labels": bool(settings.labels.model),
        "lack_causes": bool(settings.labels.model) and settings.labels.causes,
    }
    return [asset for asset, is_named in named.items() if is_named]


def unknown_means(study: Study) -> dict[str, list[str]]:
    """Return by target what a model that reads its runs would not be told: `policy`, `tools`, or both."""
    found = {}
    for target, runs in sorted(by_target(read_trajectories(study.store)).items()):
        context = context_of(study, target, runs, outcomes_known=True)
        known = {"policy": bool(context.policy.strip()), "tools": bool(context.tools)}
        if missing := [name for name, there in known.items() if not there]:
            found[target] = missing
    return found


def spent_so_far(study: Study) -> float:
    """Return what this home has spent on model calls, in USD."""
    return totals(read_calls(study.home.answers)).usd


def forecast(study: Study) -> list[Forecast]:
    """Forecast the calls of triage, discovery, labels and causes from what is in the store.

    Nothing is asked. What is remembered is left out, and so are stored labels; repairs, retries and parts are
    not foreseen.

    Args:
        study: Its trajectories must be there, and triage for discovery.
    """
    rows = []
    groups = by_target(read_trajectories(study.store))
    if study.settings.triage.model:
        rows.append(_triage(study, groups))
    if study.settings.discovery.analyst != "detectors":
        rows.append(_discovery(study, groups))
    if study.settings.labels.model:
        rows.append(_labels(study, groups))
        if study.settings.labels.causes:
            rows.append(_causes(study, groups))
        if study.settings.discovery.analyst != "detectors" and study.settings.discovery.further:
            rows.append(_further(study, groups))
    return rows


def _triage(study: Study, groups: dict[str, list[Trajectory]]) -> Forecast:
    section, tally = study.settings.triage, _Tally(study)
    told = tasks_by_id(study)
    for target, group in groups.items():
        failed = [one for one in group if one.success is False]
        ruled = {row.trajectory_id for row in triage(group, tasks=told) if is_looked_at(row)}
        diffs: dict[str, list[ActionDiff]] = {}
        for row in action_diffs(failed, told):
            diffs.setdefault(row.trajectory_id, []).append(row)
        context = context_of(study, target, group, outcomes_known=True)
        for one in failed:
            if one.trajectory_id in ruled:
                known = told.get(one.task_id), diffs.get(one.trajectory_id, ()), context
                question = triage_question(section.model, one, section.transcript_tokens, *known)
                tally.ask(question, RULING_TOKENS)
    return tally.forecast("triage", "")


def _causes(study: Study, groups: dict[str, list[Trajectory]]) -> Forecast:
    """One request a failure of the agent that lacks something: at the most as many as there are failures."""
    section, tally = study.settings.labels, _Tally(study)
    done = {row.trajectory_id for row in study.store.read(LackCause)}
    faults = {row.trajectory_id: row.fault for row in study.store.read(Triage)}
    for target, group in groups.items():
        context = context_of(study, target, group, outcomes_known=True)
        beside = estimate_tokens(context.text)
        for one in group:
            failed = one.success is False and faults.get(one.trajectory_id, "agent") == "agent"
            if failed and one.trajectory_id not in done:
                shown = view(one, section.transcript_tokens, blind=False, above=context.policy)
                tally.guess(1, 400 + beside + shown.record.tokens, RULING_TOKENS * 2)
    return tally.forecast("lack_causes", "every failure lacks something" if tally.calls else "")


def _further(study: Study, groups: dict[str, list[Trajectory]]) -> Forecast:
    """One reading: each failure that it names something for has one new candidate, put to every run."""
    section, labels, tally = study.settings.discovery, study.settings.labels, _Tally(study)
    usable, known = set(usable_runs(study)), study.store.read(Capability)
    if not study.store.partitions(Triage):  # not known yet whose the failures are: all may be the agent's
        usable = {one.trajectory_id for group in groups.values() for one in group}
    labelled = {row.trajectory_id for row in study.store.read(Label)}
    assumed = ""
    for target, every in groups.items():
        group = [one for one in every if one.trajectory_id in usable]
        failed = [one.trajectory_id for one in group if one.success is False]
        if not failed or len(failed) == len(group):
            continue
        own = [one for one in known if one.target == target]
        if own and labelled.issuperset(failed):
            open_ = open_failures(study, target, failed, own).to_read
        else:
            assumed = f"{OPEN_SHARE:.0%} of the failures are explained by no candidate"
            open_ = Open({name: {} for name in sorted(failed)[: math.ceil(OPEN_SHARE * len(failed))]})
        told = known_of(study, target, group)
        for batch in further_batches(group, section, open_):
            asked, _ = further_question(
                section, batch, section.transcript_tokens, told, own, open_, Grounds()
            )
            prompt = estimate_tokens(asked.system) + estimate_tokens(asked.user)
            tally.guess(1, prompt, PROPOSALS_TOKENS)
        if not len(open_):
            continue
        tally.guess(2, 4 * PROPOSALS_TOKENS, 2 * PROPOSALS_TOKENS)  # merged, and known ones recognised
        beside = 900 + estimate_tokens(told.context.text) + CAPABILITY_TOKENS * len(open_)
        for one in group:
            shown = view(one, labels.transcript_tokens, above=told.context.policy).record.tokens
            tally.guess(
                labels.passes, labels.passes * (beside + shown), labels.passes * LABEL_TOKENS * len(open_)
            )
            if labels.causes and one.trajectory_id in open_.harmless:
                tally.guess(1, beside + shown, RULING_TOKENS * 2)
    return tally.forecast("further reading", assumed)


def _discovery(study: Study, groups: dict[str, list[Trajectory]]) -> Forecast:
    section, tally = study.settings.discovery, _Tally(study)
    failed = {row.trajectory_id for row in study.store.read(Triage) if row.fault not in (None, "agent")}
    for group in groups.values():
        known = known_of(study, group[0].target, group)
        batches = draw_batches([one for one in group if one.trajectory_id not in failed], section)
        if section.size == "case" and batches and known.context.policy:
            grounds = Grounds.of(known.context, group)
            tally.ask(rules_question(section, known.context, grounds), RULES_TOKENS)
        for batch in batches:
            question, _ = discovery_question(section, batch, section.transcript_tokens, known)
            if section.size == "case":  # which rules it is told is not known before they are written down
                prompt = estimate_tokens(question.system) + estimate_tokens(question.user)
                tally.guess(1, prompt + RULES_TOKENS, PROPOSALS_TOKENS)
            else:
                tally.ask(question, PROPOSALS_TOKENS)
        if batches and tally.calls:
            tally.guess(1, len(batches) * PROPOSALS_TOKENS, len(batches) * PROPOSALS_TOKENS)
    return tally.forecast("discovery", "the merge's length" if tally.calls else "")


def _labels(study: Study, groups: dict[str, list[Trajectory]]) -> Forecast:
    section, tally = study.settings.labels, _Tally(study)
    known = study.store.read(Capability)
    name = f"model:{section.model}"
    stored = {
        (row.trajectory_id, row.capability_id, row.labelling_pass)
        for row in study.store.read(Label)
        if row.labeller == name
    }
    assumed = False
    candidates = ASSUMED_CASES if study.settings.discovery.size == "case" else ASSUMED_CAPABILITIES
    for target, group in groups.items():
        own, _ = cases_and_parents([one for one in known if one.target == target])
        context = context_of(study, target, group)
        beside = 900 + estimate_tokens(context.text)
        for one in group:
            shown = view(one, section.transcript_tokens, above=context.policy)
            for number in range(1, section.passes + 1):
                if own:
                    open_ones = [
                        row for row in own if (one.trajectory_id, row.capability_id, number) not in stored
                    ]
                    if open_ones:
                        question = label_question(section, shown, ordered(open_ones, number), number, context)
                        tally.ask(question, LABEL_TOKENS * len(open_ones))
                elif tally.is_new(f"{number}:{shown.record.view_hash}"):
                    assumed = True
                    prefix = beside + CAPABILITY_TOKENS * candidates
                    tally.guess(1, prefix + shown.record.tokens, LABEL_TOKENS * candidates)
    return tally.forecast("labels", f"{candidates} candidates a target" if assumed else "")


def tasks_by_id(study: Study) -> dict[str, Task | ToldTask]:
    """Return what is known of every task."""
    told: list[Task | ToldTask] = [*study.store.read(Task), *study.store.read(ToldTask)]
    return {row.task_id: row for row in told}


class _Tally:
    """Counts questions, each text once."""

    def __init__(self, study: Study) -> None:
        self._section, self._answers = analyst_section(study), Answers(study.home.answers)
        self._scale = ESTIMATED / bytes_per_token(read_calls(study.home.answers))
        self._seen: set[str] = set()
        self.calls = self.remembered = self.prompt = self.completion = 0

    def ask(self, question: Question[A], reply: int) -> None:
        """Count a question, unless it was counted or is answered."""
        if not self.is_new(question.key):
            return
        if self._answers.has(question):
            self.remembered += 1
        else:
            self.guess(1, estimate_tokens(question.system) + estimate_tokens(question.user), reply)

    def is_new(self, key: str) -> bool:
        """Tell whether something was not met before: equal transcripts are asked about once."""
        new = key not in self._seen
        self._seen.add(key)
        return new

    def guess(self, calls: int, prompt: int, completion: int) -> None:
        """Count requests that are not known in full."""
        self.calls, self.prompt = self.calls + calls, self.prompt + prompt
        self.completion += completion

    def forecast(self, stage: str, assumed: str) -> Forecast:
        """Return the sums."""
        prompt = round(self.prompt * self._scale)
        cost = price(self._section, prompt, self.completion)
        return Forecast(stage, self.calls, self.remembered, prompt, self.completion, cost, assumed)


# What a model that writes environments will cost, before it is asked.


MODULE_TOKENS = 14_000
"""Of one module in a reply: two by a recorded model had 13,000 and 14,000, recipes' have 4,000 to 8,000."""
EVIDENCE_TOKENS = 1500
"""Of the failed checks in a request to mend."""


@dataclass(frozen=True)
class EnvironmentsForecast:
    """What environments of kept capabilities would cost.

    Attributes:
        rows: Two a capability that a model writes: if the first draft is accepted, and at the most, with
            every round of mending. Replies that are cut off and continued are not foreseen. What is
            remembered is left out. Two more a capability where a model judges: see `judge_rows`.
        left_out: Kept capability -> why nothing is foreseen for it, in words.
    """

    rows: list[Forecast]
    left_out: dict[str, str]


def forecast_environments(study: Study) -> EnvironmentsForecast:
    """Forecast the calls for the environments of all kept capabilities; nothing is asked.

    Raises:
        InputError: No model is set.
    """
    section = study.settings.synthesis
    writes = section.writer != "recipe" and bool(section.model)
    if not writes and not section.judge:
        raise InputError(
            "no model writes or judges environments: set synthesis.writer to model or auto, and "
            "synthesis.model; or synthesis.judge."
        )
    rows: list[Forecast] = []
    left_out: dict[str, str] = {}
    for name in sorted(row.capability_id for row in study.store.read(SelectedCapability) if row.kept):
        own = _rows(study, name) if writes else "a recipe writes it, which costs nothing"
        if isinstance(own, str):
            left_out[name] = own
        else:
            rows += own
        rows += judge_rows(study, name, 1 + section.mend_rounds * (not isinstance(own, str)))
    return EnvironmentsForecast(rows, left_out)


def _rows(study: Study, name: str) -> list[Forecast] | str:
    section = study.settings.synthesis
    specs = study.store.read(CapabilitySpec, name)
    if not specs:
        return "it is not specified yet: `trace sync --select capability_spec`, then ask again"
    spec = specs[0]
    try:
        contract = read_contract(study, spec.target)
    except InputError:
        way = "`trace sync --select target_contract`, then ask again"
        return f"the contract of {spec.target} is not read yet: {way}"
    if section.writer == "auto" and _has_recipe(study, spec):
        return "a recipe writes it, which costs nothing"
    writer = open_model_writer(study, spec, WriterDesk(study, spec.capability_id))
    question = writer.first_question(spec, contract)
    known = Answers(study.home.answers).has(question)
    first = estimate_tokens(question.system) + estimate_tokens(question.user)
    again = first + MODULE_TOKENS + EVIDENCE_TOKENS
    rounds = section.mend_rounds
    at_most = _row(study, f"{spec.capability_id}, at the most", 1 + rounds, first + rounds * again, known)
    if known:
        return [at_most]
    return [_row(study, f"{spec.capability_id}, if the first draft is accepted", 1, first, False), at_most]


def judge_rows(study: Study, name: str, versions: int = 1) -> list[Forecast]:
    """Return what judging one capability's environment would cost, at least and at the most.

    At the most every version of it is judged, every solution that goes unpaid compared, and every answer sent
    back as often as the settings allow. Answers that are remembered, and an environment that something else
    rejects, cost nothing; neither is foreseen.

    Args:
        study: The study.
        name: The capability; one without specification or contract has no row.
        versions: That may be judged.
    """
    specs = study.store.read(CapabilitySpec, name)
    if not study.settings.synthesis.judge or not specs:
        return []
    try:
        contract = read_contract(study, specs[0].target)
    except InputError:
        return []
    low, high = judging_of(study, contract)
    return [
        _judged(study, f"{name}, judged once", low, 1),
        _judged(study, f"{name}, judged, at the most", high, versions),
    ]


def judging_of(study: Study, contract: TargetContract) -> tuple[Judging, Judging]:
    """Return what is asked about one environment of a target, at least and at the most."""
    tools = json.dumps([tool.openai() for tool in contract.tools])
    desk = estimate_tokens(contract.policy) + estimate_tokens(tools)
    return judging(desk, judge_section(study).repairs)


def judge_price(study: Study, one: Judging) -> float:
    """Return its price in USD."""
    return price(judge_section(study), one.prompt, one.completion)


def _judged(study: Study, name: str, one: Judging, times: int) -> Forecast:
    assumed = "the length of episodes and replies"
    usd = judge_price(study, one) * times
    return Forecast(name, one.calls * times, 0, one.prompt * times, one.completion * times, usd, assumed)


def _row(study: Study, name: str, calls: int, prompt: int, known: bool) -> Forecast:
    completion = calls * MODULE_TOKENS
    usd = price(judge_section(study), prompt, completion)
    assumed = f"{MODULE_TOKENS:,} tokens a module" + ("; later answers may be remembered" if known else "")
    return Forecast(name, calls - known, int(known), prompt, completion, usd, assumed)


def _has_recipe(study: Study, spec: CapabilitySpec) -> bool:
    try:
        write_environment(spec, read_contract(study, spec.target))
    except InputError:
        return False
    return True
