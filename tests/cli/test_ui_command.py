"""`trace ui` takes a free port and a home that nobody else has open, and says what is in the way."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from trace_assets.cli.ui import check_free, held
from trace_assets.errors import InputError, Unavailable
from trace_assets.store import Home


def test_a_home_is_open_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with held(home, "http://127.0.0.1:3000"):
        with (
            pytest.raises(Unavailable, match=r"open at http://127\.0\.0\.1:3000 \(process \d+ on"),
            held(home, "http://127.0.0.1:3001"),
        ):
            pytest.fail("two pages")
        with held(Home(tmp_path / "other"), "http://127.0.0.1:3001"):
            pass
    with held(home, "http://127.0.0.1:3001"):
        pass


def test_what_goes_wrong_meanwhile_is_not_taken_for_a_page(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="mine"), held(Home(tmp_path), "a"):
        raise TimeoutError("mine")


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{port} \(Address already in use\)"):
            check_free("127.0.0.1", port)
    check_free("127.0.0.1", port)
    with pytest.raises(InputError, match="no address of this machine"):
        check_free("no such host", 3000)
