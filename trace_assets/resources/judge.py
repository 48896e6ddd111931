"""The model that judges environments: paid from the home's account, its answers remembered and recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.client import Answers, ModelServer, Unanswered
from trace_assets.diagnosis.llm.prices import with_prices
from trace_assets.diagnosis.llm.request import A, Question
from trace_assets.environments.audit.check import NotJudged
from trace_assets.errors import InputError, Unavailable
from trace_assets.settings import Analyst
from trace_assets.study import Study


def judge_section(study: Study) -> Analyst:
    """Return the server of `[writer]`, with the judge's prices where it has none."""
    named = (study.settings.synthesis.judge, study.settings.synthesis.model)
    return with_prices(study.settings.writer_server, named)


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
