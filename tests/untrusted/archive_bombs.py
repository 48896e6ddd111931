"""Inspect logs: archives that unfold, lie and repeat themselves, and plain ones."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.untrusted.bombs import MB, bomb


def sample(number: int, **changes: Any) -> dict[str, Any]:
    """Return a usable sample."""
    row = {
        "id": f"s{number}",
        "epoch": 1,
        "input": "hi",
        "target": "x",
        "uuid": f"sample-{number}",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        "scores": {"match": {"value": "C"}},
    }
    return {**row, **changes}


RUN = {"eval": {"task": "t", "model": "m", "eval_id": "e", "run_id": "r"}, "plan": {}, "status": "success"}


class Archive:
    """An archive under construction, with two good samples and whatever else."""

    def __init__(self, path: Path) -> None:
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)

    def __enter__(self) -> Archive:
        self.put("header.json", json.dumps(RUN))
        self.put("samples/a_epoch_1.json", json.dumps(sample(1)))
        return self

    def __exit__(self, *error: object) -> None:
        self.put("samples/z_epoch_1.json", json.dumps(sample(2)))
        self.zip.close()

    def put(self, name: str, data: str | bytes | Iterable[bytes]) -> None:
        """Add a member, piece by piece where it is large."""
        if isinstance(data, str | bytes):
            self.zip.writestr(name, data)
            return
        with self.zip.open(name, "w", force_zip64=True) as member:
            for piece in data:
                member.write(piece)


def large_sample(megabytes: int) -> Iterator[bytes]:
    yield b'{"id":"big","uuid":"big","epoch":1,"input":"hi","target":"x",'
    yield b'"messages":[{"role":"user","content":"'
    for _ in range(megabytes):
        yield b"x" * MB
    yield b'"}]}'


@bomb("eval", 2, "samples/big", "allowed")
def a_sample_of_a_hundred_megabytes(path: Path) -> None:
    with Archive(path) as archive:
        archive.put("samples/big_epoch_1.json", large_sample(120))


@bomb("eval", 2, "samples/big", "damaged")
def a_sample_in_zstandard_that_lies_about_its_size(path: Path) -> None:
    with Archive(path) as archive:
        archive.put("samples/big_epoch_1.json", packed(120))
    as_zstandard(path, {"samples/big_epoch_1.json": 1000})


def as_zstandard(path: Path, sizes: dict[str, int]) -> None:
    """Make members of an archive, which hold Zstandard's bytes, ones of that method and of some sizes."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            method = zipfile.ZIP_STORED if name in sizes else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), data, method)
    raw = bytearray(path.read_bytes())
    for signature, method_at, size_at, name_at, length_at in (
        (b"PK\x03\x04", 8, 22, 30, 26),
        (b"PK\x01\x02", 10, 24, 46, 28),
    ):
        at = raw.find(signature)
        while at >= 0:
            length = struct.unpack_from("<H", raw, at + length_at)[0]
            size = sizes.get(raw[at + name_at : at + name_at + length].decode("latin-1"))
            if size is not None:
                struct.pack_into("<H", raw, at + method_at, 93)
                struct.pack_into("<I", raw, at + size_at, size)
            at = raw.find(signature, at + 1)
    path.write_bytes(raw)


def packed(megabytes: int) -> bytes:
    """Return a large sample as Zstandard packs it."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for piece in large_sample(megabytes):
            stream.write(piece)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@bomb("eval", 3, "cannot be read")
def one_member_under_many_names(path: Path) -> None:
    """Members that share one piece of compressed data (overlapping entries)."""
    with Archive(path) as archive:
        archive.put("samples/b_epoch_1.json", large_sample(3))
    with_members(path, [f"samples/b{n:07d}_1"[:17].encode() for n in range(3000)])


def with_members(path: Path, names: list[bytes]) -> None:
    """List the member `samples/b_epoch_1.json` under further names of the same length."""
    raw = path.read_bytes()
    begin, end = raw.find(b"PK\x01\x02"), raw.find(b"PK\x05\x06")
    entry = raw.find(b"PK\x01\x02", raw.find(b"samples/b", begin) - 60)
    length = 46 + sum(struct.unpack_from("<HHH", raw, entry + 28))
    copied = raw[entry : entry + length]
    listing = raw[begin:end] + b"".join(copied.replace(b"samples/b_epoch_1", name) for name in names)
    ending = bytearray(raw[end:])
    total = min(0xFFFE, raw[begin:end].count(b"PK\x01\x02") + len(names))
    struct.pack_into("<HHII", ending, 8, total, total, len(listing), begin)
    path.write_bytes(raw[:begin] + listing + ending)


@bomb("eval", 0, "list of members")
def three_hundred_thousand_members(path: Path) -> None:
    """A list of the same member again and again."""
    with Archive(path) as archive:
        archive.put("samples/b_epoch_1.json", json.dumps(sample(3)))
    with_members(path, [b"samples/b_epoch_1"] * 300_000)


@bomb("eval", 2, "unfolds to more than")
def many_members_of_one_text(path: Path) -> None:
    """Each no larger than it may be; together far more than the archive."""
    data, size = packed(2), sum(map(len, large_sample(2)))
    names = [f"samples/b{number:02d}_epoch_1.json" for number in range(80)]
    with Archive(path) as archive:
        for name in names:
            archive.put(name, data)
    as_zstandard(path, dict.fromkeys(names, size))


@bomb("eval", 2, "samples/zip")
def a_zip_in_a_zip(path: Path) -> None:
    inner = path.with_suffix(".inner")
    with Archive(inner) as archive:
        archive.put("samples/big_epoch_1.json", large_sample(200))
    with Archive(path) as archive:
        archive.put("samples/zip_epoch_1.json", inner.read_bytes())
    inner.unlink()


@bomb("eval", 2, "attachments")
def one_attachment_everywhere(path: Path) -> None:
    said = [{"role": "user", "content": "attachment://a"}] * 5000
    with Archive(path) as archive:
        big = sample(3, messages=said, attachments={"a": "y" * MB}, uuid="big")
        archive.put("samples/big_epoch_1.json", json.dumps(big))


@bomb("eval", 2, "nested")
def a_deep_sample(path: Path) -> None:
    with Archive(path) as archive:
        deep = json.dumps(sample(3))[:-1] + ',"metadata":' + '{"a":' * 700 + "1" + "}" * 701
        archive.put("samples/big_epoch_1.json", deep)


@bomb("eval", 3)
def a_sample_that_is_mostly_events(path: Path) -> None:
    """Legitimate: what is not read of a sample may be large."""
    with Archive(path) as archive:
        events = [{"event": "model", "text": "z" * 1000}] * 20_000
        archive.put("samples/big_epoch_1.json", json.dumps(sample(3, events=events)))


@bomb("eval", 3)
def nan_in_a_sample(path: Path) -> None:
    with Archive(path) as archive:
        archive.put(
            "samples/big_epoch_1.json", json.dumps(sample(3, scores={"match": {"value": float("nan")}}))
        )


@bomb("eval", 0, "header.json", "allowed")
def a_header_of_gigabytes(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("header.json", "w", force_zip64=True) as member:
            for piece in large_sample(200):
                member.write(piece)
        archive.writestr("samples/a_epoch_1.json", json.dumps(sample(1)))


@bomb("json", 2, "memory")
def a_large_sample_in_json(path: Path) -> None:
    with path.open("wb") as file:
        file.write(json.dumps({**RUN, "samples": [sample(1)]}).encode()[:-2] + b",")
        for piece in large_sample(80):
            file.write(piece)
        file.write(b"," + json.dumps(sample(2)).encode() + b"]}")
