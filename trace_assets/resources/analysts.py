"""Who reads transcripts: the analysts and the judge that a study opens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from trace_assets.assets.asset import Figure
from trace_assets.diagnosis.contrast import estimation_share
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.detectors.policy_text import shown_policy
from trace_assets.diagnosis.expected.diffs import in_deeds
from trace_assets.diagnosis.llm.analyst import ModelAnalyst
from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.discovery import Known
from trace_assets.diagnosis.llm.prices import with_prices
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.request import A, Context, Question, has_user
from trace_assets.diagnosis.triage import player
from trace_assets.environments.audit.check import NotJudged
from trace_assets.environments.contract.description import (
    GivenTools,
    TargetDescription,
    read_description,
    tools_of,
    write_description,
)
from trace_assets.errors import InputError, Unavailable
from trace_assets.records import (
    ActionDiff,
    Capability,
    ExpectedAction,
    Label,
    LackCause,
    LuckyPass,
    SuspectTask,
    Task,
    ToldTask,
    Trajectory,
    TrajectoryHead,
    Triage,
)
from trace_assets.settings import Analyst
from trace_assets.store.names import chosen_name
from trace_assets.study import Study

PLAYED = "rolled out"
"""Where the tools of a target are known from that was live when its trajectories were made."""


def open_detectors(study: Study, target: str, *, proposing: bool = False) -> DetectorAnalyst:
    """Return the detectors; they are told the tools of the live target, and of those that were live once.

    So with the policy; of a target that was never live it is the one that tasks record beside its runs.
    That one is read for proposals alone: tasks hold the ground truth, which whoever labels must not open.
    So what they demand: no proposal may accuse just that.
    """
    if target == study.settings.targets.name:
        tools, policy = study.target.tools, study.target.policy
    else:
        known = read_description(study.home.descriptions, target)
        tools = known.tools.agent if known.tools_from == PLAYED else ()
        policy = known.policy or (_recorded_policy(study, target) if proposing else "")
    expected = _expected_of(study, target) if proposing else {}
    return DetectorAnalyst(study.settings.discovery, tools=tools, policy=policy, expected=expected)


def aside_tasks(study: Study) -> frozenset[str]:
    """Return the tasks whose runs enter neither discovery nor contrast."""
    return frozenset(row.task_id for row in study.store.read(SuspectTask) if row.aside)


def _expected_of(study: Study, target: str) -> dict[str, tuple[ExpectedAction, ...]]:
    """Return the ground truth's calls of a target's tasks that have one, as detectors name deeds."""
    told = (in_deeds(row) for row in study.store.read(Task) if row.target == target and row.has_expected)
    return {row.task_id: row.expected_actions for row in told}


def _recorded_policy(study: Study, target: str) -> str:
    """Return the first policy in order of tasks that a target's tasks record, empty when none does."""
    told = [row for row in study.store.read(Task) if row.target == target and row.domain_policy]
    return min(told, key=lambda row: row.task_id).domain_policy if told else ""


def keep_described(study: Study) -> None:
    """Keep what the live target says of itself, for commands that are not told its settings."""
    target = study.target
    known = TargetDescription(
        target=target.name,
        tools=GivenTools(agent=tuple(target.tools)),
        policy=target.policy,
        tools_from=PLAYED,
        policy_from=PLAYED,
    )
    write_description(study.home.descriptions, known)


def context_of(
    study: Study, target: str, runs: Sequence[Trajectory], *, outcomes_known: bool = False
) -> Context:
    """Return what the agents of a target knew: of the live one, as it says, else as it is kept in the home.

    Where neither says a policy it is what the system messages of the runs say alike; where neither names
    tools they are those that came with the runs, if they came alike with all.

    Args:
        study: With the home.
        target: Its name.
        runs: Of the target, those that are asked about.
        outcomes_known: Whether tasks, which hold the ground truth, may be opened for the policy they record:
            for discovery and triage, never for labels.
    """
    if target == study.settings.targets.name:
        live = study.target
        return Context(live.policy, tuple(live.tools), has_user=has_user(runs))
    known = read_description(study.home.descriptions, target)
    policy = known.policy or (_recorded_policy(study, target) if outcomes_known else "")
    policy = policy or shown_policy(runs, words_only=False)
    tools = known.tools if known.tools.agent else tools_of(runs)
    talks = bool(tools.user) or has_user(runs)
    return Context(policy, tools.agent, tools.user, talks)


def known_of(study: Study, target: str, runs: Sequence[Trajectory], batch: str | None = None) -> Known:
    """Return what is told where outcomes are known: what the agent knew, and what was expected of its runs.

    Args:
        study: With the home.
        target: Of the runs.
        runs: Passed and failed ones.
        batch: The only batch whose tables are read; all of them unless given.
    """
    own = {one.trajectory_id: one.task_id for one in runs if one.success is False}
    diffs: dict[str, list[ActionDiff]] = defaultdict(list)
    for row in study.store.read(ActionDiff, batch) if batch else study.store.read(ActionDiff):
        if row.trajectory_id in own:
            diffs[row.trajectory_id].append(row)
    told: list[Task | ToldTask] = [
        *(study.store.read(Task, batch) if batch else study.store.read(Task)),
        *(study.store.read(ToldTask, batch) if batch else study.store.read(ToldTask)),
    ]
    expecting = {row.task_id for row in told if row.has_expected}
    expected = frozenset(name for name, task in own.items() if task in expecting)
    return Known(context_of(study, target, runs, outcomes_known=True), dict(diffs), expected)


def analyst_section(study: Study) -> Analyst:
    """Return the section `analyst`, with prices where its models are known and it names none."""
    return with_prices(study.settings.analyst, reading_models(study))


def reading_models(study: Study) -> list[str]:
    """Return the models that read runs, by name."""
    settings = study.settings
    proposing = settings.discovery.model if settings.discovery.analyst != "detectors" else ""
    return sorted({proposing, settings.labels.model, settings.triage.model} - {""})


def writing_models(study: Study) -> list[str]:
    """Return the models that write environments and judge them, by name."""
    section = study.settings.synthesis
    return sorted({section.model if section.writer != "recipe" else "", section.judge} - {""})


@contextmanager
def open_model(
    study: Study,
    asset: str,
    partition: str = "",
    known: Sequence[Capability] = (),
    contexts: Mapping[str, Context] | None = None,
    told: Mapping[str, Known] | None = None,
) -> Iterator[tuple[ModelAnalyst, ModelServer]]:
    """Open the model analyst for one stage: takes the home's account, and books what was spent at the end.

    Args:
        study: Its settings name the server and the models.
        asset: For which it is spent.
        partition: The same.
        known: The dictionary as it is, for discovery.
        contexts: By target: what its agent knew, see `context_of`.
        told: By target: what discovery is told beside the runs.

    Raises:
        InputError: No server is set, and no recording.
    """
    settings, section = study.settings, analyst_section(study)
    with open_account(study.store, study.home.answers, section, asset, partition) as account:
        server = ModelServer(section, Answers(study.home.answers), account)
        yield ModelAnalyst(server, settings.discovery, settings.labels, known, contexts, told), server


def model_figures(server: ModelServer) -> dict[str, Figure]:
    """Return what a stage's calls were and cost, under stable names."""
    refused: dict[str, Figure] = {"server_refuses": ", ".join(sorted(server.refused))}
    refused = refused if server.refused else {}
    if server.recording is not None and server.recording.replays:
        refused |= {"replayed_answers": server.recording.replayed}
        refused |= {"recorded_on": str(server.recording.origin.get("server", ""))}
    return {**server.account.figures, "remembered_answers": server.remembered, **refused}


# Whose runs are diagnosed: those of one policy where the settings name one, without tasks that are put aside.


def chosen_policy(wanted: str, known: Collection[str]) -> str:
    """Return the policy that a name means: itself, or the only one that begins so, provider or not.

    Args:
        wanted: A name or its beginning.
        known: All policies that played.

    Raises:
        InputError: None or several begin so.
    """
    return chosen_name("policy", wanted, known)


def players(study: Study) -> set[str]:
    """Return all policies that played, as `Triage.policy` names them."""
    heads = study.store.frame(TrajectoryHead).select("policy", "adapter").unique()
    return {player(policy, adapter) for policy, adapter in heads.iter_rows()}


def counted_outcomes(study: Study) -> list[Triage]:
    """Return outcomes that enter discovery and contrast.

    Raises:
        InputError: `triage.policy` names no policy.
    """
    aside = aside_tasks(study)
    rows = [row for row in study.store.read(Triage) if row.task_id not in aside]
    if study.settings.triage.policy and rows:
        who = chosen_policy(study.settings.triage.policy, players(study))
        rows = [row for row in rows if row.policy == who]
    return rows


def by_target(trajectories: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
    """Group trajectories by target, targets sorted."""
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    for one in trajectories:
        groups[one.target].append(one)
    return dict(sorted(groups.items()))


# What a contrast rests on, target by target: candidates, labels and outcomes.


@dataclass(frozen=True)
class Evidence:
    """What one target's contrast rests on.

    Attributes:
        target: Its name.
        capabilities: Candidates.
        labels: Of every run with every candidate.
        triage: Outcomes that count.
        lucky: Passes that are left out of `triage`, as the settings have it.
    """

    target: str
    capabilities: list[Capability]
    labels: list[Label]
    triage: list[Triage]
    lucky: frozenset[str] = frozenset()
    causes: list[LackCause] = field(default_factory=list)


def evidence_by_target(study: Study, *, with_causes: bool = False) -> list[Evidence]:
    """Return candidates, labels and outcomes by target, and which lacks decided an end if that is asked for.

    Outcomes of the half that proposed are left out, those of tasks that are put aside, and the lucky passes
    of the kinds that `triage.lucky_passes` names.
    """
    candidates: dict[str, list[Capability]] = defaultdict(list)
    for row in study.store.read(Capability):
        candidates[row.target].append(row)
    target_of = {row.capability_id: row.target for own in candidates.values() for row in own}
    labels: dict[str, list[Label]] = defaultdict(list)
    for label in study.store.read(Label):
        if label.capability_id in target_of:
            labels[target_of[label.capability_id]].append(label)
    causes: dict[str, list[LackCause]] = defaultdict(list)
    for cause in study.store.read(LackCause) if with_causes else ():
        causes[cause.target].append(cause)
    triage = counted_outcomes(study)
    lucky = {row.trajectory_id for row in study.store.read(LuckyPass) if row.aside}
    found = []
    for target in sorted(labels):
        rows = estimation_share((row for row in triage if row.target == target), candidates[target])
        left_out = frozenset(row.trajectory_id for row in rows) & lucky
        counted = [row for row in rows if row.trajectory_id not in left_out]
        found.append(Evidence(target, candidates[target], labels[target], counted, left_out, causes[target]))
    return found


def judge_section(study: Study) -> Analyst:
    """Return the server of `[writer]`, with the judge's prices where it has none."""
    return with_prices(study.settings.writer_server, writing_models(study))


class JudgeServer(ModelServer):
    """The analyst's client under the writer's address."""

    setting = "writer.base_url"


@dataclass
class JudgeDesk:
    """Asks the judge about one capability's environment, and sums up what that was and cost.

    The account is held only while asking, so that playing episodes keeps nobody waiting.

    Attributes:
        model: Who is asked.
        unanswered: Why questions stayed open, in the order in which they did.
    """

    study: Study
    capability_id: str
    asset: str
    model: str
    unanswered: list[str] = field(default_factory=list)
    sums: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0

    def ask(self, question: Question[A]) -> A:
        """Return the answer to a question, from memory where it was asked before.

        Raises:
            NotJudged: There is none: the cap was reached, the model refused, or it said nothing of use.
            Unavailable: The server cannot be used, or what it would say is not recorded.
        """
        home, section = self.study.home, judge_section(self.study)
        where = (self.study.store, home.answers, section, self.asset, self.capability_id, "synthesis")
        with open_account(*where) as account:
            server = JudgeServer(section, Answers(home.answers), account)
            try:
                answer = server.ask_alone(question)
            except Unanswered as error:
                raise self._open(_why(error.reason)) from None
            except InputError as error:
                # An audit takes an InputError for the environment's fault, and this one never is.
                raise Unavailable(str(error)) from error
            finally:
                self._add(account.figures, server.remembered)
        if answer is None:
            raise self._open("the cap on spending was reached: raise writer.cap_usd (or cap_calls)")
        return answer

    def _open(self, why: str) -> NotJudged:
        self.unanswered.append(why)
        return NotJudged(why)

    def _add(self, figures: dict[str, int | float], remembered: int) -> None:
        self.cost_usd += float(figures["cost_usd"])
        self.sums.update({name: int(value) for name, value in figures.items() if name != "cost_usd"})
        self.sums["remembered_answers"] += remembered

    @property
    def figures(self) -> dict[str, int | float]:
        """What a person sees of it on the asset."""
        sums = {f"judge_{name}": number for name, number in sorted(self.sums.items())}
        return {**sums, "judge_cost_usd": round(self.cost_usd, 6)} if sums else {}


def _why(reason: str) -> str:
    if reason == "full":
        return "the question does not fit the model's context"
    if reason == "cut":
        return "its answers were cut off: raise writer.reply_tokens"
    return f"the model gave no usable answer ({reason})"


def open_judge(study: Study, capability_id: str, asset: str) -> JudgeDesk | None:
    """Return the judge that the settings name, None where they name none.

    Raises:
        InputError: They name a judge and no server.
    """
    model, section = study.settings.synthesis.judge, judge_section(study)
    if model and not section.base_url and not section.recording:
        raise InputError(
            "a model that judges environments needs a server: set writer.base_url (or analyst.base_url), "
            "such as http://127.0.0.1:8000/v1."
        )
    return JudgeDesk(study, capability_id, asset, model) if model else None
