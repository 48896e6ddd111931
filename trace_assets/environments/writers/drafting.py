"""Write, audit, mend: until the audit has nothing against a version, or the rounds are used up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trace_assets.code_versions import code_version
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.prompt import first_request, instructions, mending_request
from trace_assets.environments.writers.reply import Found, ModuleQuestion, Reply, find_mended, parses, problem
from trace_assets.environments.writers.writer import environment_id, environment_of
from trace_assets.errors import InputError
from trace_assets.records import (
    CapabilitySpec,
    Environment,
    EnvironmentCheck,
    EnvironmentVersion,
    FailedCheck,
)
from trace_assets.settings import Synthesis

# Environments by a language model: the first draft, and versions that mend what an audit found.


Ask = Callable[[ModuleQuestion], Reply]

NO_MODULE = "trace.reply"
"""Check id under which a reply without a usable module is held against a round."""


class NotAnswered(InputError):
    """A question got no answer, such as one that does not fit the model's context."""


class ModelWriter:
    """Asks a model. What it says is text to this process: it is parsed, never run.

    Args:
        ask: Asks a question, or remembers its answer.
        section: Which model, and what it is shown.
        excerpts: Transcripts that show the lack and the presence.
        excerpts_of: What they were chosen for, kept beside them.

    Attributes:
        question: The last question that was asked.
        reply: The reply to it.
        found: The module in that reply, or the last version with the changes in it.
    """

    def __init__(self, ask: Ask, section: Synthesis, excerpts: str = "", excerpts_of: str = "") -> None:
        if not section.model:
            raise InputError("no model is set that writes environments: set synthesis.model.")
        self._ask, self._section = ask, section
        self.excerpts, self.excerpts_of = excerpts, excerpts_of
        self._earlier: list[list[str]] = []
        self.question: ModuleQuestion | None = None
        self.reply = Reply(text="")
        self.found = Found("empty")

    @property
    def name(self) -> str:
        """`model:<name>`."""
        return f"model:{self._section.model}"

    @property
    def version(self) -> str:
        """Version of the prompts and of what fills them."""
        return code_version("prompts of the writer")

    def write(self, spec: CapabilitySpec, contract: TargetContract) -> str:
        """Ask for a first draft.

        Returns:
            The module; empty where the reply held none, which `found` explains.

        Raises:
            NotAnswered: It does not fit, or the server fails on it alone.
            TraceError: The server cannot be used, or the cap was reached.
        """
        self._earlier = []
        return self._said(self.first_question(spec, contract))

    def first_question(self, spec: CapabilitySpec, contract: TargetContract) -> ModuleQuestion:
        """Return the question for a first draft, without asking it."""
        return self._question("write", contract, first_request(spec, self.excerpts))

    def mend(
        self,
        spec: CapabilitySpec,
        contract: TargetContract,
        source: str,
        failed: Sequence[EnvironmentCheck | FailedCheck],
    ) -> str:
        """Ask for changes to a version, or for another one; see `write`.

        Args:
            spec: As for `write`.
            contract: As for `write`.
            source: The version that was not accepted; empty where there was no module.
            failed: What was held against it.
        """
        told = [_told(one) for one in failed]
        request = mending_request(
            spec,
            self.excerpts,
            source=source,
            failed=told,
            round_number=len(self._earlier) + 1,
            rounds=self._section.mend_rounds,
            earlier=self._earlier,
        )
        self._earlier.append([one.check_id for one in told])
        return self._said(self._question("mend", contract, request), source)

    def _question(self, kind: str, contract: TargetContract, request: str) -> ModuleQuestion:
        return ModuleQuestion(
            kind="write" if kind == "write" else "mend",
            model=self._section.model,
            system=instructions(contract, self._section.contract_tokens),
            user=request,
            schema=Reply,
            temperature=self._section.temperature,
            seed=self._section.seed,
        )

    def _said(self, question: ModuleQuestion, source: str = "") -> str:
        self.question, self.reply = question, self._ask(question)
        self.found = find_mended(self.reply.text, source, cut=self.reply.cut)
        return self.found.source


def _told(failed: EnvironmentCheck | FailedCheck) -> FailedCheck:
    """Return what of a finding is told: nothing that a clock measured."""
    if isinstance(failed, FailedCheck):
        return failed
    return FailedCheck(
        check_id=failed.check_id, severity=failed.severity, evidence=failed.evidence, bound=failed.bound
    )


LONGEST_EVIDENCE = 2000
"""Characters of evidence that are kept of a failed check; prompts hold fewer."""

Audit = Callable[[Environment], Sequence[EnvironmentCheck]]
Verdict = Callable[[Sequence[EnvironmentCheck]], tuple[bool, tuple[str, ...]]]


@dataclass(frozen=True)
class Examiner:
    """How a version is audited while it is being written.

    Attributes:
        audit: Runs the battery, in the sandbox only.
        verdict: Says whether findings accept it.
        identity: What the findings depend on beside the source: versions of audit, contract and sandbox.
        isolation_level: Of the sandbox.
    """

    audit: Audit
    verdict: Verdict
    identity: str
    isolation_level: str


@dataclass(frozen=True)
class Drafted:
    """What became of it.

    Attributes:
        versions: Every version in order.
        best: The accepted one, or the one with which it was given up; None where no reply held a module.
        accepted: Whether the repair audit had nothing against it.
        outcome: Why it ended, in a sentence.
    """

    versions: tuple[EnvironmentVersion, ...]
    best: EnvironmentVersion | None
    accepted: bool
    outcome: str


def draft_environment(
    writer: ModelWriter,
    spec: CapabilitySpec,
    contract: TargetContract,
    section: Synthesis,
    examiner: Examiner,
    *,
    known: Sequence[EnvironmentVersion] = (),
    save: Callable[[Sequence[EnvironmentVersion]], None] = lambda _: None,
) -> Drafted:
    """Have an environment written and mended.

    Args:
        writer: The model.
        spec: The capability.
        contract: Of its target.
        section: How many rounds.
        examiner: Audits a version.
        known: Versions of an earlier run that was stopped or is made again: one with the same source and
            the same examiner is not audited twice, so that the same questions follow.
        save: Told of all versions after each round, so that a kill loses none.

    Raises:
        TraceError: The server, the cap or the sandbox: nothing is given up for that.
    """
    versions: list[EnvironmentVersion] = []
    stopped, standing, against = "", "", tuple[FailedCheck, ...]()
    source = writer.write(spec, contract)
    while True:
        versions.append(_examined(writer, spec, source, len(versions), examiner, known, versions))
        save(versions)
        if versions[-1].accepted or len(versions) > section.mend_rounds:
            break
        failed = versions[-1].failed
        if versions[-1].reply == "unapplied":  # the version before still stands, and what is against it
            failed = (*failed, *against)
        else:
            standing, against = source, failed
        try:
            source = writer.mend(spec, contract, standing, failed)
        except NotAnswered as error:
            stopped = str(error)
            break
    best = max((one for one in versions if one.source), key=_worth, default=None)
    accepted = versions[-1].accepted
    outcome = _outcome(versions, best, accepted) + (f" {stopped}" if stopped else "")
    final = tuple(
        one.model_copy(
            update={
                "kept": best is not None and one.round == best.round,
                "outcome": outcome if one is versions[-1] else "",
            }
        )
        for one in versions
    )
    save(final)
    return Drafted(final, next((one for one in final if one.kept), None), accepted, outcome)


def _examined(
    writer: ModelWriter,
    spec: CapabilitySpec,
    source: str,
    number: int,
    examiner: Examiner,
    known: Sequence[EnvironmentVersion],
    before: Sequence[EnvironmentVersion],
) -> EnvironmentVersion:
    row = EnvironmentVersion(
        capability_id=spec.capability_id,
        round=number,
        environment_id=environment_id(source) if source else "",
        source=source,
        writer=writer.name,
        prompt_version=writer.version,
        question=writer.question.key if writer.question else "",
        reply=writer.found.kind,
        remark=writer.found.remark,
        prompt_tokens=writer.reply.prompt_tokens,
        completion_tokens=writer.reply.completion_tokens,
        excerpts=writer.excerpts,
        excerpts_of=writer.excerpts_of,
    )
    if not source or not parses(source):
        return row.model_copy(update={"failed": (_unusable(row),)})
    for one in (*before, *known):
        if one.environment_id == row.environment_id and one.audited == examiner.identity:
            found = ("failed", "n_passed", "audited", "isolation_level", "accepted")
            return row.model_copy(update={name: getattr(one, name) for name in found})
    checks = examiner.audit(environment_of(spec, source, writer.name, number + 1))
    accepted, reasons = examiner.verdict(checks)
    failed = [
        FailedCheck(
            check_id=one.check_id,
            severity=one.severity,
            evidence=one.evidence[:LONGEST_EVIDENCE],
            bound=one.bound,
        )
        for one in checks
        if one.status == "fail"
    ]
    if not accepted and not any(one.severity == "error" for one in failed):
        words = "; ".join(reasons)[:LONGEST_EVIDENCE]
        failed.append(FailedCheck(check_id="trace.verdict", severity="error", evidence=words))
    return row.model_copy(
        update={
            "failed": tuple(failed),
            "n_passed": sum(one.status == "pass" for one in checks),
            "audited": examiner.identity,
            "isolation_level": examiner.isolation_level,
            "accepted": accepted,
        }
    )


def _unusable(row: EnvironmentVersion) -> FailedCheck:
    """Say why a reply cannot be audited at all; nothing of it is run."""
    said = f': "{row.remark}"' if row.remark else ""
    words = {
        "module": f"the module cannot be parsed: {problem(row.source)}",
        "cut": "the reply was cut off before the module ended; write a shorter module",
        "empty": "the reply was empty",
        "refusal": f"the reply refused to write a module{said}",
        "no_code": f"the reply held no Python module{said}",
        "unapplied": f"nothing was changed: {row.remark}",
    }
    bound = "one whole Python module in a code block"
    return FailedCheck(check_id=NO_MODULE, severity="error", evidence=words[row.reply], bound=bound)


def _worth(row: EnvironmentVersion) -> tuple[bool, int, int, int]:
    """Order versions: accepted, then most checks passed, then fewest errors, then the latest."""
    errors = sum(one.severity == "error" for one in row.failed)
    return row.accepted, row.n_passed, -errors, row.round


def _outcome(versions: Sequence[EnvironmentVersion], best: EnvironmentVersion | None, accepted: bool) -> str:
    rounds = len(versions) - 1
    if accepted:
        return f"accepted by the repair audit after {rounds} rounds of mending."
    if best is None:
        last = versions[-1].failed[0].evidence
        return f"given up after {rounds} rounds of mending: no reply held a module; at last {last}."
    errors = [one.check_id for one in best.failed if one.severity == "error"]
    named = ", ".join(errors[:4]) + (f" and {len(errors) - 4} more" if len(errors) > 4 else "")
    return (
        f"given up after {rounds} rounds of mending: version {best.round} is the best of {len(versions)}, "
        f"and {named or 'its verdict'} still stands against it."
    )
