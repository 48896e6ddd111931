"""An environment for the tests that uses what environments may import. Only its text is used."""

import bisect
import calendar
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import json
import math
import operator
import random
import re
import statistics
import string
import textwrap
import typing
import unicodedata
import uuid
import warnings
import zoneinfo


def used():
    warnings.warn("careful", stacklevel=1)
    yield calendar.month_name[3], calendar.TextCalendar().formatmonth(2024, 2)[:20]
    yield (
        collections.Counter("abca").most_common(1),
        collections.OrderedDict(a=1),
        collections.UserDict(a=1).copy(),
    )
    yield datetime.datetime.strptime("2024-02-03 04:05", "%Y-%m-%d %H:%M").strftime("%A %d %B %j %U %c")
    yield datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("America/New_York")).utcoffset()
    yield (
        decimal.Decimal(1) / 3,
        fractions.Fraction.from_decimal(decimal.Decimal("0.5")),
        fractions.Fraction("1/3"),
    )
    yield enum.Enum("Color", "RED BLUE").RED, enum.IntFlag("F", "A B")(3)
    yield functools.singledispatch(str)(1), functools.lru_cache(len)("ab"), functools.cached_property(len)
    yield [
        hashlib.new(name, b"a").hexdigest()[:8] for name in ("md5", "sha1", "sha256", "sha3_256", "blake2b")
    ]
    yield uuid.uuid3(uuid.NAMESPACE_DNS, "a"), uuid.uuid5(uuid.NAMESPACE_DNS, "a"), uuid.UUID(int=5)
    yield statistics.quantiles([1, 2, 3, 4]), statistics.NormalDist(0, 1).cdf(1), statistics.mode("aab")
    yield (
        unicodedata.normalize("NFKD", "\u00e9"),
        "\N{SNOWMAN}",
        "caf\u00e9".encode("cp1252"),
        "a".encode("idna"),
    )
    yield string.Template("$a").substitute(a=1), textwrap.fill("a b c", 3), re.sub(r"(?i)A+", "b", "aAc")
    yield (
        copy.deepcopy({"a": [1]}),
        dataclasses.make_dataclass("D", ["x"])(1),
        json.loads(json.dumps({"a": 1.5})),
    )
    yield random.Random(3).sample(range(9), 3), random.choices("abc", k=2), f"{math.pi:.3f}", 10**400 % 97
    yield (
        typing.get_type_hints(lambda: 0),
        operator.attrgetter("real")(1),
        bisect.bisect([1, 2], 2),
        heapq.nlargest(1, [1]),
    )


def told():
    try:
        return json.dumps([repr(one).split(" at 0x")[0] for one in used()])
    except BaseException as error:
        return json.dumps(f"{type(error).__name__}: {error}")


def tools():
    return []


def oracle(seed):
    return []


def reset(seed):
    return [{"role": "user", "content": told()}]


def step(message):
    return {"messages": [], "done": False, "truncated": False}


def verdict():
    return {"reward": 0.0, "success": False, "checks": []}
