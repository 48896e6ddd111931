"""Addresses of object stores: what is read, what is refused, and that no secret is repeated."""

from __future__ import annotations

import pytest

from trace_assets.errors import InputError
from trace_assets.system.object_address import parse_address


@pytest.mark.parametrize("text", ["s3://bucket", "gs://my-bucket/a", "az://box/a/b=c/d.e_f+g-h"])
def test_an_address_reads_as_it_is_written(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA:hushhush@bucket/study",
        "s3://hushhush@bucket/study",
        "https://account.blob.core.windows.net/box?sig=hushhush",
        "s3://bucket/study?secret=hushhush",
        "s3://bucket/study#hushhush",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InputError, match="neither user, password nor parameters") as caught:
        parse_address(text)
    assert "hushhush" not in str(caught.value) and "AKIA" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://host/study",
        "s3:///study",
        "s3://buck et/a",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://[x/y",
    ],
)
def test_what_is_no_address_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError):
        parse_address(text)
