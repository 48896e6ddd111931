"""The stage `environment`: a module a capability, by recipe or by a model that mends what an audit finds."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, Environment, EnvironmentVersion
from trace_assets.stages.contract import read_contract
from trace_assets.stages.environment_writers import WriterDesk, examiner, open_model_writer
from trace_assets.stages.result import Figure, StageCheck, StageResult
from trace_assets.stages.synthesis import sandbox_pool
from trace_assets.study import Study
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.drafting import Drafted, draft_environment
from trace_assets.environments.writers.llm_writer import NotAnswered
from trace_assets.environments.writers.writer import environment_of, write_environment


def write_capability_environment(study: Study, capability_id: str) -> StageResult:
    """Write one capability's environment module into the table `environments`, every version beside it.

    A capability for which no writer fits gets none: the reason is kept, and nothing is trained for it. Where
    a model gave up, its best version is written, and the audit rejects it.

    Raises:
        InputError: The capability was not specified yet.
        TraceError: The model's server, the cap or the sandbox stopped it; what was answered is kept.
    """
    specs = study.store.read(CapabilitySpec, capability_id)
    if not specs:
        raise InputError(
            f"there is no specification of capability '{capability_id}' yet; run `trace sync --select "
            "capability_spec` first."
        )
    spec, section = specs[0], study.settings.synthesis
    try:
        contract = read_contract(study, spec.target)
    except InputError as error:
        return _refused(study, capability_id, str(error))
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
        held_to, remarks = examiner(study, contract, pool)
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
