"""A store that ignores a condition of a write is refused; one that keeps them all is left as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.objects.s3_server import BUCKET, CONDITIONS, SECRET, S3Server, first, serving
from trace_assets.errors import Unavailable
from trace_assets.store.objects.bucket import Bucket, broken_condition, require_conditions
from trace_assets.system.object_address import parse_address


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving() as one:
        yield one


@pytest.fixture
def bucket(server: S3Server) -> Bucket:
    return Bucket.open(parse_address(f"s3://{BUCKET}/study"), retries=2)


def test_a_store_that_keeps_conditions_is_fit_and_nothing_is_left_in_it(bucket: Bucket) -> None:
    assert broken_condition(bucket) == ""
    assert bucket.keys("") == []


@pytest.mark.parametrize(
    ("ignored", "said"), [("HTTP_IF_NONE_MATCH", "If-None-Match"), ("HTTP_IF_MATCH", "If-Match")]
)
def test_a_store_that_ignores_one_condition_is_refused(
    server: S3Server, bucket: Bucket, ignored: str, said: str
) -> None:
    assert ignored in CONDITIONS
    server.fault = lambda request: str(request.pop(ignored, ""))[:0]
    with pytest.raises(Unavailable, match=rf"ignores {said}.*cannot hold a home"):
        require_conditions(bucket)
    assert bucket.keys("") == []


def test_a_store_that_lets_several_make_one_object_at_once_is_refused(
    server: S3Server, bucket: Bucket
) -> None:
    """It compares, and then writes: it is seen only when many come at the same time."""
    paths: list[str] = []

    def fault(request: dict[str, object]) -> str:
        if request["REQUEST_METHOD"] == "PUT":
            paths.append(str(request["PATH_INFO"]))
            return "" if paths[-1] == paths[0] else "unconditional"
        return ""

    server.fault = fault
    assert "make the same object at once" in broken_condition(bucket)


def test_a_store_that_cannot_be_used_says_so_in_one_sentence_without_secrets(
    server: S3Server, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fault = first("503", "PUT", "", times=99)
    with pytest.raises(Unavailable, match="failed at the writing of") as caught:
        require_conditions(bucket)
    assert SECRET not in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(Unavailable, match="there is no such bucket"):
        require_conditions(Bucket.open(parse_address("s3://another"), retries=0))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(Unavailable):
        require_conditions(Bucket.open(parse_address(f"s3://{BUCKET}"), retries=0))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"\[objects\]"):
        Bucket.open(parse_address("s3://bucket/study"))
