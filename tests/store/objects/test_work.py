"""Commands work on a home in a bucket: one machine holds it, sends at the end, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.quick import one_of_each
from tests.store.objects.homes import Killed, Watched, kill_at, words_of, write
from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.store import Home
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.upload import copy_up
from trace_assets.store.objects.work import Work, release


class Machines:
    """Machines with a folder each, and one bucket."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bucket = folder, Watched()

    def begin(self, name: str = "a", bucket: Watched | None = None) -> Work:
        work = Work(RemoteHome(bucket or self.again()), self.folder / name)
        work.begin()
        return work

    def again(self) -> Watched:
        return Watched(self.bucket.store)

    def in_store(self) -> str:
        """Return what a copy says."""
        places = len(list(self.folder.glob("copy*")))
        copy_down(RemoteHome(self.again()), self.folder / f"copy{places}")
        return words_of(self.folder / f"copy{places}")


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def made(work: Work, words: str) -> None:
    write(Home.open(work.folder), "shop", words)


def killed(work: Work) -> None:
    """End a command as the kernel does: its locks are gone, and nothing else happens."""
    import os

    os.close(work._users)


def test_what_one_machine_made_the_next_goes_on_from(machines: Machines) -> None:
    one = machines.begin("a")
    made(one, "of a")
    assert one.end() == ""
    assert machines.in_store() == "of a"
    two = machines.begin("b")
    assert words_of(two.folder) == "of a"
    made(two, "of b")
    two.end()
    again = machines.begin("a")
    assert words_of(again.folder) == "of b"
    again.end()
    assert machines.in_store() == "of b"


def test_a_second_machine_is_refused_before_it_works(machines: Machines) -> None:
    one = machines.begin("a")
    with pytest.raises(Unavailable, match=r"is being worked on by process \d+ on .* since .*release"):
        machines.begin("b")
    assert not (machines.folder / "b" / "work").exists()
    made(one, "of a")
    with pytest.raises(Unavailable, match="is being worked on"):
        copy_up(Home.open(machines.folder / "other"), RemoteHome(machines.again()))
    RemoteHome(machines.again()).clean()  # does not end it
    one.end()
    machines.begin("b").end()
    assert machines.in_store() == "of a"


def test_two_commands_of_one_machine_share_the_work_and_the_last_one_sends(machines: Machines) -> None:
    one, two = machines.begin("a"), machines.begin("a")
    made(one, "of the first")
    assert "it sends what this one made" in one.end()
    with pytest.raises(InputError, match="holds no home"):
        machines.in_store()
    with pytest.raises(Unavailable):
        machines.begin("b")
    two.end()
    assert machines.in_store() == "of the first"


def test_a_killed_commands_work_is_sent_by_the_next_one_there(machines: Machines) -> None:
    one = machines.begin("a")
    made(one, "of the killed")
    killed(one)
    with pytest.raises(Unavailable):
        machines.begin("b")
    machines.begin("a").end()
    assert machines.in_store() == "of the killed"


def test_what_a_dead_machine_wakes_to_send_is_refused_and_kept(machines: Machines) -> None:
    one = machines.begin("a")
    made(one, "of the sleeper")
    assert "process" in release(RemoteHome(machines.again()))
    two = machines.begin("b")
    made(two, "of the one that went on")
    with pytest.raises(Unavailable, match=r"does not have what was made: .* is being worked on"):
        one.end()
    two.end()
    assert machines.in_store() == "of the one that went on"
    with pytest.raises(InputError, match="others have written that home since"):
        machines.begin("a")
    assert words_of(one.folder) == "of the sleeper"
    copy_down(RemoteHome(machines.again()), one.folder, replace=True)
    machines.begin("a").end()
    assert machines.in_store() == "of the one that went on"


def test_a_home_that_was_given_free_and_that_nobody_took_is_the_workers_still(machines: Machines) -> None:
    one = machines.begin("a")
    made(one, "of a")
    release(RemoteHome(machines.again()))
    with pytest.raises(Unavailable, match="end that one"):
        machines.begin("a")
    one.end()
    assert machines.in_store() == "of a"
    assert release(RemoteHome(machines.again())) == ""


@pytest.mark.parametrize("when", one_of_each(["after", "before"]))
def test_a_command_that_is_killed_at_any_request_loses_nothing(tmp_path: Path, when: str) -> None:
    def steps(machines: Machines, bucket: Watched) -> None:
        work: Work | None = None
        try:
            work = machines.begin("a", bucket)
            made(work, "second")
            work.end()
        except Killed:
            if work is not None and "second" not in machines.in_store():
                assert words_of(work.folder) == "second"
            raise

    def prepared(number: int) -> Machines:
        machines = Machines(tmp_path / f"{number}")
        first = machines.begin("b")
        made(first, "first")
        first.end()
        return machines

    counted = prepared(0)
    bucket = counted.again()
    steps(counted, bucket)
    for number in range(1, len(bucket.asked) + 1):
        machines = prepared(number)
        dying = machines.again()
        setattr(dying, when, kill_at(number))
        with pytest.raises(Killed):
            steps(machines, dying)
        again = machines.begin("a")
        made(again, "second")
        again.end()
        assert machines.in_store() == "second"
        machines.begin("b").end()


def test_a_store_that_does_not_answer_at_the_end_keeps_the_hold_and_the_work(machines: Machines) -> None:
    bucket = machines.again()
    one = machines.begin("a", bucket)
    made(one, "of a")

    def refuse(number: int, what: str) -> None:
        raise Unavailable("the store is away")

    bucket.before = refuse
    with pytest.raises(Unavailable, match="does not have what was made: the store is away It is in"):
        one.end()
    with pytest.raises(TraceError):
        machines.begin("b")
    machines.begin("a").end()
    assert machines.in_store() == "of a"


def test_a_command_that_made_nothing_leaves_no_hold(machines: Machines) -> None:
    machines.begin("a").end()
    machines.begin("b").end()
    with pytest.raises(InputError, match="holds no home"):
        machines.in_store()


def test_what_is_sent_meanwhile_is_where_others_go_on_when_the_machine_is_lost(machines: Machines) -> None:
    one = machines.begin("a")
    made(one, "half of it")
    with exclusive(sync_lock(Home(one.folder)), "trace sync"):
        one.send_meanwhile()
    assert machines.in_store() == "half of it"
    with pytest.raises(Unavailable, match="is being worked on"):
        machines.begin("b")
    one.send_meanwhile()  # nothing new
    with pytest.raises(Unavailable, match="is being worked on"):
        machines.begin("b")
    made(one, "lost with the machine")
    release(RemoteHome(machines.again()))
    two = machines.begin("b")
    assert words_of(two.folder) == "half of it"
    with pytest.raises(Unavailable, match="is being worked on"):
        one.send_meanwhile()
    two.end()
    assert machines.in_store() == "half of it"


def test_two_commands_do_not_send_at_the_same_time(machines: Machines) -> None:
    one, two = machines.begin("a"), machines.begin("a")
    made(one, "of a")
    with exclusive(machines.folder / "a" / "turn", "sending"):
        two.send_meanwhile()
    with pytest.raises(InputError, match="holds no home"):
        machines.in_store()
    two.send_meanwhile()
    assert machines.in_store() == "of a"
    one.end()
    two.end()


def once(act: Callable[[], object]) -> Callable[[int, str], None]:
    left = [act]

    def hook(number: int, what: str) -> None:
        if "writing of home.json" in what and left:
            left.pop()()

    return hook


def test_of_two_machines_that_begin_at_once_one_is_refused(machines: Machines) -> None:
    seed = machines.begin("c")
    made(seed, "first")
    seed.end()
    bucket, others = machines.again(), []
    bucket.before = once(lambda: others.append(machines.begin("b")))
    with pytest.raises(Unavailable, match="meanwhile"):
        machines.begin("a", bucket)
    made(others[0], "of b")
    others[0].end()
    assert machines.in_store() == "of b"


def test_a_content_that_was_altered_in_the_store_is_not_taken_for_work_of_this_machine(
    machines: Machines,
) -> None:
    for words in ("first", "second"):
        one = machines.begin("a")
        made(one, words)
        one.end()
        two = machines.begin("b")
        made(two, words + " again")
        two.end()
    bucket = machines.again()
    for key in bucket.keys("blobs"):
        found = bucket.get(key)
        assert found is not None
        if found.content.startswith(b"PAR1"):
            bucket.put(key, found.content[:-1])
    with pytest.raises(InputError, match=r"shop\.parquet has .* bytes in place of"):
        machines.begin("a")
