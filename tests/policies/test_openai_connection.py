"""The connection that policies and analysts share: what is sat out, what is not, and what is never said."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.answering import Answer, InTurn, completion, failure
from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.openai_connection import Connection, Retries
from trace_assets.policies.openai_faults import ServerFault, conceal, parse_retry_after, public_url
from trace_assets.system.machine import certificates

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


@pytest.fixture
def serve() -> Iterator[Callable[..., InTurn]]:
    with ExitStack() as servers:

        def start(*answers: Answer) -> InTurn:
            server = InTurn(*answers)
            servers.callback(server.close)
            return server

        yield start


def ask(server: InTurn, *, user: str = "", **retries: Any) -> tuple[Any, list[str], Connection]:
    kinds: list[str] = []
    connection = Connection(
        server.v1.replace("//", f"//{user}"),
        retries=Retries(**{"first_pause": 0.01, **retries}),
        on_fault=lambda fault: kinds.append(fault.kind),
    )

    async def run() -> Any:
        try:
            return await connection.complete(BODY)
        except ServerFault as fault:
            return fault
        finally:
            await connection.close()

    return asyncio.run(run()), kinds, connection


def test_no_proxy_stands_before_a_server_on_this_machine(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        said, kinds, _ = ask(serve(completion("hi")), more=0)
    assert said.choices[0].message.content == "hi" and kinds == []


def test_every_fault_is_counted_also_those_that_passed(serve: Any) -> None:
    server = serve(
        failure(500),
        failure(429, retry_after_ms="5"),
        (200, {}, {"choices": []}),
        failure(408),
        completion("hi"),
    )
    answer, kinds, _ = ask(server)
    assert answer.choices[0].message.content == "hi"
    assert kinds == ["server", "rate_limit", "empty", "server"]


def test_rate_limits_do_not_use_up_the_attempts(serve: Any) -> None:
    server = serve(*[failure(429, retry_after_ms="1")] * 6, failure(500), completion("hi"))
    answer, kinds, _ = ask(server, more=1)
    assert answer.choices
    assert kinds == ["rate_limit"] * 6 + ["server"]
    fault, kinds, _ = ask(serve(failure(429, retry_after_ms="1")), waits=3)
    assert (fault.kind, len(kinds)) == ("rate_limit", 4)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (failure(429, "You exceeded your current quota", "insufficient_quota"), "key", "has credit"),
        (failure(429, "later", retry_after="9999"), "rate_limit", "asks to wait 9999 s"),
        (failure(400, "no such field"), "request", "HTTP 400"),
        (failure(422, "this is too long for me"), "full", "HTTP 422"),
        (failure(403), "key", "refuses the key"),
    ],
)
def test_what_waiting_does_not_mend_is_said_at_once(serve: Any, answer: Any, kind: str, words: str) -> None:
    server = serve(answer)
    fault, kinds, connection = ask(server)
    assert (fault.kind, kinds, len(server.requests)) == (kind, [kind], 1)
    error = connection.explain(fault, model="m", setting="analyst.base_url")
    assert isinstance(error, InputError if kind == "key" else Unavailable)
    assert words in str(error)


def test_a_password_in_the_address_is_not_said(serve: Any) -> None:
    fault, _, connection = ask(serve(failure(500, "boom")), user="me:hunter2@", more=0)
    assert "hunter2" not in str(connection.explain(fault, model="m", setting="s"))


def test_a_key_that_the_server_echoes_is_struck_out(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plain-words-as-key")
    fault, _, connection = ask(serve(failure(401, "Incorrect API key provided: plain-words-as-key")))
    assert "***" in fault.said
    for text in (
        str(fault),
        repr(fault),
        str(connection.explain(fault, model="m", setting="s")),
        repr(vars(connection)),
    ):
        assert "plain-words" not in text
    assert fault.__cause__ is None


@given(st.text(min_size=4, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_concealing_leaves_no_key(secret: str, before: str, after: str) -> None:
    assert (
        secret not in conceal(before + secret + after, secret)
        or secret in "***"
        or secret in conceal(before + after, secret)
    )


@given(st.none() | st.text(max_size=20), st.none() | st.text(max_size=40))
def test_no_header_breaks_the_reading_of_retry_after(milliseconds: str | None, value: str | None) -> None:
    seconds = parse_retry_after(milliseconds, value, 0.0)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    "address", ["localhost:8000/v1", "http://", "http://[::1", "ftp://h/v1", "http://h:x/v1", "words"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="must look like"):
        Connection(address)


def test_addresses_are_shown_without_secrets() -> None:
    assert public_url("http://a:b@h/v1?key=c#d") == "http://h/v1"
    assert public_url("http://127.0.0.1:8000/v1") == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_a_server_gave_up_as_it_was_shut_down_is_asked_for_again(
    serve: Any, reason: str
) -> None:
    server = serve(completion("I have can", reason), completion("I have cancelled it."))
    said, kinds, _ = ask(server)
    assert said.choices[0].message.content == "I have cancelled it." and kinds == ["garbage"]


def test_certificates_are_read_once_and_those_that_the_environment_names_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, end = Path(certifi.where()).read_text(encoding="utf-8"), "-----END CERTIFICATE-----\n"
    one = tmp_path / "one.pem"
    one.write_text(bundle.partition(end)[0] + end, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(one))
    own, named = certificates(False), certificates(True)
    assert own is certificates(False) is not named is certificates(True)
    assert len(own.get_ca_certs()) > 1 == len(named.get_ca_certs())
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert len(certificates(True).get_ca_certs()) == len(own.get_ca_certs())
    connection = Connection("http://127.0.0.1:9/v1")

    async def used() -> ssl.SSLContext:
        client = connection._connected()._client
        return client._transport._pool._ssl_context  # type: ignore[attr-defined, no-any-return]

    assert asyncio.run(used()) is own
