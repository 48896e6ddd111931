"""What a hint tells one to install is there to be installed: the copy that is at work, with its extra."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from trace_assets import errors
from trace_assets.errors import Unavailable, install_command, require_extra


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({"url": "file:///src/trace", "dir_info": {"editable": True}}, "pip install -e '/src/trace[train]'"),
        (
            {"url": "file:///dist/trace_assets-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'trace-assets[train] @ file:///dist/trace_assets-0.1.0-py3-none-any.whl'",
        ),
        (None, "pip install 'trace-assets[train]'"),
    ],
)
def test_it_is_the_copy_that_is_at_work(
    origin: dict[str, object] | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(read_text=lambda _: None if origin is None else json.dumps(origin))
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
    assert install_command("train") == said
    with pytest.raises(Unavailable) as told:
        require_extra("no_such_module", "train", "the test")
    assert said in str(told.value) and errors.Unavailable.exit_code == 3
