"""After a power cut a copy of a home from a bucket is the old one or the new one; it can be fetched again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.crash_layer import VARIANTS, CrashLayer, lay
from tests.store.objects.homes import Watched, contents, make_home, write
from trace_assets.store.files import Home
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.upload import copy_up

STATES = 16


def states(layer: CrashLayer, name: str, first: int = 0) -> list[tuple[str, dict[str, bytes | None]]]:
    """Return states after a cut that differ, spread over the whole sequence."""
    found: dict[str, tuple[str, dict[str, bytes | None]]] = {}
    for number, step in enumerate(layer.steps[first:], first):
        for variant in VARIANTS:
            tree = dict(layer.tree(number, variant))
            key = repr(sorted((path, content) for path, content in tree.items()))
            found.setdefault(key, (f"{name} after {number} ({step.call}), {variant}", tree))
    every = list(found.values())
    return every[:: max(1, len(every) // STATES)] + every[-1:]


def test_a_first_fetch_is_whole_or_is_not_there(tmp_path: Path) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))
    layer = CrashLayer(tmp_path / "disk")
    with layer.listening():
        copy_down(RemoteHome(bucket), layer.root / "back", threads=1)
    whole = contents(home.path)
    for name, tree in states(layer, "first fetch"):
        lay(layer.root, tree)
        back = layer.root / "back"
        if back.exists() and any(back.iterdir()):
            assert contents(back) == whole, name
        copy_down(RemoteHome(bucket), back, threads=1)
        assert contents(back) == whole, name
    lay(layer.root, layer.tree(len(layer.steps) - 1, "synced"))
    assert contents(layer.root / "back") == whole, "a finished command is on the disk"


@pytest.mark.ci
def test_a_copy_that_follows_its_home_is_the_old_one_or_the_new(tmp_path: Path) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))
    layer = CrashLayer(tmp_path / "disk")
    back = layer.root / "back"
    old = contents(home.path)
    with layer.listening():
        copy_down(RemoteHome(bucket), back, threads=1)
        first = len(layer.steps)
        write(Home(home.path), "shop", "second")
        copy_up(home, RemoteHome(bucket))
        new = contents(home.path)
        copy_down(RemoteHome(bucket), back, threads=1)
    for name, tree in states(layer, "update", first):
        lay(layer.root, tree)
        assert contents(back) in (old, new), name
        copy_down(RemoteHome(bucket), back, threads=1)
        assert contents(back) == new, name
