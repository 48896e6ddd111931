"""Environments by a language model: the first draft, and versions that mend what an audit found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trace_assets.code_versions import code_version
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.prompt import first_request, instructions, mending_request
from trace_assets.environments.writers.reply import Found, ModuleQuestion, Reply, find_mended
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, EnvironmentCheck, FailedCheck
from trace_assets.settings import Synthesis

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
