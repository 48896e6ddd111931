"""The asset `environment`: a module a capability, by recipe or by a model that mends what an audit finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import polars as pl

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.code_versions import code_version
from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.client import Unanswered
from trace_assets.diagnosis.llm.prices import with_prices
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.drafting import (
    Drafted,
    Examiner,
    ModelWriter,
    NotAnswered,
    draft_environment,
)
from trace_assets.environments.writers.prompt import excerpts, pick
from trace_assets.environments.writers.reply import ModuleQuestion, ModuleServer, Reply
from trace_assets.environments.writers.writer import environment_of, write_environment
from trace_assets.errors import CheckFailed, InputError, Unavailable
from trace_assets.policies.protocol import Policy
from trace_assets.records import CapabilitySpec, Environment, EnvironmentCheck, EnvironmentVersion, Label
from trace_assets.records.table import from_frame
from trace_assets.resources.analysts import open_judge
from trace_assets.resources.contract import purpose_of, read_contract, rollout_obstacle
from trace_assets.resources.divided_audit import divided_rollouts
from trace_assets.resources.policy import open_policy, policy_home
from trace_assets.resources.sandbox import permutation_for, sandbox_pool
from trace_assets.sandbox import SandboxPool
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


@asset(
    "environment",
    group="synthesis",
    records=(Environment, EnvironmentVersion),
    deps=["capability_spec", "decision_patterns", "target_contract", "config/synthesis"],
    partitions="capability",
    checks={"environment_written": "A writer fits the capability."},
    kinds=("parquet", "python"),
    light=True,
)
def write_capability_environment(study: Study, capability_id: str) -> StageResult:
    """A module that teaches one capability: tools, reset, step, verdict and oracle.

    Raises:
        InputError: The capability was not specified yet, or its target has no contract.
        TraceError: The model's server, the cap or the sandbox stopped it; what was answered is kept.
    """
    specs = study.store.read(CapabilitySpec, capability_id)
    if not specs:
        raise InputError(
            f"there is no specification of capability '{capability_id}' yet; run `trace sync --select "
            "capability_spec` first."
        )
    spec, section = specs[0], study.settings.synthesis
    contract = read_contract(study, spec.target)  # without one nothing was tried: that is no result
    if section.writer == "model":
        return _by_model(study, spec, contract)
    try:
        environment = write_environment(spec, contract)
    except InputError as error:
        if section.writer != "auto" or not section.model:
            return _refused(study, capability_id, str(error))
        no_recipe = str(error)
    else:
        return _by_recipe(study, environment)
    return _by_model(study, spec, contract, no_recipe)


def _by_recipe(study: Study, environment: Environment) -> StageResult:
    """Keep what a recipe wrote as the only version."""
    row = EnvironmentVersion(
        capability_id=environment.capability_id,
        round=0,
        environment_id=environment.environment_id,
        source=environment.source,
        writer=environment.writer,
        kept=True,
        outcome="written from a recipe.",
    )
    study.store.write([row], EnvironmentVersion, environment.capability_id)
    check = StageCheck("environment_written", True, f"written by {environment.writer}.")
    return _written(study, environment, check, {})


def _by_model(
    study: Study, spec: CapabilitySpec, contract: TargetContract, no_recipe: str = ""
) -> StageResult:
    """Have a model write it."""
    name, store = spec.capability_id, study.store
    desk = WriterDesk(study, name)
    writer = open_model_writer(study, spec, desk)
    known = store.read(EnvironmentVersion, name)

    def save(versions: Sequence[EnvironmentVersion]) -> None:
        store.write(versions, EnvironmentVersion, name)

    with sandbox_pool(study) as pool:
        held_to, remarks = examiner(study, contract, pool, name)
        try:
            drafted = draft_environment(
                writer, spec, contract, study.settings.synthesis, held_to, known=known, save=save
            )
        except NotAnswered as error:
            return _refused(study, name, str(error), desk.figures)
        isolation = pool.isolation_level
    figures: dict[str, Figure] = {
        **desk.figures,
        "versions": len(drafted.versions),
        "accepted_by_repair_audit": drafted.accepted,
        "isolation_level": isolation,
        **({"no_recipe": no_recipe} if no_recipe else {}),
        **({"remarks": "; ".join(remarks)} if remarks else {}),
    }
    if drafted.best is None:
        return _refused(study, name, drafted.outcome, figures, drafted)
    environment = environment_of(spec, drafted.best.source, drafted.best.writer, len(drafted.versions))
    check = StageCheck("environment_written", drafted.accepted, drafted.outcome, "warning")
    return _written(study, environment, check, figures, drafted)


def _written(
    study: Study,
    environment: Environment,
    check: StageCheck,
    figures: dict[str, Figure],
    drafted: Drafted | None = None,
) -> StageResult:
    version = study.store.write([environment], Environment, environment.capability_id)
    return StageResult(
        version,
        1,
        {
            "writer": environment.writer,
            "environment_id": environment.environment_id,
            "lines": environment.source.count("\n"),
            **figures,
        },
        pages={"code": _code(environment.source), **(_pages(drafted) if drafted else {})},
        tables={"versions": _table(drafted)} if drafted else {},
        checks=(check,),
    )


def _refused(
    study: Study,
    capability_id: str,
    reason: str,
    figures: dict[str, Figure] | None = None,
    drafted: Drafted | None = None,
) -> StageResult:
    version = study.store.write([], Environment, capability_id)
    if drafted is None:
        study.store.write([], EnvironmentVersion, capability_id)
    check = StageCheck("environment_written", False, reason, "warning")
    tables = {"versions": _table(drafted)} if drafted else {}
    return StageResult(version, 0, {"refused": True, **(figures or {})}, tables=tables, checks=(check,))


def _table(drafted: Drafted) -> list[dict[str, Figure]]:
    """Return one row a version."""
    return [
        {
            "round": one.round,
            "reply": one.reply,
            "environment_id": one.environment_id,
            "passed": one.n_passed,
            "failed": ", ".join(failed.check_id for failed in one.failed),
            "prompt_tokens": one.prompt_tokens,
            "completion_tokens": one.completion_tokens,
            "kept": one.kept,
        }
        for one in drafted.versions
    ]


def _pages(drafted: Drafted) -> dict[str, str]:
    """Return the source of every version that was not kept."""
    return {
        f"version {one.round}": _code(one.source) for one in drafted.versions if one.source and not one.kept
    }


def _code(source: str) -> str:
    """Return a source as Markdown, in a fence that it cannot close."""
    mark = "```"
    while mark in source:
        mark += "`"
    return f"{mark}python\n{source}\n{mark}"


# The model behind `synthesis.writer`: what it is shown, whom it asks, and what a draft is held to.


ASSET = "environment"


@dataclass
class WriterDesk:
    """Asks the server of `[writer]` for one capability, and sums up what that was and cost."""

    study: Study
    capability_id: str
    sums: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0

    def ask(self, question: ModuleQuestion) -> Reply:
        """Return the reply to a question, from memory where it was asked before.

        The account is held only while asking, so that audits do not keep labelling waiting.

        Raises:
            NotAnswered: The question does not fit the context, or the server fails on it alone.
            CheckFailed: The cap was reached; what was answered is kept.
            TraceError: The server cannot be used.
        """
        home = self.study.home
        section = with_prices(self.study.settings.writer_server, (self.study.settings.synthesis.model,))
        if not section.base_url and not section.recording:
            raise InputError(
                "a model that writes environments needs a server: set writer.base_url (or analyst.base_url), "
                "such as http://127.0.0.1:8000/v1."
            )
        where = (self.study.store, home.answers, section, ASSET, self.capability_id, "synthesis")
        with open_account(*where) as account:
            server = ModuleServer(section, Answers(home.answers), account)
            try:
                answer = server.ask_alone(question)
            except Unanswered as error:
                raise NotAnswered(self._unanswered(error.reason)) from None
            finally:
                self._add(account.figures, server.remembered)
        if answer is None:
            raise CheckFailed(
                f"the cap on spending was reached while the environment of '{self.capability_id}' was "
                "written: what was answered is kept; raise writer.cap_usd (or cap_calls) and run it again."
            )
        return answer

    def _unanswered(self, reason: str) -> str:
        if reason == "full":
            return (
                f"the prompt for '{self.capability_id}' does not fit the model's context: lower "
                "synthesis.contract_tokens, synthesis.excerpts or synthesis.excerpt_tokens."
            )
        return f"the model gave no answer for '{self.capability_id}': {reason}."

    def _add(self, figures: dict[str, int | float], remembered: int) -> None:
        self.cost_usd += float(figures["cost_usd"])
        self.sums.update({name: int(value) for name, value in figures.items() if name != "cost_usd"})
        self.sums["remembered_answers"] += remembered

    @property
    def figures(self) -> dict[str, Figure]:
        """What a person sees of it on the asset."""
        return {**dict(sorted(self.sums.items())), "cost_usd": round(self.cost_usd, 6)}


def open_model_writer(study: Study, spec: CapabilitySpec, desk: WriterDesk) -> ModelWriter:
    """Return the model writer of a study for one capability."""
    shown, shown_of = shown_excerpts(study, spec)
    return ModelWriter(desk.ask, study.settings.synthesis, shown, shown_of)


def shown_excerpts(study: Study, spec: CapabilitySpec) -> tuple[str, str]:
    """Return the transcripts that the writer is shown, and what they were chosen for.

    Those of an earlier run for the same capability are taken again: labels of new batches illustrate no
    better, and would ask every question anew. For the same reason nothing depends on the labels.
    """
    section = study.settings.synthesis
    shown_of = text_version(
        spec.name, spec.description, f"{section.excerpts}/{section.excerpt_tokens}", section.model
    )
    for row in study.store.read(EnvironmentVersion, spec.capability_id):
        if row.excerpts_of == shown_of:
            return row.excerpts, shown_of
    if not section.excerpts:
        return "", shown_of
    rows = study.store.frame(Label).filter(
        (pl.col("capability_id") == spec.capability_id) & pl.col("label").is_in(["PRESENT", "LACKING"])
    )
    trajectories = read_trajectories(study.store, target=spec.target) if rows.height else []
    chosen = pick(from_frame(rows, Label), trajectories, section.excerpts)
    return excerpts(chosen, section.excerpt_tokens), shown_of


def examiner(
    study: Study, contract: TargetContract, pool: SandboxPool, capability_id: str
) -> tuple[Examiner, list[str]]:
    """Return how drafts are audited, and a list that will hold remarks on it.

    The base policy is rolled out, and the judge asked, only for a draft that has nothing else against it. The
    policy was made before: the target's contract is read off its trajectories.
    """
    section, remarks = study.settings.synthesis, list[str]()
    obstacle = rollout_obstacle(study, contract.target)
    judge = open_judge(study, capability_id, ASSET)
    base = _base_policy(study, remarks) if section.mend_with_base and not obstacle else None
    purpose = purpose_of(study, capability_id)
    identity = text_version(
        code_version("environment_audit"),
        *(one.model_dump_json() for one in ([purpose.spec, *purpose.runs] if purpose else [])),
        contract.fingerprint(),
        pool.version,
        section.fingerprint(),
        _home_of_base(study) if base else "",
    )

    def examine(environment: Environment) -> Sequence[EnvironmentCheck]:
        permutation = permutation_for(study, environment.environment_id)
        return audit(
            environment,
            pool,
            contract,
            # A question that stayed open is no fault that a writer could mend; the audit proper says it.
            section.model_copy(update={"no_verdict": "warn"}),
            permutation=permutation,
            purpose=purpose,
            judge=judge,
            late_policy=base,
            elsewhere=divided_rollouts(study),
        )

    return Examiner(examine, verdict_of, identity, pool.isolation_level), remarks


def _base_policy(study: Study, remarks: list[str]) -> Callable[[], Policy | None]:
    @cache
    def opened() -> Policy | None:
        try:
            return open_policy(study)
        except (InputError, Unavailable) as error:
            remarks.append(f"drafts were not rolled out on: {error}")
            return None

    return opened


def _home_of_base(study: Study) -> str:
    try:
        return policy_home(study)
    except InputError:
        return ""
