"""Rewards played again in a fresh sandbox: what is honest is confirmed, what has a memory rejected."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scripted_policies import replay as scripted
from trace_assets.environments.audit.battery import _run
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import Environment, Message, UnconfirmedReward
from trace_assets.resources.sandbox import (
    permutation_for,
    recomputed_check,
    recomputed_figures,
    training_target,
)
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.sandbox import (
    ProtocolError,
    SandboxConfig,
    SandboxPool,
    SandboxUnavailable,
    open_pool,
    reward_verification,
)
from trace_assets.sandbox.controls import IDLE, TALKER, controls_for
from trace_assets.sandbox.reward_verification import Recomputation, Recomputed, RewardMismatch, Sample
from trace_assets.settings import Synthesis
from trace_assets.store.item_locks import due_items
from trace_assets.study import Study
from trace_assets.targets.sandboxed import SandboxedTarget
from trace_assets.targets.seeds import SeedPermutation

SEEDS = SeedPermutation(bytes(32))
Act = Callable[..., dict[str, object]]
Hostile = Callable[[str, str], str]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0, deadline_seconds=60.0))
    with made:
        yield made


def played(pool: SandboxPool, source: str, act: Act, recomputation: Recomputation, n: int) -> None:
    environment = pool.environment(source)
    for seed in range(n):
        with environment.reset(seed) as session:
            session.step(act(1))
            recomputation.see(session, session.verdict())


NATIVE = """
    import ctypes
    libc = ctypes.CDLL(None)
    libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_void_p, [ctypes.c_ulong]
    coin = int.from_bytes(ctypes.string_at(libc.getauxval(25), 4), "little")
"""
"""The 16 random bytes that the kernel gives each program it executes: the one thing that differs between
sandboxes and that an episode can still find, by reading its memory from beneath Python."""


def forgetful(counter: str) -> str:
    """The counter, whose reward also depends on the sandbox it is played in."""
    fields = "'reward': coin / 2**33, 'success': False, 'checks': []"
    return counter.replace("def verdict():\n", f"def verdict():\n{NATIVE}\n    return {{{fields}}}\n")


def test_an_honest_environment_is_confirmed(pool: SandboxPool, counter: str, act: Act) -> None:
    one = Recomputation(pool, counter, name="it", share=1.0)
    played(pool, counter, act, one, 20)
    found = one.settle()
    one.close()
    assert found == Recomputed(episodes=20, recomputed=20, later=16, controls=20) and found.share == 1.0
    check = recomputed_check(found)
    assert check.passed and "20 of 20 episodes (100.0%)" in check.detail
    assert "16 of them once more at the end" in check.detail and "20 control episodes" in check.detail


def test_the_share_is_kept_and_the_first_is_always_taken(pool: SandboxPool, counter: str, act: Act) -> None:
    for share, least, most in ((1e-9, 1, 1), (0.5, 8, 33), (0.0, 0, 0)):
        one = Recomputation(pool, counter, name="it", share=share)
        played(pool, counter, act, one, 40)
        found = one.settle()
        one.close()
        assert least <= found.recomputed <= most, (share, found)
    assert recomputed_check(found).passed is None


def test_which_are_taken_cannot_be_foretold(pool: SandboxPool, counter: str, act: Act) -> None:
    """The same episodes twice: two samples differ."""
    taken = []
    for _ in range(2):
        one = Recomputation(pool, counter, name="it", share=0.2)
        environment = pool.environment(counter)
        for seed in range(40):
            with environment.reset(seed) as session:
                session.step(act(1))
                one.see(session, session.verdict())
        taken.append(tuple(sample.seed for sample in one._waiting))
        one.close()
    assert taken[0] != taken[1]  # by chance equal in one of three million runs


def test_a_reward_that_depends_on_more_than_seed_and_actions_is_rejected(
    pool: SandboxPool, counter: str, act: Act
) -> None:
    source = forgetful(counter)
    one = Recomputation(pool, source, name="the environment of 'x'", share=1.0)
    with pytest.raises(RewardMismatch, match=r"the environment of 'x' is rejected.*reward .* not .*again"):
        for _ in range(4):
            played(pool, source, act, one, 16)
            one.settle()
    with pytest.raises(RewardMismatch):  # and goes on being rejected
        played(pool, source, act, one, 1)
    one.close()
    assert issubclass(RewardMismatch, CheckFailed)


def test_a_fault_where_there_was_none_is_a_mismatch(pool: SandboxPool, counter: str, act: Act) -> None:
    one = Recomputation(pool, counter, name="it", share=1.0)
    played(pool, counter, act, one, 3)
    one._source = counter.replace("def verdict():\n", "def verdict():\n    raise ValueError('not again')\n")
    with pytest.raises(RewardMismatch, match=r"ends in a fault .*not again"):
        one.settle()
    one.close()


def test_want_of_a_sandbox_says_nothing_of_the_environment(
    pool: SandboxPool, counter: str, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Recomputation(pool, counter, name="it", share=1.0)
    played(pool, counter, act, one, 3)

    def nothing(_: object) -> None:
        raise SandboxUnavailable("no sandbox is to be had")

    monkeypatch.setattr(pool, "fresh", nothing)
    assert one.settle() == Recomputed(episodes=3, recomputed=0, unconfirmed=3)
    one.close()
    assert recomputed_check(one.read()).passed is None


def environment_of(source: str) -> Environment:
    return Environment(environment_id="e", capability_id="x", target="t", writer="test", source=source)


def roll_out(pool: SandboxPool, source: str, seeds: int) -> SandboxedTarget:
    """Play the oracle's first message on every seed through the target protocol, as training does."""
    target = SandboxedTarget(environment_of(source), pool, SEEDS, training_seeds=seeds, validation_seeds=())
    policy = scripted(lambda conversation: target.oracle(target.tasks("discovery")[0]))
    trials = [Trial(task, trial) for task in target.tasks("discovery") for trial in range(2)]
    try:
        run_rollouts(target, trials, policy, max_turns=1, concurrency=4)
        target.recomputation.settle()
    finally:
        target.close()
    return target


def test_every_target_of_generated_code_recomputes_its_share(counter: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0, recompute_share=0.5))
    with made as pool:
        found = roll_out(pool, counter, 20).recomputation.read()
    assert found.episodes == 40 and 8 <= found.recomputed <= 33


def test_a_mismatch_ends_the_rollouts_and_is_no_fault_of_a_trial(counter: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0, recompute_share=1.0))
    with made as pool, pytest.raises(RewardMismatch, match="environment of 'x' is rejected"):
        for _ in range(4):
            roll_out(pool, forgetful(counter), 40)


@pytest.mark.docker
def test_containers_confirm_containers(docker_pool: SandboxPool, counter: str, act: Act) -> None:
    one = Recomputation(docker_pool, counter, name="it", share=1.0)
    played(docker_pool, counter, act, one, 5)
    assert one.settle().recomputed == 5
    one.close()


@pytest.mark.docker
def test_an_environment_whose_reward_depends_on_its_container_is_found_out(
    docker_pool: SandboxPool, counter: str, act: Act
) -> None:
    one = Recomputation(docker_pool, forgetful(counter), name="the environment of 'x'", share=1.0)
    with pytest.raises(RewardMismatch, match="is rejected"):
        played(docker_pool, forgetful(counter), act, one, 20)
        one.settle()
    one.close()


def played_over(pool: SandboxPool, source: str, act: Act, recomputation: Recomputation, n: int) -> None:
    """Play with a policy that solves what it is given."""
    environment = pool.environment(source)
    for seed in range(n):
        with environment.reset(seed) as session:
            wanted = int(str(session.messages[0]["content"]).split()[1].rstrip("."))
            session.step({**act(wanted - 1), "content": "One after the other."})
            session.step(act(1))
            recomputation.see(session, session.verdict())


def test_a_reward_is_recomputed_later_than_it_was_earned(pool: SandboxPool, counter: str, act: Act) -> None:
    """A few episodes are kept till the end: what changes meanwhile is seen in them alone."""
    one = Recomputation(pool, counter, name="it", share=1.0)
    played(pool, counter, act, one, 32)
    while one.read().recomputed < 32:
        time.sleep(0.05)
    one._source = counter.replace("float(met)", "0.25 + float(met) / 2")
    with pytest.raises(RewardMismatch, match=r"at the end of the run, and it gives reward 0.25, not 0.0"):
        one.settle()
    one.close()


def test_an_audits_episodes_are_played_again(pool: SandboxPool, counter: str, act: Act) -> None:
    with pool.environment(counter).reset(3) as session:
        session.step(act(1))
        sample = Sample(3, tuple(session.actions), session.verdict())
    one = Recomputation(pool, counter, name="it", share=0.5)
    one.recall([sample] * 20)
    assert one.settle().recalled == 20
    one.close()
    other = Recomputation(pool, counter.replace("float(met)", "0.5"), name="it", share=0.5)
    other.recall([sample])
    with pytest.raises(RewardMismatch, match=r"Of its audit's episodes the one of seed 3 .* reward 0.5, not"):
        other.settle()
    other.close()


@pytest.mark.parametrize(
    "raises", [KeyError("x"), RecursionError(), ValueError("y"), InputError("z"), ProtocolError("p")]
)
def test_any_exception_in_a_replay_is_a_mismatch(
    pool: SandboxPool, counter: str, act: Act, monkeypatch: pytest.MonkeyPatch, raises: Exception
) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise raises

    one = Recomputation(pool, counter, name="the environment of 'x'", share=1.0)
    played(pool, counter, act, one, 3)
    monkeypatch.setattr(reward_verification, "_verdict_in", stumble)
    with pytest.raises(RewardMismatch, match=f"ends in a fault .{type(raises).__name__}"):
        one.settle()
    one.close()


def test_an_episode_that_ends_earlier_than_it_did_is_a_mismatch(
    pool: SandboxPool, counter: str, act: Act
) -> None:
    one = Recomputation(pool, counter, name="it", share=1.0)
    played_over(pool, counter, act, one, 2)
    one._source = counter.replace('"done": not answers or', '"done": STATE["total"] > 0 or')
    with pytest.raises(RewardMismatch, match="over"):
        one.settle()
    one.close()


LEAKS = {
    "does nothing": (" or True", r"One that does nothing succeeds in \d+ of \d+ episodes"),
    "talks": (
        " or STATE['said'] == 'One after the other.'",
        "One that says what the policy said and calls no tool succeeds",
    ),
    "changes nothing": (
        " or STATE['looked']",
        "One that leaves out every change that the policy made succeeds",
    ),
}


@pytest.mark.parametrize("leak", sorted(LEAKS))
def test_one_that_pays_its_controls_is_rejected(pool: SandboxPool, counter: str, act: Act, leak: str) -> None:
    """Its rewards are decided by seed and actions alone, so that playing them again confirms every one."""
    edit, said = LEAKS[leak]
    source = counter
    for old, new in (
        ('STATE["steps"] += 1', 'STATE["steps"] += 1\n    STATE["said"] = message["content"]'),
        ("total=0, steps=0", "total=0, steps=0, said='', looked=False"),
        ("    answers = []", "    answers = []\n    names = [c['name'] for c in message['tool_calls']]\n"
         "    STATE['looked'] = STATE['looked'] or 'look' in names"),
        ('met = STATE["total"] == STATE["target"]', f'met = STATE["total"] == STATE["target"]{edit}'),
    ):  # fmt: skip
        assert source.count(old) == 1
        source = source.replace(old, new)
    kinds = (IDLE, TALKER) if leak == "talks" else controls_for(lambda name: name == "add")
    one = Recomputation(pool, source, name="the environment of 'x'", share=1.0, controls=kinds)
    environment = pool.environment(source)
    with pytest.raises(RewardMismatch, match=said):
        for seed in range(48):
            with environment.reset(seed) as session:
                wanted = int(str(session.messages[0]["content"]).split()[1].rstrip("."))
                look = {"id": "a", "name": "look", "arguments": {"n": 0}}
                session.step({"role": "assistant", "content": "One after the other.", "tool_calls": [look]})
                session.step(act(wanted))
                one.see(session, session.verdict())
        one.settle()
    one.close()


def test_an_honest_one_pays_no_control(pool: SandboxPool, counter: str, act: Act) -> None:
    one = Recomputation(
        pool, counter, name="it", share=1.0, controls=controls_for(lambda name: name == "add")
    )
    played_over(pool, counter, act, one, 32)
    assert one.settle() == Recomputed(episodes=32, recomputed=32, later=16, controls=96)
    one.close()


def test_training_ends_with_the_last_of_the_sample(counter: str, tmp_path: Path) -> None:
    """What `training_target` hands out is settled before anything that was trained with it is kept."""
    overrides = ["sandbox.backend=unsafe-subprocess", "sandbox.recompute_share=1.0"]
    study = Study.open(tmp_path, overrides=overrides)
    permutation_for(study, "e")

    def play(source: str) -> Recomputed:
        with training_target(study, environment_of(source)) as target:
            policy = scripted(lambda conversation: target.oracle(target.tasks("discovery")[0]))
            trials = [Trial(task) for task in target.tasks("discovery")[:12]]
            run_rollouts(target, trials, policy, max_turns=1, concurrency=4)
        return target.recomputation.read()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = play(counter)
        assert found.episodes == found.recomputed == 12
        assert recomputed_figures(found) == {"episodes": 12, "recomputed": 12, "recomputed_share": 1.0}
        with pytest.raises(RewardMismatch):
            for _ in range(4):
                play(forgetful(counter))
    remembered = study.store.read(UnconfirmedReward)
    assert [row.environment_id for row in remembered] == [environment_of(forgetful(counter)).environment_id]
    assert "was played again" in remembered[0].detail
    capability_id = remembered[0].capability_id
    assert due_items(study.home) == {("environment_verdict", capability_id): "a reward was not confirmed"}


def test_a_mismatch_in_the_audits_rollouts_fails_the_check_that_asked_for_them(counter: str) -> None:
    """The environment is rejected by its audit; nothing is trained."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0, recompute_share=1.0))
    section = Synthesis(audit_seeds=16, audit_rollouts=8)
    with made as pool:
        source = forgetful(counter)
        policy = scripted(lambda conversation: [Message(role="assistant", content="Nothing.")])
        subject = Subject(environment_of(source), pool, section, policy=policy)
        check = AuditCheck("statistical.x", "statistical", lambda one: Finding("pass", str(one.rollouts)))
        finding = _run(check, subject, {})
    assert finding.status == "fail" and "is rejected" in finding.evidence
