"""What every section of `trace.toml` is: validated values with one fingerprint."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from trace_assets.described import Described

LARGEST = 2**63
"""The first whole number that no table holds."""
MOST_TRIALS = 10_000
"""Episodes of one task; each is listed before the first is played."""


class Section(Described):
    """Base of all sections: unknown keys are errors, values are validated."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        allow_inf_nan=False,  # an infinite price times no token is NaN, and no cap is below that
    )

    @classmethod
    def sentence(cls) -> str:
        """Return what the section is about; nothing where Python was told to keep no docstrings (`-OO`)."""
        return (cls.__doc__ or "").partition("\n")[0]

    expert: ClassVar[frozenset[str]] = frozenset()
    """Keys that hardly anybody has a reason to touch: listed apart."""

    added: ClassVar[frozenset[str]] = frozenset()
    """Keys that came with a later version: at their defaults they leave the fingerprint, and what was made
    before them, as it was."""

    came: ClassVar[Mapping[str, Any]] = {}
    """Those of `added` whose default has moved since, with the one that they came with: at that value the
    fingerprint is as it was, so that what was made before is due where its settings are the new ones."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Keys that say where and how fast work is done, and decide nothing: never part of the fingerprint."""

    idle: ClassVar[frozenset[str]] = frozenset()
    """Keys that have come to decide nothing: the fingerprint holds them at their defaults, so that it stays
    what it was where they were never set."""

    @field_validator("*")
    @classmethod
    def _no_secrets(cls, value: Any, info: ValidationInfo) -> Any:
        """Settings are stored and shown in many places, so no address in them may hold a password or key."""
        refuse_secrets(info.field_name or "", value)
        return value

    @field_validator("*")
    @classmethod
    def _is_storable(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what no table can hold and no generator of random numbers takes, before hours of work."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and not -LARGEST <= value < LARGEST:
            raise ValueError("it must be a whole number of 64 bits")
        if whole and value < 0 and (info.field_name or "").endswith("seed"):
            raise ValueError("a seed must not be negative")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ValueError("it is no UTF-8 text") from error
        return value

    def deciding(self) -> dict[str, Any]:
        """Return the values that decide a result, as JSON has them."""
        return self.model_dump(mode="json", exclude=set(self.apart | self.idle))

    def fingerprint(self) -> str:
        """Return a hash of the values that decide a result, the same on every machine."""
        fields = type(self).model_fields
        values = self.deciding()
        values |= {name: fields[name].default for name in self.idle if name not in values}
        for name in self.added:
            if getattr(self, name) == self.came.get(name, fields[name].default):
                del values[name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def moved_since(self, fingerprint: str, name: str) -> str:
        """Say which defaults have moved since a fingerprint was taken; empty where something else differs.

        Args:
            fingerprint: Of the section, by this or an earlier version.
            name: The section's.
        """
        moved = {
            key: value
            for key, value in self.came.items()
            if key not in self.model_fields_set and getattr(self, key) != value
        }
        if not moved or self.model_copy(update=moved).fingerprint() != fingerprint:
            return ""
        return "; ".join(
            f"{name}.{key} comes as '{getattr(self, key)}' now, and came as '{value}' (set that to keep it)"
            for key, value in moved.items()
        )


# Overrides in settings: what a person says in the place of a rule, with the reason.


def verdict_and_reason(words: str) -> tuple[str, str]:
    """Split an override into what is decided and why.

    >>> verdict_and_reason("agent: it had been told so in message 4")
    ('agent', 'it had been told so in message 4')
    """
    verdict, _, why = words.partition(":")
    return verdict.strip(), why.strip()


def require_reasons(said: Mapping[str, str], verdicts: Sequence[str]) -> None:
    """Refuse an override that decides nothing known, or does not say why.

    Raises:
        ValueError: One does not begin with one of the verdicts, or has fewer than two words after it.
    """
    for name, words in said.items():
        verdict, why = verdict_and_reason(words)
        if verdict not in verdicts or len(why.split()) < 2:
            raise ValueError(
                f"say of '{name}' what holds and in a few words why, as in '{verdicts[0]}: it was told so'; "
                f"known are {', '.join(verdicts)}"
            )


# Addresses in settings: they are stored, hashed and shown, so none may hold a password or a key.


NOT_SHOWN = "secret"
"""Type of the error about a value that must not be repeated."""
_LOGIN = re.compile(r"//[^\s,]*@|\b[^\s,:/@]+:[^\s,/@]+@[\w.-]+", re.I)
_KEY = re.compile(r"[?&;#][^=&#\s]*(key|token|secret|passw|pwd|sig|auth|credential)[^=&#\s]*=", re.I)


def refuse_secrets(name: str, value: Any) -> None:
    """Refuse a value in which an address holds a user, password, token or key.

    Args:
        name: Of the setting; one that ends in `url` holds addresses and nothing else.
        value: Any; tables and lists are looked through.

    Raises:
        PydanticCustomError: It does; the message does not repeat it.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_secrets(str(key), inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            refuse_secrets(name, inner)
    elif isinstance(value, str):
        if _LOGIN.search(value) or _KEY.search(value):
            raise _refused("an address in it holds a user, password, token or key")
        if name.endswith("url") and any(not is_plain(one.strip()) for one in value.split(",") if one.strip()):
            raise _refused("it must look like http://127.0.0.1:8000/v1, without user, password, ? and #")


def is_plain(url: str) -> bool:
    """Tell whether an address is that of a server and nothing else.

    >>> [is_plain(url) for url in ("https://host:8000/v1", "http://me:x@host", "http://host?a=b", "host:80")]
    [True, False, False, False]
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
    return known and not any(mark in url for mark in "@?#\\ \t\n")


def _refused(why: str) -> PydanticCustomError:
    return PydanticCustomError(
        NOT_SHOWN, f"{why}, and settings are stored: keys come from the environment, such as OPENAI_API_KEY"
    )
