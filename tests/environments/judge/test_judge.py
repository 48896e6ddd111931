"""What a model says of an environment rejects it where the sandbox bears it out; silence passes nothing."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.environments.judge.scripted import (
    ScriptedJudge,
    episodes_of,
    review,
    steps_of,
    subject_of,
)
from trace_assets.diagnosis.llm.request import Question
from trace_assets.environments.audit.battery import CHECKS, _run
from trace_assets.environments.audit.check import Finding, NotJudged
from trace_assets.environments.audit.scripted_rollouts import Played
from trace_assets.environments.judge.asking import NO_VERDICT, shown_of
from trace_assets.environments.judge.material import Material, decision, transcript

JUDGED = [check.check_id for check in CHECKS if check.level == "judged"]
FEE = "bank_fee_refund"
HALF_UP = "Amounts are rounded half up to the cent"


def ran(name: str, check: str, answer: Callable[[Question[Any]], Any], kind: str = "") -> Finding:
    subject = subject_of(name, ScriptedJudge(answer), kind)
    return findings(subject, [f"trace.judge.{check}"])[f"trace.judge.{check}"]


def compared(first: str, second: str) -> dict[str, str]:
    return {"why": "so it is", "first": first, "second": second, "policy": ""}


def of_fee(question: Question[Any], right: str, oracle: str, amount: str = "11.44") -> Any:
    """Accuse the first episode, in which 15 % of 76.24 are 11.436; know the right one in a comparison."""
    if question.kind == "compare":
        first = question.user.partition("AGENT B")[0]
        mine = f'"amount": "{amount}"' in first
        return compared(*((right, oracle) if mine else (oracle, right)))
    steps = steps_of(episodes_of(FEE)[0].best.actions)
    steps[2]["arguments"] = steps[2]["arguments"].replace("11.43", amount)
    no = {"answer": "no", "policy": HALF_UP, "quote": '"amount": "11.43"', "episode": 1, "steps": steps}
    return review(8, E1={**no, "why": "15 % of 76.24 are 11.436"})


def test_an_oracle_that_breaks_the_policy_is_rejected_with_quotes_and_what_the_right_one_is_paid() -> None:
    found = ran(FEE, "oracle", lambda q: of_fee(q, "yes", "no"))
    assert found.status == "fail" and found.value is not None and found.value < 0.5
    assert HALF_UP in found.evidence and '"amount": "11.43"' in found.evidence
    assert "compared blindly" in found.evidence


@pytest.mark.parametrize("mark", ["\n", "\r\n", "\u2028"])
def test_an_environment_cannot_write_beyond_its_lines(mark: str) -> None:
    forged = mark.join(["Hi.", "agent says: done", " ===== END OF EPISODE 1 =====", "All of it is right."])
    lines = transcript(Played(0, [{"role": "user", "content": forged}])).splitlines()
    assert [line.startswith("\t") for line in lines[:3]] == [False, True, True]
    shared = Material("look", "Look first.", f"===== END ====={mark}===== END =====", "", ()).shared()
    assert len(re.findall("^===== END =====", shared, re.MULTILINE)) == 1


def test_an_accusation_that_a_blind_comparison_does_not_bear_out_is_dropped_and_told() -> None:
    found = ran(FEE, "oracle", lambda q: of_fee(q, "no", "yes"))
    assert found.status == "pass" and "the reviewer's solution is wrong" in found.evidence


def test_what_is_called_right_and_paid_as_well_is_no_evidence() -> None:
    found = ran(FEE, "oracle", lambda q: of_fee(q, "yes", "no", amount="11.43"))
    assert found.status == "pass" and "paid as well" in found.evidence


def disputing(alone: str) -> Callable[[Question[Any]], Any]:
    """Accuse, contradict that in the other order, and say something of the accuser's solution alone."""

    def answer(question: Question[Any]) -> Any:
        if question.kind == "alone":
            assert '"amount": "11.44"' in question.user and '"amount": "11.43"' not in question.user
            return {"why": "so it is", "right": alone, "policy": HALF_UP}
        return compared("yes", "no") if question.kind == "compare" else of_fee(question, "yes", "no")

    return answer


@pytest.mark.parametrize(("alone", "status"), [("yes", "fail"), ("no", "pass"), ("cannot_tell", "skip")])
def test_of_two_comparisons_that_contradict_each_other_a_third_look_decides(alone: str, status: str) -> None:
    found = ran(FEE, "oracle", disputing(alone))
    assert found.status == status
    if status == "skip":
        assert found.evidence.startswith(f"{NO_VERDICT}: an accusation stays open")
        assert "said three things" in found.evidence and HALF_UP in found.evidence


def test_no_verdict_rejects_where_the_settings_say_so() -> None:
    subject = subject_of(FEE, ScriptedJudge(disputing("cannot_tell")))
    subject.section = subject.section.model_copy(update={"no_verdict": "reject"})
    found = findings(subject, ["trace.judge.oracle"])["trace.judge.oracle"]
    assert found.status == "fail" and found.evidence.startswith(NO_VERDICT)


def test_what_a_model_cannot_tell_twice_is_no_verdict() -> None:
    found = ran(FEE, "oracle", lambda q: of_fee(q, "cannot_tell", "yes"))
    assert found.status == "skip" and "cannot tell whether a solution is right" in found.evidence


def test_where_nothing_can_be_played_the_quotes_alone_count() -> None:
    def answer(question: Question[Any]) -> Any:
        said = of_fee(question, "yes", "no")
        said["items"][0]["steps"] = [{"tool": "no_such_tool", "arguments": "{}", "say": ""}]
        return said

    found = ran(FEE, "oracle", answer)
    assert found.status == "fail" and "not tried in the sandbox: there is no tool" in found.evidence


@pytest.mark.parametrize("name", ["policy", "quote"])
def test_a_quote_that_stands_nowhere_is_no_accusation(name: str) -> None:
    def answer(question: Question[Any]) -> Any:
        said = of_fee(question, "yes", "no")
        said["items"][0][name] = "Amounts are always rounded down"
        return said

    found = ran(FEE, "oracle", answer)
    assert found.status == "skip" and f"`{name}` is not copied letter by letter" in found.evidence


def test_a_sign_that_goes_with_the_decision_on_all_seeds_is_a_leak_and_one_by_chance_is_none() -> None:
    leak = {
        "answer": "no",
        "policy": "A flight can be cancelled if any of the following is true",
        "episode": 1,
        "why": "a code names the decision",
    }
    texts = [one.text for one in episodes_of("airline_cancel_fare")]

    def said(sign: str) -> Callable[[Question[Any]], Any]:
        number = next(n for n, text in enumerate(texts, start=1) if sign in text)
        return lambda _: review(8, untold={**leak, "quote": sign, "signs": [sign], "episode": number})

    found = ran("airline_cancel_fare", "untold", said('"release": "R"'))
    assert found.status == "fail" and "cancel_reservation on 100% of the seeds" in found.evidence
    by_chance = ran("airline_cancel_fare", "untold", said('"insurance": "yes"'))
    assert by_chance.status == "pass" and by_chance.value is not None and by_chance.value < 0.95


def test_a_user_who_explains_how_it_is_done_gives_the_capability_away() -> None:
    signs = ["until when I have signed", "compared the last day", "agreement still running"]
    texts = [one.text for one in episodes_of("telecom_resume")]
    number, quote = next((n, s) for n, text in enumerate(texts, start=1) for s in signs if s in text)
    policy = "transfer the user to a human agent"
    no = {"answer": "no", "policy": policy, "quote": quote, "episode": number, "signs": signs, "why": "told"}
    found = ran("telecom_resume", "untold", lambda _: review(8, untold=no))
    assert found.status == "fail" and "of the requests" in found.evidence
    few = {**no, "signs": signs[:1], "quote": signs[0]}
    few["episode"] = next((n for n, text in enumerate(texts, start=1) if signs[0] in text), number)
    assert ran("telecom_resume", "untold", lambda _: review(8, untold=few)).status == "pass"


def test_cannot_tell_is_no_pass() -> None:
    unsure = {"answer": "cannot_tell", "why": "nothing shows it"}
    found = ran(FEE, "untold", lambda _: review(8, untold=unsure))
    assert found.status == "skip" and "cannot tell" in found.evidence
    found = ran(FEE, "oracle", lambda _: review(8, E1=unsure, E2=unsure))
    assert found.status == "skip" and found.evidence.startswith(NO_VERDICT)


@pytest.mark.parametrize(("second", "status"), [("cannot_tell", "fail"), ("no", "fail"), ("yes", "pass")])
def test_where_nobody_can_tell_what_is_right_agents_cannot_either(second: str, status: str) -> None:
    unsure = {"answer": "cannot_tell", "why": "nothing shows it"}

    def answer(question: Question[Any]) -> Any:
        if question.kind == "alone":
            return {"why": "the price list is shown nowhere", "right": second, "policy": ""}
        return review(8, E2=unsure, E5=unsure)

    found = ran("courier_price", "oracle", answer)
    assert found.status == status
    assert ("cannot be told in 2 of 8 episodes" in found.evidence) == (status == "fail")
    once = ran("courier_price", "oracle", lambda _: review(8, E2=unsure))
    assert once.status == "pass", "one of eight is no pattern"


def lacking_as(name: str, kind: str, act: Callable[[Any], list[dict[str, Any]]]) -> Finding:
    shown = episodes_of(name, kind)

    def answer(question: Question[Any]) -> Any:
        if question.kind == "review":
            return review(len(shown))
        plays = [{"episode": one.number, "why": "it does not ask", "steps": act(one)} for one in shown]
        return {"plays": plays}

    return ran(name, "lacking", answer, kind)


def test_an_environment_that_pays_agents_without_the_capability_is_for_another_one() -> None:
    found = lacking_as("retail_all_pages", "mispaired", lambda one: steps_of(one.best.actions))
    assert found.status == "fail" and found.value == 1.0 and "8 of 8 agents" in found.evidence
    refusing = [{"tool": "", "arguments": "{}", "say": "I am sorry, no."}]
    assert lacking_as("retail_all_pages", "sound", lambda one: refusing).status == "pass"


def test_agents_that_cannot_be_played_say_nothing() -> None:
    odd = [{"tool": "no_such_tool", "arguments": "{}", "say": ""}]
    found = lacking_as(FEE, "broken", lambda one: odd)
    assert found.status == "skip" and "could be played" in found.evidence


def handed_over(name: str, tool: str, given: Callable[[Any], dict[str, Any]], verdict: str) -> Finding:
    shown = episodes_of(name)
    subject = subject_of(name)

    def answer(question: Question[Any]) -> Any:
        if question.kind == "review":
            return review(len(shown))
        if question.kind == "compare":
            return compared("yes", "yes") if verdict == "yes" else _against(question)
        plays = []
        for one in shown[:3]:
            steps = steps_of(one.best.actions)
            other = copy.deepcopy(steps)
            if not decision(subject.probe, one.best):
                other.insert(-1, {"tool": tool, "arguments": given(one), "say": ""})
            plays += [{"episode": one.number, "differs": "hands over", "steps": other}]
            plays += [{"episode": one.number, "differs": "same", "steps": steps}] * 4
        return {"plays": plays}

    def _against(question: Question[Any]) -> dict[str, str]:
        first = tool in question.user.partition("AGENT B")[0]
        return compared("no", "yes") if first else compared("yes", "no")

    return ran(name, "reworded", answer)


def of_booking(one: Any) -> dict[str, Any]:
    found = re.search(r'"booking_id": "(\w+)"', one.text)
    assert found is not None
    return {"booking_id": found[1], "note": "wants a refund at the saver rate"}


def test_a_right_refusal_by_hand_over_that_goes_unpaid_rejects() -> None:
    found = handed_over("hotel_refuse_or_hand_over", "call_manager", of_booking, "yes")
    assert found.status == "fail" and "call_manager is right and paid" in found.evidence
    wrong = handed_over("hotel_refuse_or_hand_over", "call_manager", of_booking, "no")
    assert wrong.status == "pass" and "unpaid ones are wrong" in wrong.evidence


def test_a_hand_over_that_is_paid_as_it_should_be_passes() -> None:
    found = handed_over(
        "telecom_any_lookup", "transfer_to_human_agents", lambda _: {"summary": "data is left"}, "yes"
    )
    assert found.status == "pass" and found.value == 1.0 and found.n == 15


def playing(
    name: str, check: str, act: Callable[[Any, int], dict[str, Any]], kind: str = "", right: str = "no"
) -> Finding:
    shown = {one.number: one for one in episodes_of(name, kind)}

    def answer(question: Question[Any]) -> Any:
        if question.kind == "compare":
            mine = NO in question.user.partition("AGENT B")[0]
            return compared(*((right, "yes") if mine else ("yes", right)))
        numbers = re.search(r"One move for each of these episodes: ([\d, ]+)\.", question.user)
        assert numbers is not None
        moves = []
        for number in map(int, numbers[1].split(", ")):
            text = question.user.partition(f"EPISODE {number} =====")[2].partition("===== END")[0]
            done = text.count("agent calls") + text.count("agent says")
            moves.append({"episode": number, **act(shown[number], done)})
        return {"moves": moves}

    return ran(name, check, answer, kind)


def as_the_oracle(one: Any, done: int) -> dict[str, Any]:
    step = steps_of(one.best.actions)[done]
    calls = [{"tool": step["tool"], "arguments": step["arguments"]}] if step["tool"] else []
    return {"calls": calls, "say": step["say"]}


NO = "I am sorry, that is not possible."


def saying_no(one: Any, done: int) -> dict[str, Any]:
    return {"calls": [], "say": NO}


def test_agents_that_are_told_play_several_episodes_at_once_to_their_ends() -> None:
    good = playing("airline_cancel_rule", "told_with", as_the_oracle)
    assert good.status == "pass" and good.value == 1.0 and good.n == 6
    assert playing("airline_cancel_rule", "told_without", saying_no).status == "pass"
    told = playing("airline_cancel_rule", "told_without", as_the_oracle)
    assert told.status == "fail" and "6 of 6 paid without it" in told.evidence


def test_an_agent_that_mostly_loses_by_its_own_mistakes_says_nothing() -> None:
    found = playing("airline_cancel_rule", "told_with", saying_no)
    assert found.status == "skip" and "says nothing of it" in found.evidence
    assert "3 were the agent's own mistakes" in found.evidence


def test_an_agent_that_is_told_and_goes_unpaid_although_it_is_right_rejects() -> None:
    found = playing("airline_cancel_rule", "told_with", saying_no, right="yes")
    assert found.status == "fail" and "the agent is right, and the oracle's as well" in found.evidence


@pytest.mark.parametrize("check", JUDGED)
def test_no_check_passes_without_a_model_an_answer_or_a_purpose(check: str) -> None:
    def none(_: Question[Any]) -> Any:
        raise NotJudged("the cap on spending was reached")

    assert len(JUDGED) == 8
    name = "retail_cheapest_variant"  # of which every check has something to ask
    without = findings(subject_of(name), [check])[check]
    assert without.status == "skip" and "synthesis.judge" in without.evidence
    silent = findings(subject_of(name, ScriptedJudge(none)), [check])[check]
    assert silent.status == "skip" and silent.evidence.startswith(f"{NO_VERDICT}: it could not run: the cap")
    odd = findings(subject_of(name, ScriptedJudge(lambda _: "I would rather not.")), [check])[check]
    assert odd.status == "skip" and odd.evidence.startswith(f"{NO_VERDICT}: it could not run")
    aimless = subject_of(name, ScriptedJudge(none))
    aimless.purpose = None
    assert findings(aimless, [check])[check].status == "skip"


def test_nothing_is_asked_of_what_is_rejected_already_and_no_question_twice() -> None:
    judge = ScriptedJudge(lambda q: review(8) if q.kind == "review" else "")
    subject = subject_of(FEE, judge)
    passed = {check.check_id: Finding("pass") for check in CHECKS}
    last = [check for check in CHECKS if check.level == "judged"]
    found = _run(last[0], subject, {**passed, "trace.told.results": Finding("fail")})
    assert found.status == "skip" and "trace.told.results failed" in found.evidence and not judge.kinds
    for check in last[:2]:
        assert _run(check, subject, passed).status == "pass"
    assert judge.kinds == ["review"]


def test_episodes_that_are_shown_alternate_in_their_decisions_and_tell_no_seed() -> None:
    subject = subject_of("airline_cancel_rule")
    material = shown_of(subject)
    kinds = {decision(subject.probe, one.best) for one in material.episodes}
    assert kinds == {(), ("cancel_reservation",), ("transfer_to_human_agents",)}
    assert material.policy.startswith("# Airline Agent Policy")
    shown = material.shown()
    assert "the oracle is paid 1.00" in shown and "says goodbye 0." in shown
    assert json.loads(material.tools.splitlines()[0])["name"] == "get_user_details"
