"""A flipped bit in anything that is kept changes no result unseen."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.readings import differing, kept_files, readings
from tests.durability.small_home import Small, quick_models, simulation_file
from trace_assets.cli.checkup.files import files
from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.request import Answer, Question
from trace_assets.environments.contract.description import TargetDescription, write_description
from trace_assets.rollouts.runner import Journal
from trace_assets.settings import Analyst
from trace_assets.store.trajectories import read_trajectories


class _Reply(Answer):
    text: str


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """A finished home with the journals of work that is under way, and a router."""
    folder = tmp_path_factory.mktemp("flips")
    made = Small(folder / "home", simulation_file(folder / "desk.json"))
    with quick_models():
        made.work()
        study = made.study()
        with Journal(study.home.journals / "rollouts" / "embedded-1") as journal:
            for trajectory in read_trajectories(study.store):
                journal.append(trajectory)
        with open_account(study.store, study.home.answers, Analyst(), "labels", "b") as account:
            for number in range(3):
                ticket = account.reserve("label", 100, 10)
                assert ticket is not None
                account.settle(ticket, {"prompt_tokens": 10 * number + 10, "completion_tokens": 10})
        asked = Question("label", "m", "system", "user", _Reply)
        Answers(study.home.answers).put(asked, _Reply(text="PRESENT"))
        write_description(study.home.descriptions, TargetDescription(target="tau2:desk", policy="Be kind."))
        yield made


def flip(file: Path, chance: random.Random) -> bytes:
    """Flip one bit of a file, its time left as it was; return what it held."""
    before, found = file.read_bytes(), file.stat()
    content, bit = bytearray(before), chance.randrange(8 * len(before))
    content[bit // 8] ^= 1 << bit % 8
    write(file, bytes(content))
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    return before


def write(file: Path, content: bytes) -> None:
    """Write in place: what is linked to a file is damaged with it."""
    with file.open("r+b") as opened:
        opened.write(content)


def campaign(small: Small, number: int, seed: int) -> Counter[str]:
    """Flip bits one at a time, in files drawn evenly; return what came of them, by what is seen."""
    chance, came = random.Random(seed), Counter[str]()
    targets = ["tau2:desk", "embedded"]
    before, _ = readings(small.study(), small.source, targets)
    chosen = kept_files(small.folder)
    for _ in range(number):
        file = chance.choice(chosen)
        content = flip(file, chance)
        now, warned = readings(small.study(), small.source, targets)
        told = warned or any(one.state != "ok" for one in files(small.study(), deep=True))
        other = differing(now, before)
        if other and not warned:
            came["unseen"] += 1
            came[f"unseen: {file.relative_to(small.folder)} {other[:3]}"] += 1
        elif now != before:
            came["refused or told"] += 1
        else:
            came["told, and reads the same" if told else "reads the same"] += 1
        write(file, content)
    return came


def test_no_flipped_bit_is_read_unseen(small: Small) -> None:
    came = campaign(small, 15, seed=0)
    assert came["unseen"] == 0, came
    assert came["refused or told"] >= 8, came


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_flipped_bit_of_500_is_read_unseen(small: Small) -> None:
    came = campaign(small, 500, seed=1)
    print(came)
    assert came["unseen"] == 0, came


def test_a_flipped_bit_that_is_due_is_made_again(small: Small) -> None:
    wanted, kept = small.versions(), small.folder.with_name("kept")
    shutil.copytree(small.folder, kept)
    chance = random.Random(2)
    chosen = [file for file in kept_files(small.folder) if file.parent.parent.name == "tables"]
    for file in chance.sample([one for one in chosen if one.parent.name not in ("ledger", "lineage")], 4):
        if os.stat(file).st_nlink == 1:  # of the others the inbox is damaged too
            flip(file, chance)
    small.sync()
    assert small.versions() == wanted and small.due() == []
    shutil.rmtree(small.folder)
    kept.rename(small.folder)
