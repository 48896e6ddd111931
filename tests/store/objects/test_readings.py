"""What comes wrong out of a store once, and right the next time; and what is told of requests that fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.objects.homes import Watched, contents, make_home, words_of, write
from tests.store.objects.s3_server import S3Server, first, serving
from tests.store.objects.test_faults import at
from trace_assets.errors import InputError, Unavailable
from trace_assets.store.objects import remote
from trace_assets.store.objects.bucket import Found
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.upload import copy_up


class Faulty(Watched):
    """Gives one reading of each object wrong, or as many as it is told."""

    def __init__(self, store: Any, damage: Callable[[bytes], bytes | None], times: int = 1) -> None:
        super().__init__(store)
        self._damage, self._times = damage, times
        self.read: dict[str, int] = {}

    def get(self, key: str) -> Found | None:
        """Return an object, or what came of it."""
        found = super().get(key)
        self.read[key] = self.read.get(key, 0) + 1
        if found is None or self.read[key] > self._times:
            return found
        content = self._damage(found.content)
        return None if content is None else Found(content, found.tag)


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "cut short": lambda content: content[: len(content) // 2],
    "nothing": lambda content: b"",
    "a bit": lambda content: bytes([content[0] ^ 1]) + content[1:] if content else content,
    "a page of a portal": lambda content: b"<html>log in</html>",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_came_wrong_is_read_again_before_it_is_called_altered(name: str, tmp_path: Path) -> None:
    home, watched = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(watched))
    copy_down(RemoteHome(Faulty(watched.store, DAMAGES[name])), tmp_path / "back")
    assert contents(tmp_path / "back") == contents(home.path)
    write(home, "shop", "second")
    copy_up(home, RemoteHome(Faulty(watched.store, DAMAGES[name])))
    copy_down(RemoteHome(watched), tmp_path / "second")
    assert words_of(tmp_path / "second") == "second"
    with pytest.raises(InputError, match="is not what was written"):
        copy_down(RemoteHome(Faulty(watched.store, DAMAGES["a bit"], remote.READINGS)), tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_an_object_that_is_shown_late_is_read_again(tmp_path: Path) -> None:
    home, watched = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(watched))
    pointer = Watched(watched.store).get(remote.POINTER)
    late = Faulty(watched.store, lambda content: content if pointer and content == pointer.content else None)
    copy_down(RemoteHome(late), tmp_path / "back")
    assert contents(tmp_path / "back") == contents(home.path)


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving() as one:
        yield one


def test_a_reading_in_conflict_is_one_sentence(server: S3Server, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, at())
    server.fault = first("409", "GET", "", times=99)
    asks: list[Callable[[], object]] = [
        lambda: copy_up(home, at()),
        lambda: copy_down(at(), tmp_path / "back"),
        lambda: at().bucket.keys("blobs"),
    ]
    for ask in asks:
        with pytest.raises(Unavailable, match=r"failed at the (reading|listing) of"):
            ask()
    server.fault = lambda request: ""
    copy_down(at(), tmp_path / "back")
    assert contents(tmp_path / "back") == contents(home.path)


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("<Code>RequestTimeTooSkewed</Code>", "set the clock of this machine"),
        ("<Code>AccessDenied</Code>", "set AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_clock_that_goes_wrong_is_not_taken_for_a_wrong_key(said: str, way: str) -> None:
    from obstore.exceptions import PermissionDeniedError

    def refuse() -> None:
        raise PermissionDeniedError(f"403 Forbidden: {said}")

    with pytest.raises(Unavailable, match=way):
        Watched()._ask("the reading of home.json", refuse)


def test_a_name_that_is_no_text_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    home, watched = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(watched))
    odd = os.fsencode(home.path) + b"/answers-\xff"
    with open(odd, "wb") as file:
        file.write(b"x")
    write(home, "shop", "second")
    with pytest.raises(InputError, match=r"a name that is no UTF-8.*rename it"):
        copy_up(home, RemoteHome(watched))
    copy_down(RemoteHome(watched), tmp_path / "back")
    assert words_of(tmp_path / "back") == "first"
    os.unlink(odd)
    copy_up(home, RemoteHome(watched))


def test_what_a_killed_copy_had_laid_out_is_removed_by_the_next(tmp_path: Path) -> None:
    home, watched = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(watched))
    (tmp_path / ".back.abcd_123.laying").mkdir()
    others = tmp_path / ".back.2.abcd_123.laying"
    others.mkdir()
    copy_down(RemoteHome(watched), tmp_path / "back")
    assert [one for one in tmp_path.iterdir() if one.name.startswith(".")] == [others]
