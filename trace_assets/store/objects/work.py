"""Work on a home in a bucket: in a folder of this machine, which is sent when the command ends.

Whoever works holds the home: others who want to write are refused at once, not when their work is done. A
worker who was killed still holds it. The next command on the same machine goes on from its folder; for others
`trace home release` gives the home free, and what the dead one wakes to send is refused once others wrote. No
clock decides.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.store.files import Home, write_text
from trace_assets.store.locks import exclusive
from trace_assets.store.manifest import MANIFEST
from trace_assets.store.objects.bucket import Bucket, require_conditions
from trace_assets.store.objects.download import Occupied, copy_down, make_place, place_of
from trace_assets.store.objects.home_files import known_copies
from trace_assets.store.objects.remote import RemoteHome, State, held
from trace_assets.store.objects.under_way import Stopped, UnderWay, take_up
from trace_assets.store.objects.upload import copy_up, require_free
from trace_assets.system.object_address import parse_address

UNDER_WAY_SECONDS = 30.0
"""Between two sendings of what is under way."""
_log = logging.getLogger(__name__)


class Work:
    """One command's work on a home in a bucket; several on one machine share a folder.

    Args:
        remote: The home.
        place: Folder of this machine for what it keeps of it.

    Attributes:
        folder: Where it is worked on.
    """

    def __init__(self, remote: RemoteHome, place: Path) -> None:
        self.remote, self.folder = remote, place / "work"
        self._place = place
        self._ends = threading.Event()
        make_place(place)
        # Held, shared, as long as a command works: who has it alone is the only one, or the last.
        self._users = os.open(place / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def begin(self) -> None:
        """Hold the home, and have its files in the folder.

        Raises:
            Unavailable: Another works on it, or the store does not answer or keeps no conditions.
            InputError: The folder holds work that was not sent, and others have written the home since.
        """
        try:
            with exclusive(self._place / "turn", "beginning"):
                self._hold()
                fcntl.flock(self._users, fcntl.LOCK_SH)
        except BaseException:
            os.close(self._users)
            raise

    def _hold(self) -> None:
        state = self.remote.state()
        if state.tag is None:
            require_conditions(self.remote.bucket)
        require_free(self.remote, state, self._worker)
        if self._is_alone():
            self._fetch(state)
            if state.pointer.under_way is not None and state.pointer.under_way_of != self._worker:
                take_up(self.remote, state, self.folder)
        elif state.pointer.worker != self._worker:
            raise Unavailable(
                f"{self.remote.name} was given free while another command works on it here; end that one."
            )
        if state.pointer.worker != self._worker:
            self.remote.commit(state, held(state, self._worker))

    def send_meanwhile(self) -> None:
        """Send what was made so far and hold the home on; the caller has the lock of the home's sync.

        Raises:
            Unavailable: It could not be sent now; `end` sends it.
            InputError: The same.
        """
        if (self.folder / MANIFEST).is_file():
            with suppress(TimeoutError), exclusive(self._place / "turn", "sending", patience=0):
                copy_up(Home(self.folder), self.remote, worker=self._worker, meanwhile=True)

    def keep_sending(self, seconds: float) -> None:
        """Send in the background what is under way, until `end`.

        Args:
            seconds: Between two sendings.
        """
        threading.Thread(target=self._keep_sending, args=(seconds,), name="under way", daemon=True).start()

    def _keep_sending(self, seconds: float) -> None:
        under_way = UnderWay(self.remote, self.folder, self._worker, self._ends.is_set)
        while not self._ends.wait(seconds):
            try:
                with exclusive(self._place / "turn", "sending what is under way", patience=0):
                    under_way.send()
            except (TimeoutError, Stopped):
                continue  # another command sends, or this one ends
            except (TraceError, OSError) as error:
                _log.warning("what is under way was not sent, and is tried again: %s", error)

    def end(self) -> str:
        """Send what was made and give the home free; the last of several commands does it for all.

        Returns:
            A sentence where another command will do it; else nothing.

        Raises:
            Unavailable: It could not be sent.
        """
        self._ends.set()
        try:
            with exclusive(self._place / "turn", "sending"):
                if not self._is_alone():
                    return f"another command works on {self.remote.name} here: it sends what this one made."
                self._send()
        except TraceError as error:
            raise Unavailable(
                f"{self.remote.name} does not have what was made: {error} It is in {self.folder}; the next "
                "command that writes sends it."
            ) from error
        finally:
            os.close(self._users)
        return ""

    def _is_alone(self) -> bool:
        """Whether no other command of this machine works there; this one's own share is lost by asking."""
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _send(self) -> None:
        if (self.folder / MANIFEST).is_file():
            copy_up(Home(self.folder), self.remote, worker=self._worker)
            return
        state = self.remote.state()
        if state.pointer.worker == self._worker:
            self.remote.commit(state, held(state, ""), last=True)

    def _fetch(self, state: State) -> None:
        known = known_copies(self.folder).get(self.remote.name)
        if not state.holds_home:
            return
        if known is not None and state.pointer.home in known.commits:
            return  # what is newer here was not sent yet
        try:
            copy_down(self.remote, self.folder)
        except Occupied:
            raise InputError(
                f"{self.folder} holds work that {self.remote.name} does not have, and others have written "
                f"that home since. `trace home copy {self.folder} {self.remote.name}-2` keeps it as another "
                f"home, `trace home copy {self.remote.name} {self.folder} --replace` gives it up."
            ) from None

    @property
    def _worker(self) -> str:
        """What this machine's folder is known by."""
        file = self._place / "worker"
        if not file.is_file():
            write_text(file, uuid4().hex)
        return file.read_text(encoding="utf-8").strip()


_begun: list[Work] = []


def work_on(text: str) -> Path:
    """Begin to work on the home at an address; `end_work` ends it.

    Returns:
        The folder to work in.

    Raises:
        Unavailable: See `Work.begin`.
        InputError: See there.
    """
    address = parse_address(text)
    work = Work(RemoteHome(Bucket.open(address)), place_of(address))
    work.begin()
    work.keep_sending(UNDER_WAY_SECONDS)
    _begun.append(work)
    return work.folder


def send_meanwhile() -> None:
    """Send what was made so far in all folders of this process; see `Work.send_meanwhile`."""
    for work in _begun:
        work.send_meanwhile()


def end_work() -> list[str]:
    """Send what was made in all folders of this process.

    Returns:
        A sentence for each that another command will send.

    Raises:
        Unavailable: Something could not be sent.
    """
    said = []
    while _begun:
        said.append(_begun.pop().end())
    return [one for one in said if one]


def release(remote: RemoteHome) -> str:
    """Give a home free whose worker is gone for good.

    Returns:
        Who that was and since when; nothing where nobody held it.

    Raises:
        Unavailable: The store does not answer.
    """
    state = remote.state()
    if state.pointer.worker:
        remote.commit(state, held(state, ""))
    return state.pointer.held
