"""What is under way is in the bucket too, and another machine goes on from it, whenever one was lost."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.quick import one_of_each
from tests.store.objects.homes import Killed, Watched, kill_at, words_of
from tests.store.objects.test_work import Machines, killed, made
from trace_assets.errors import InputError, Unavailable
from trace_assets.store.lines import sealed
from trace_assets.store.objects import under_way
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.under_way import UnderWay
from trace_assets.store.objects.work import Work, release
from trace_assets.store.unfinished import COMPLETE, run_directory_of

JOURNAL = Path("journals", "rollouts", "shop-1", "0-1.jsonl")
ANSWER = Path("answers", "ab", "ab12.json")
SPENT = Path("answers", "spent.jsonl")
RUN_DIRECTORY = run_directory_of(Path("models", "adapters", "one-1"))


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def sender(work: Work, bucket: Watched | None = None) -> UnderWay:
    remote = RemoteHome(bucket) if bucket else work.remote
    return UnderWay(remote, work.folder, work._worker)


def append(folder: Path, name: Path, *lines: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("ab") as file:
        file.writelines(sealed(line) for line in lines)


def checkpoint(folder: Path, iteration: int, complete: bool = True) -> Path:
    place = folder / RUN_DIRECTORY / "checkpoints" / f"checkpoint-{iteration}"
    place.mkdir(parents=True)
    (place / "optimizer.pt").write_bytes(str(iteration).encode() * 1000)
    append(folder, RUN_DIRECTORY / "curve.jsonl", f'{{"iteration": {iteration}}}')
    if complete:
        (place / COMPLETE).write_text("of these files")
    return place


def kept(folder: Path) -> dict[str, bytes]:
    """Return all that is under way in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for top in ("journals", "answers", "models")
        for path in sorted((folder / top).rglob("*"))
        if path.is_file()
    }


def lost(machines: Machines, work: Work) -> Work:
    """Lose a machine, and have another one begin."""
    killed(work)
    release(RemoteHome(machines.again()))
    return machines.begin("b")


def begun(machines: Machines) -> Work:
    """Begin work of which a little is under way."""
    work = machines.begin("a")
    made(work, "sent before")
    append(work.folder, JOURNAL, "first", "second")
    append(work.folder, SPENT, "a dollar")
    append(work.folder, ANSWER, "{}")
    checkpoint(work.folder, 1)
    return work


def test_another_machine_goes_on_from_what_was_under_way(machines: Machines) -> None:
    one = begun(machines)
    one.send_meanwhile()
    append(one.folder, JOURNAL, "third")
    (one.folder / RUN_DIRECTORY / "candidate-1.safetensors").write_bytes(b"1" * (under_way.COPIED_BYTES + 1))
    checkpoint(one.folder, 2)
    checkpoint(one.folder, 3, complete=False)
    assert sender(one).send() > under_way.COPIED_BYTES
    two = lost(machines, one)
    assert words_of(two.folder) == "sent before"
    assert {name: text for name, text in kept(one.folder).items() if "checkpoint-3" not in name} == kept(
        two.folder
    )
    assert not [path.name for path in two.folder.parent.glob(".*.sending")]
    made(two, "of b")
    two.end()
    again = machines.begin("c")
    assert words_of(again.folder) == "of b" and kept(again.folder) == kept(two.folder)
    assert again.remote.state().pointer.under_way is None, "the home has it all"


def test_a_home_that_was_never_sent_has_its_work_under_way_all_the_same(machines: Machines) -> None:
    one = begun(machines)
    sender(one).send()
    two = lost(machines, one)
    assert kept(two.folder) == kept(one.folder)
    made(two, "first of all")
    two.end()
    assert machines.in_store() == "first of all"


def test_only_what_is_new_is_sent_and_no_line_that_is_half_written(machines: Machines) -> None:
    one = begun(machines)
    under = sender(one)
    assert under.send() and not under.send()
    before = one.remote.state().pointer.commit
    assert not sender(one).send() and one.remote.state().pointer.commit == before
    append(one.folder, JOURNAL, "third")
    with (one.folder / JOURNAL).open("ab") as file:
        file.write(b"half a li")
    assert under.send() == len(sealed("third"))
    with (one.folder / JOURNAL).open("ab") as file:
        file.write(b"ne\n")
    assert sender(one).send() == len(b"half a line\n")
    assert kept(lost(machines, one).folder) == kept(one.folder)


def test_a_journal_of_many_segments_is_joined_and_stays_what_it_is(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_way, "SEGMENTS", 3)
    one, sizes = begun(machines), list[int]()
    under = sender(one)
    for number in range(9):
        append(one.folder, JOURNAL, f"line {number}")
        under.send()
        sizes.append(len(one.remote.under_way(one.remote.state())[JOURNAL.as_posix()].parts))
    assert max(sizes) == 4 and min(sizes[4:]) == 1
    assert kept(lost(machines, one).folder) == kept(one.folder)


def test_a_journal_that_was_made_anew_is_sent_anew(machines: Machines) -> None:
    one = begun(machines)
    under = sender(one)
    under.send()
    (one.folder / JOURNAL).unlink()
    append(one.folder, JOURNAL, "other", "lines", "than before")
    under.send()
    assert kept(lost(machines, one).folder) == kept(one.folder)


def test_an_old_checkpoint_goes_and_a_finished_run_stays_until_the_home_is_sent(machines: Machines) -> None:
    one = begun(machines)
    under = sender(one)
    under.send()
    shutil.rmtree(checkpoint(one.folder, 2).with_name("checkpoint-1"))
    under.send()
    with_second = kept(one.folder)
    shutil.rmtree(one.folder / RUN_DIRECTORY)
    (one.folder / JOURNAL).unlink()
    under.send()
    assert kept(lost(machines, one).folder) == with_second


def test_a_run_directory_that_is_written_to_all_the_time_stays_as_it_was_sent(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(machines)
    under = sender(one)
    under.send()
    before = kept(one.folder)
    copy = shutil.copy2

    def while_written(source: Path, target: Path) -> object:
        append(one.folder, RUN_DIRECTORY / "curve.jsonl", "more")
        return copy(source, target)

    monkeypatch.setattr(shutil, "copy2", while_written)
    checkpoint(one.folder, 2)
    under.send()
    monkeypatch.undo()
    assert kept(lost(machines, one).folder) == before


def test_what_was_sent_and_cleaned_away_before_it_was_named_is_sent_again(machines: Machines) -> None:
    one = begun(machines)
    bucket = machines.again()

    def refuse(number: int, what: str) -> None:
        if "writing of home.json" in what:
            raise Unavailable("the store is away")

    bucket.before, under = refuse, sender(one, bucket)
    with pytest.raises(Unavailable):
        under.send()
    RemoteHome(machines.again()).clean()
    bucket.before = lambda number, what: None
    assert under.send()
    RemoteHome(machines.again()).clean()
    assert kept(lost(machines, one).folder) == kept(one.folder)


def test_who_has_lost_the_home_sends_nothing(machines: Machines) -> None:
    one = begun(machines)
    sender(one).send()
    release(RemoteHome(machines.again()))
    two = machines.begin("b")
    append(two.folder, JOURNAL, "of b")
    sender(two).send()
    append(one.folder, JOURNAL, "of the sleeper")
    before = two.remote.state().pointer.commit
    assert sender(one).send() == 0 and two.remote.state().pointer.commit == before
    # It is asked for again: what the other had under way is there, and no longer journal is cut.
    killed(one)
    killed(two)
    release(RemoteHome(machines.again()))
    again = machines.begin("a")
    assert (again.folder / JOURNAL).read_bytes().endswith(sealed("of the sleeper"))
    assert kept(again.folder).keys() == kept(two.folder).keys()


@pytest.mark.parametrize("when", one_of_each(["after", "before"]))
def test_a_sender_that_is_killed_at_any_request_leaves_the_old_or_the_new(tmp_path: Path, when: str) -> None:
    def prepared(number: int) -> tuple[Machines, Work, dict[str, bytes]]:
        machines = Machines(tmp_path / f"{number}")
        work = begun(machines)
        sender(work).send()
        old = kept(work.folder)
        append(work.folder, JOURNAL, "third")
        checkpoint(work.folder, 2)
        return machines, work, old

    machines, work, _ = prepared(0)
    bucket = machines.again()
    sender(work, bucket).send()
    for number in range(1, len(bucket.asked) + 1):
        machines, work, old = prepared(number)
        dying = machines.again()
        setattr(dying, when, kill_at(number))
        with pytest.raises(Killed):
            sender(work, dying).send()
        if number % 2:
            RemoteHome(machines.again()).clean()
        else:
            sender(work).send()
        found = kept(lost(machines, work).folder)
        assert found in ((old, kept(work.folder)) if number % 2 else (kept(work.folder),))


def test_what_is_not_what_was_sent_is_named_and_nothing_is_begun(machines: Machines) -> None:
    one = begun(machines)
    sender(one).send()
    bucket = machines.again()
    piece = one.remote.under_way(one.remote.state())[JOURNAL.as_posix()]
    bucket.put(piece.parts[0].key, b"altered")
    with pytest.raises(InputError, match=r"0-1\.jsonl .* has 7 bytes in place of"):
        lost(machines, one)
    bucket.delete([piece.parts[0].key])
    with pytest.raises(InputError, match=r"0-1\.jsonl .* is gone"):
        machines.begin("b")


@pytest.fixture
def sending(machines: Machines) -> Iterator[Work]:
    work = begun(machines)
    work.keep_sending(0.01)
    yield work
    work._ends.set()


def test_a_command_sends_in_the_background_until_it_ends(machines: Machines, sending: Work) -> None:
    remote = RemoteHome(machines.again())
    until_sent(remote, JOURNAL, 2)
    append(sending.folder, JOURNAL, "third")
    until_sent(remote, JOURNAL, 3)
    assert sending.end() == ""
    assert remote.state().pointer.under_way is None
    two = machines.begin("b")
    assert kept(two.folder) == kept(sending.folder)


def until_sent(remote: RemoteHome, name: Path, lines: int) -> None:
    while True:
        piece = remote.under_way(remote.state()).get(name.as_posix())
        if piece and b"".join(b"".join(remote.read(one, "")) for one in piece.parts).count(b"\n") == lines:
            return
        time.sleep(0.01)


def test_a_later_rounds_work_is_under_way_too(machines: Machines) -> None:
    one = begun(machines)
    later = one.folder / "rounds" / "2"
    append(later, JOURNAL, "of round two")
    checkpoint(later, 1)
    sender(one).send()
    two = lost(machines, one)
    assert kept(two.folder / "rounds" / "2") == kept(later)
    assert os.listdir(two.folder / "rounds") == ["2"]
