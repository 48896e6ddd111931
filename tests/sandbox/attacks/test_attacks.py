"""Every attack of the battery, in Docker and in bubblewrap: one test each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trace_assets.sandbox import SandboxPool, open_pool
from trace_assets.sandbox.selftest import runner
from trace_assets.sandbox.selftest.attack import Played, load_attacks
from trace_assets.sandbox.selftest.host import Bait
from trace_assets.sandbox.selftest.placement import arm
from trace_assets.sandbox.selftest.runner import SCENARIOS, catalogue, run_attacks
from trace_assets.sandbox.session import Session

Play = Callable[[str], Played]


def attacks(backend: str, alike: str = "") -> list[object]:
    """Return the names of those for a backend, a group that another one holds alike to be tried when slow."""
    return [
        pytest.param(one.name, marks=[pytest.mark.slow] if one.slow or one.group == alike else [])
        for one in load_attacks()
        if backend in one.backends
    ]


def judge(played: Played) -> None:
    assert played.status == "pass", (
        f"{played.outcome} (not {played.expected}): {played.detail} {played.effects}"
    )


class FirstLast(Session):
    """Plays steps one after the other, that of the first episode last, as a busy machine may."""

    waiting: ClassVar[list[FirstLast]] = []

    def begin_step(self, message: dict[str, Any]) -> None:
        self.message = message
        self.waiting.append(self)

    def finish_step(self) -> dict[str, Any]:
        for one in (*self.waiting[1:], *self.waiting[:1]):
            super(FirstLast, one).begin_step(one.message)
            one.found = super(FirstLast, one).finish_step()
        self.waiting.clear()
        return self.found


@pytest.mark.docker
def test_an_episode_that_the_kernel_took_after_its_reply_is_noticed(
    attacked_docker: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "Session", FirstLast)
    (played,) = run_attacks(attacked_docker, [one for one in load_attacks() if one.name == "memory_by_many"])
    judge(played)


@pytest.mark.docker
@pytest.mark.parametrize("attack", attacks("docker"))
def test_docker_holds(play_in_docker: Play, attack: str) -> None:
    judge(play_in_docker(attack))


# What one leaf holds, its supervisor and how the host reads it, is the same code in a container.
@pytest.mark.ci
@pytest.mark.parametrize("attack", attacks("bubblewrap", alike="integrity"))
def test_bubblewrap_holds(play_in_bubblewrap: Play, attack: str) -> None:
    judge(play_in_bubblewrap(attack))


@pytest.mark.slow
@pytest.mark.docker
def test_docker_holds_over_its_own_stream(attacked_docker: SandboxPool) -> None:
    """The transport for a remote daemon has one stream for all episodes: the same attacks, half a minute."""
    config = attacked_docker.config.model_copy(update={"transport": "attach"})
    with open_pool(config) as pool:
        played = run_attacks(pool, load_attacks())
    wrong = [(one.name, one.outcome, one.detail, one.effects) for one in played if one.status != "pass"]
    assert not wrong


@pytest.mark.slow
@pytest.mark.docker
def test_an_attack_on_the_container_comes_no_further_in_the_whole_sandbox(
    attacked_docker: SandboxPool,
) -> None:
    """Those that are played against the container alone; here most end at their first system call."""
    attacks = [one.model_copy(update={"wall": "leaf"}) for one in load_attacks() if one.wall == "container"]
    bad = ("escaped", "paid", "unavailable")
    wrong = [
        (one.name, one.outcome, one.detail, one.effects)
        for one in run_attacks(attacked_docker, attacks)
        if one.outcome in bad or one.effects
    ]
    assert not wrong


def test_the_battery_has_what_the_design_asks_for() -> None:
    """The list that the sandbox was designed against, by the names that the attacks have here."""
    names = {one.name for one in load_attacks()}
    exhaustion = (
        "fork_bomb thread_bomb memory_at_once memory_bit_by_bit disk_fill inode_fill descriptor_leak "
        "output_flood protocol_flood infinite_loop regex_backtracking sleep_past_deadline masked_signals "
        "stop_self import_time_loop zombies reply_too_deep huge_integer reply_of_300_mb decompression_bomb"
    )
    escape = (
        "init_root kernel_memory_files core_pattern mount namespaces trace_processes devices become_root "
        "raw_sockets netlink vsock abstract_socket docker_socket metadata_address name_service kernel_doors "
        "path_traversal kill_others zombies"
    )
    integrity = (
        "forged_reply_wrong_id reply_in_advance patched_worker patched_evaluate equality_tricks "
        "memory_of_the_worker nan_reward infinite_reward boolean_reward huge_reward sys_exit hard_exit "
        "exception_as_success"
    )
    frames = (
        "died_as_text died_too_deep died_of_a_number died_of_memory no_process_to_be_had third_key "
        "id_of_128_bits id_as_power repeated_key_escaped reply_in_two_parts words_of_the_supervisor"
    )
    values = (
        "success_without_reward reward_without_success enumerated_reward lying_list nan_score endless_list"
    )
    phase = (
        "clocks clocks_beneath_python processor_clock stopwatches who_am_i place_in_the_row chance channels "
        "every_system_call"
    )
    assert set(f"{exhaustion} {escape} {integrity} {frames} {values} {phase}".split()) <= names
    assert len(names) >= 150
    scenarios = {one.name for one in SCENARIOS}
    assert {"episode_outlives_itself", "counter_over_episodes", "same_everywhere"} <= scenarios


def test_the_catalogue_names_every_attack_once() -> None:
    text = catalogue()
    for one in (*load_attacks(), *SCENARIOS):
        assert text.count(f"`{one.name}`") == 1, one.name


def test_every_attack_is_a_module_that_compiles_and_tries_something() -> None:
    """A mistake in an attack would be an environment's fault, which some attacks expect."""
    bait = Bait("/nowhere", "secret", "socket", 1, "mark", 1)
    for one in load_attacks():
        if one.name.startswith("source_"):
            continue
        source = arm(one, bait)
        compile(source, one.name, "exec")
        assert not [word for word in bait.words() if word in source], one.name
        assert one.code and one.tries.endswith("."), one.name
        if one.expected == ("environment",):
            assert one.says, f"{one.name}: any exception at all would be a pass"


def test_the_page_on_the_sandbox_has_the_catalogue(project_root: Path) -> None:
    page = (project_root / "docs" / "sandbox.md").read_text(encoding="utf-8")
    assert catalogue() in page, "put in what `python -m trace_assets.sandbox.selftest.runner` prints"
