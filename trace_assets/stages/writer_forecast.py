"""What a model that writes environments will cost, before it is asked."""

from __future__ import annotations

from trace_assets.diagnosis.model.account import price
from trace_assets.diagnosis.model.answers import Answers
from trace_assets.diagnosis.model.view import estimate_tokens
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, SelectedCapability
from trace_assets.stages.contract import read_contract
from trace_assets.stages.environment_writers import WriterDesk, open_model_writer
from trace_assets.stages.forecast import Forecast
from trace_assets.study import Study
from trace_assets.synthesis.writers.writer import write_environment

MODULE_TOKENS = 6000
"""Of one module in a reply: a guess. Recipes' modules have 4,000 to 8,000."""
EVIDENCE_TOKENS = 1500
"""Of the failed checks in a request to mend."""


def forecast_environments(study: Study) -> list[Forecast]:
    """Forecast the calls for the environments of all kept capabilities.

    Nothing is asked. What is remembered is left out.

    Returns:
        Two rows a capability that a model writes: if the first draft is accepted, and at the most, with every
        round of mending. Replies that are cut off and continued are not foreseen.

    Raises:
        InputError: No model is set.
    """
    section = study.settings.synthesis
    if section.writer == "recipe" or not section.model:
        raise InputError(
            "no model writes environments: set synthesis.writer to model or auto, and synthesis.model."
        )
    rows: list[Forecast] = []
    kept = sorted(row.capability_id for row in study.store.read(SelectedCapability) if row.kept)
    for name in kept:
        specs = study.store.read(CapabilitySpec, name)
        if specs:
            rows += _rows(study, specs[0])
    return rows


def _rows(study: Study, spec: CapabilitySpec) -> list[Forecast]:
    section = study.settings.synthesis
    try:
        contract = read_contract(study, spec.target)
    except InputError:
        return []  # none will be written
    if section.writer == "auto" and _has_recipe(study, spec):
        return []
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


def _row(study: Study, name: str, calls: int, prompt: int, known: bool) -> Forecast:
    completion = calls * MODULE_TOKENS
    usd = price(study.settings.writer_server, prompt, completion)
    assumed = f"{MODULE_TOKENS:,} tokens a module" + ("; later answers may be remembered" if known else "")
    return Forecast(name, calls - known, int(known), prompt, completion, usd, assumed)


def _has_recipe(study: Study, spec: CapabilitySpec) -> bool:
    try:
        write_environment(spec, read_contract(study, spec.target))
    except InputError:
        return False
    return True
