"""Write, audit, mend: how many rounds, what is kept, what is given up, what is not done twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.drafting import (
    Drafted,
    Examiner,
    ModelWriter,
    NotAnswered,
    draft_environment,
)
from trace_assets.environments.writers.reply import ModuleQuestion, Reply
from trace_assets.environments.writers.writer import Writer
from trace_assets.records import CapabilitySpec, Environment, EnvironmentCheck, EnvironmentVersion
from trace_assets.settings import Synthesis

SECTION = Synthesis(writer="model", model="m")
Draft = Callable[..., tuple[Drafted, list[ModuleQuestion], list[str]]]


def module(quality: int, words: str = "") -> str:
    """A module whose audit passes that many of ten checks."""
    body = "".join(f"def {name}(*a):\n    return []\n" for name in ("tools", "reset", "step", "verdict"))
    return f"QUALITY = {quality}  # {words}\n{body}def oracle(seed):\n    return []\n"


def checks_of(environment: Environment) -> list[EnvironmentCheck]:
    quality = int(environment.source.split("=")[1].split("#")[0])
    return [
        EnvironmentCheck(
            environment_id=environment.environment_id,
            capability_id=environment.capability_id,
            check_id=f"trace.check_{n}",
            level="semantic",
            status="pass" if n < quality else "fail",
            severity="error",
            evidence=f"evidence {n}",
        )
        for n in range(10)
    ]


def verdict(checks: Sequence[EnvironmentCheck]) -> tuple[bool, tuple[str, ...]]:
    failed = tuple(one.check_id for one in checks if one.status == "fail")
    return not failed, failed


@pytest.fixture
def draft(contract: TargetContract, specs: dict[str, CapabilitySpec]) -> Draft:
    def drafted(
        replies: Sequence[str | Exception], section: Synthesis = SECTION, **more: object
    ) -> tuple[Drafted, list[ModuleQuestion], list[str]]:
        asked: list[ModuleQuestion] = []
        audited: list[str] = []

        def ask(question: ModuleQuestion) -> Reply:
            reply = replies[min(len(asked), len(replies) - 1)]
            asked.append(question)
            if isinstance(reply, Exception):
                raise reply
            return Reply(text=reply, prompt_tokens=10, completion_tokens=2)

        def audit(environment: Environment) -> list[EnvironmentCheck]:
            audited.append(environment.environment_id)
            return checks_of(environment)

        examiner = Examiner(audit, verdict, "audit-1", "none")
        writer = ModelWriter(ask, section, "Transcript 1")
        assert isinstance(writer, Writer)
        spec = specs["write_without_read"]
        return draft_environment(writer, spec, contract, section, examiner, **more), asked, audited  # type: ignore[arg-type]

    return drafted


def test_a_good_first_draft_is_the_only_one(draft: Draft) -> None:
    done, asked, audited = draft([f"```python\n{module(10)}```"])
    assert done.accepted and len(done.versions) == len(asked) == len(audited) == 1
    assert done.best is not None and done.best.kept and done.best.source == module(10)
    assert (done.best.prompt_tokens, done.best.completion_tokens) == (10, 2)
    assert done.best.question == asked[0].key and done.best.prompt_version


def test_code_that_passes_at_round_three_is_kept_with_all_before_it(draft: Draft) -> None:
    done, asked, _ = draft([module(3), module(5), module(4), module(10)])
    assert done.accepted and [one.round for one in done.versions] == [0, 1, 2, 3]
    assert [one.kept for one in done.versions] == [False, False, False, True]
    assert [len(one.failed) for one in done.versions] == [7, 5, 6, 0]
    assert "after 3 rounds" in done.outcome
    assert done.versions[-1].outcome == done.outcome
    assert [one.kind for one in asked] == ["write", "mend", "mend", "mend"]
    assert module(4).strip() in asked[3].user and "evidence 4" in asked[3].user
    assert module(5).strip() not in asked[3].user, "only the last version is sent"
    assert "Version 2 had failed: trace.check_5" in asked[3].user
    assert "Transcript 1" in asked[0].user and "Transcript 1" in asked[3].user


def test_what_is_never_mended_is_given_up_after_five_rounds_with_the_best_version(draft: Draft) -> None:
    done, asked, _ = draft([module(1), module(6), module(2), module(6, "later"), module(0), module(3)])
    assert len(asked) == 6 and len(done.versions) == 6
    assert not done.accepted
    assert done.best is not None and done.best.source == module(6, "later")
    assert done.outcome.startswith("given up after 5 rounds of mending: version 3 is the best of 6")
    assert "trace.check_6" in done.outcome


def test_replies_without_a_module_are_rounds_and_can_be_mended(draft: Draft) -> None:
    replies = [
        "I'm sorry, I cannot help with that.",
        "",
        "Let me think first.",
        f"```python\n{module(10)}```",
    ]
    done, asked, audited = draft(replies)
    assert [one.reply for one in done.versions] == ["refusal", "empty", "no_code", "module"]
    assert [one.failed[0].check_id for one in done.versions[:3]] == ["trace.reply"] * 3
    assert "cannot help" in done.versions[0].remark and "cannot help" in asked[1].user
    assert "held no module" in asked[1].user
    assert done.accepted and len(audited) == 1


def test_a_model_that_always_refuses_is_given_up_without_a_version(draft: Draft) -> None:
    done, asked, audited = draft(["I'm sorry, but I can't help with that."])
    assert len(asked) == 6 and not audited
    assert done.best is None and "no reply held a module" in done.outcome
    assert not any(one.kept for one in done.versions)


def test_a_syntax_error_is_told_and_nothing_is_audited(draft: Draft) -> None:
    done, asked, audited = draft([module(10).replace("def step(*a):", "def step(*a)"), module(10)])
    assert len(audited) == 1 and done.accepted
    assert done.versions[0].failed[0].check_id == "trace.reply"
    assert "cannot be parsed" in asked[1].user and "def step(*a)\n" in asked[1].user


def test_the_same_module_again_is_not_audited_again_but_asked_otherwise(draft: Draft) -> None:
    done, asked, audited = draft([module(4)])
    assert len(audited) == 1 and len(done.versions) == 6
    assert len({one.key for one in asked}) == 6
    assert {one.n_passed for one in done.versions} == {4}


def test_a_killed_run_goes_on_with_equal_questions_and_no_second_audit(draft: Draft) -> None:
    replies = [module(2), module(5), module(10)]
    saved: list[list[EnvironmentVersion]] = []
    whole, asked, audited = draft(replies, save=lambda rows: saved.append(list(rows)))
    assert len(audited) == 3
    assert [len(rows) for rows in saved] == [1, 2, 3, 3]
    again, asked_again, audited_again = draft(replies, known=saved[1])
    assert again == whole
    assert [one.key for one in asked_again] == [one.key for one in asked]
    assert audited_again == audited[2:]
    other = [one.model_copy(update={"audited": "audit-0"}) for one in saved[1]]
    assert draft(replies, known=other)[2] == audited, "another audit looks anew"


def test_fewer_rounds_can_be_set_and_more_than_five_cannot(draft: Draft) -> None:
    done, asked, _ = draft([module(2)], Synthesis(writer="model", model="m", mend_rounds=1))
    assert len(asked) == 2 and "after 1 rounds" in done.outcome
    with pytest.raises(ValueError, match="mend_rounds"):
        Synthesis(mend_rounds=6)


def test_a_question_that_does_not_fit_ends_it_with_what_there_is(draft: Draft) -> None:
    done, _, _ = draft([module(7), NotAnswered("the prompt does not fit.")])
    assert done.best is not None and done.best.n_passed == 7 and not done.accepted
    assert "does not fit" in done.outcome


def test_trouble_with_the_server_gives_nothing_up_and_keeps_what_there_was(draft: Draft) -> None:
    saved: list[list[EnvironmentVersion]] = []
    with pytest.raises(RuntimeError):
        draft([module(7), RuntimeError("gone")], save=lambda rows: saved.append(list(rows)))
    assert [len(rows) for rows in saved] == [1]


def test_a_round_may_answer_with_changes_and_one_that_does_not_apply_is_told_with_its_line(
    draft: Draft,
) -> None:
    def change(before: int, after: int) -> str:
        return f"<<<<<<< SEARCH\nQUALITY = {before}  # \n=======\nQUALITY = {after}  # \n>>>>>>> REPLACE\n"

    done, asked, audited = draft([module(4), change(4, 6), change(5, 10), change(6, 10)])
    assert done.accepted and [one.reply for one in done.versions] == [
        "module",
        "module",
        "unapplied",
        "module",
    ]
    assert [one.source for one in done.versions] == [module(4), module(6), "", module(10)]
    assert len(audited) == 3, "nothing is audited where nothing was changed"
    assert "QUALITY = 5" in asked[3].user and "does not stand in the module" in asked[3].user
    assert module(6).strip() in asked[3].user, "the version before is shown again"
    assert "evidence 6" in asked[3].user, "with what still stands against it"
    assert "SEARCH" not in asked[0].user
