"""Machines that begin, work, send, die, wake and are given up in any order: no work that was sent is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.quick import examples
from tests.store.objects.homes import Killed as Dead
from tests.store.objects.homes import Watched, kill_at, write
from tests.store.objects.test_under_way import append, sender
from trace_assets.errors import TraceError
from trace_assets.store import Home
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.work import Work, release

NAMES, ANY = st.sampled_from("abc"), st.integers(0, 2)
NOTE = Path("reports", "note.txt")
Lines = dict[str, bytes]


def lines_of(folder: Path) -> Lines:
    return {path.name: path.read_bytes() for path in (folder / "journals").rglob("*.jsonl")}


class Machines(RuleBasedStateMachine):
    """Three machines and a bucket. What the bucket must hold is known from what succeeded."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="trace-machines-"))
        self.store = Watched().store
        self.works: dict[str, Work] = {}
        self.numbers = 0
        self.note, self.lines, self.under = "", Lines(), Lines()

    def teardown(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def bucket(self) -> Watched:
        return Watched(self.store)

    @property
    def remote(self) -> RemoteHome:
        return RemoteHome(self.bucket())

    @initialize()
    def first(self) -> None:
        work = self._began("a")
        write(Home.open(work.folder), "shop", "a table")
        self.make("a")
        self.end(0)
        self.begin("a")
        self.play(0)

    def _began(self, name: str) -> Work:
        work = Work(RemoteHome(self.bucket()), self.place / name)
        work.begin()
        self.works[name] = work
        return work

    def at_work(self, which: int) -> str:
        """Return one of those who are at work."""
        return sorted(self.works)[which % len(self.works)]

    @precondition(lambda self: len(self.works) < 3)
    @rule(name=NAMES)
    def begin(self, name: str) -> None:
        """Begin; whoever does has the lines that were sent, those of work under way among them."""
        if name in self.works:
            return
        holder = self.remote.state().pointer.worker
        try:
            work = self._began(name)
        except TraceError:
            return
        assert holder in ("", work._worker), "two hold one home"
        found = lines_of(work.folder)
        for sent in (self.lines, self.under):
            assert all(found[file].startswith(text) for file, text in sent.items())

    def make(self, name: str) -> None:
        """Play an episode, and finish an item."""
        folder = self.works[name].folder
        self.numbers += 1
        append(folder, Path("journals", "rollouts", f"{name}.jsonl"), f"episode {self.numbers}")
        (folder / NOTE).parent.mkdir(exist_ok=True)
        (folder / NOTE).write_text(f"{name} {self.numbers}")

    @precondition(lambda self: self.works)
    @rule(which=ANY)
    def play(self, which: int) -> None:
        """Play an episode, and send what is under way: only who holds the home does."""
        name = self.at_work(which)
        self.make(name)
        work, before = self.works[name], self.remote.state().pointer
        sender(work).send()
        if self.remote.state().pointer.commit != before.commit:
            assert before.worker == work._worker
            self._sent_under_way(work)

    def _sent_under_way(self, work: Work) -> None:
        here = lines_of(work.folder)
        self.under |= {file: text for file, text in here.items() if text != self.lines.get(file)}

    @precondition(lambda self: self.works)
    @rule(name=NAMES, which=ANY)
    def take_over(self, name: str, which: int) -> None:
        """Lose a machine, and have another one begin."""
        os.close(self.works.pop(self.at_work(which))._users)
        release(self.remote)
        self.begin(name)

    @precondition(lambda self: self.works)
    @rule(which=ANY)
    def send(self, which: int) -> None:
        """Send the home between two items."""
        work = self.works[self.at_work(which)]
        try:
            with exclusive(sync_lock(Home(work.folder)), "trace sync"):
                work.send_meanwhile()
        except TraceError:
            return
        self._sent(work)

    @precondition(lambda self: self.works)
    @rule(which=ANY)
    def end(self, which: int) -> None:
        """End the command."""
        work = self.works.pop(self.at_work(which))
        try:
            work.end()
        except TraceError:
            return
        self._sent(work)

    def _sent(self, work: Work) -> None:
        for file, text in self.lines.items():
            assert lines_of(work.folder)[file].startswith(text), "others' work was overwritten"
        self.note, self.lines, self.under = (work.folder / NOTE).read_text(), lines_of(work.folder), Lines()

    @precondition(lambda self: self.works)
    @rule(which=ANY, request=st.integers(1, 8), ends=st.booleans())
    def die(self, which: int, request: int, ends: bool) -> None:
        """Be killed at a request of a sending: what it carried out before may be there or not."""
        work = self.works.pop(self.at_work(which))
        bucket = self.bucket()
        bucket.after = kill_at(request)
        before, dying = self.remote.state().pointer, RemoteHome(bucket)
        try:
            if ends:
                work.remote = dying
                work.end()
            else:
                sender(work, bucket).send()
        except (Dead, TraceError):
            pass
        after = self.remote.state().pointer
        if after.home != before.home:
            self._sent(work)
        elif after.under_way is None and before.under_way is not None:
            self.under = Lines()
        elif after.under_way != before.under_way:
            self._sent_under_way(work)
        if not ends:
            os.close(work._users)

    @rule()
    def give_free(self) -> None:
        """Take the home from whoever holds it."""
        release(self.remote)

    @rule()
    def clean(self) -> None:
        """Remove what nothing needs."""
        self.remote.clean()

    @invariant()
    def the_bucket_holds_what_was_sent(self) -> None:
        remote = self.remote
        state = remote.state()
        if not state.holds_home:
            return
        files = remote.files(state)
        read = {name: b"".join(remote.read(one.content, name)) for name, one in files.items()}
        assert read[NOTE.as_posix()].decode() == self.note
        assert {Path(n).name: text for n, text in read.items() if n.startswith("journals/")} == self.lines
        under = {
            Path(name).name: b"".join(b"".join(remote.read(part, name)) for part in piece.parts)
            for name, piece in remote.under_way(state).items()
        }
        assert under == self.under


TestMachinesInTurn = pytest.mark.ci(Machines.TestCase)
TestMachinesInTurn.settings = settings(max_examples=examples(40), stateful_step_count=20, deadline=None)
