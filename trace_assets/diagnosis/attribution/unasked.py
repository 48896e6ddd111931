"""A rule on runs in which nobody can be asked: what the agent was given leaves open what is wanted."""

from __future__ import annotations

import re
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.wording import spoken

_QUOTED = re.compile(r"[\"'“‘`*]{1,2}([\w][\w -]{2,40}?)[\"'”’`*]{1,2}")
_DEFAULT = re.compile(
    r"\b(?:default|otherwise|unless|if (?:no|none|nothing|not)|in doubt|assume)\b", re.IGNORECASE
)
"""Words of a sentence that says which option to take where nothing is said."""
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"[^\W\d_]{4,}")


def unsaid_option(case: Case) -> Ruling | None:
    """All that differs is one of the policy's options, in a run without a talk: nothing says which to take.

    Such as the reason for cancelling, of two that the policy names, where the order gives none. Where the
    policy says which to take by default, that was to be taken.
    """
    rows = case.diffs or []
    said = [one.content or "" for one in case.messages if one.role == "user" and one.requestor != "user"]
    if not rows or len(said) != 1 or any(row.kind != "altered" or row.message is None for row in rows):
        return None
    policy = _policy(case)
    options = {normal(found) for found in _QUOTED.findall(policy)}
    given = f"{case.instruction}\n{said[0]}".lower()
    chosen: list[str] = []
    for row in rows:
        for name in row.changed:
            wanted, done = row.expected_arguments.get(name), row.arguments.get(name)
            if not _is_option(wanted, options) or not _is_option(done, options):
                return None
            if any(word in given for word in _WORDS.findall(str(wanted).lower())):
                return None
            if _by_default(str(wanted), policy):
                return None
            chosen.append(f"{spoken(name)} {wanted!r}")
    evidence = tuple(sorted({row.message for row in rows if row.message is not None}))
    options_missed = " or ".join(dict.fromkeys(chosen))
    detail = f"nothing that the agent was given says {options_missed}, and nobody could be asked"
    return Ruling("ground_truth", "unsaid_option", evidence, detail)


def _policy(case: Case) -> str:
    recorded = case.task.domain_policy if case.task else ""
    return recorded or "\n".join(one.content or "" for one in case.messages if one.role == "system")


def _is_option(value: Any, options: set[str]) -> bool:
    return isinstance(value, str) and normal(value) in options and bool(_WORDS.search(value))


def _by_default(option: str, policy: str) -> bool:
    """Tell whether a sentence of the policy says that an option is the one to take where nothing is said."""
    return any(
        normal(option) in normal(one) and _DEFAULT.search(one) is not None for one in _SENTENCES.split(policy)
    )
