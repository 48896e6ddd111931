"""What a name on the command line stands for: itself, or the only known one that begins so or holds it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from trace_assets.errors import InputError, did_you_mean

SHOWN = 12
"""Names that are told; more would hide the sentence."""


def chosen_name(kind: str, wanted: str, known: Mapping[str, str] | Collection[str]) -> str:
    """Return what a name means.

    Args:
        kind: What it names, such as `policy`.
        wanted: A name or its beginning; of a name with a provider (`served/small-model`) also the rest. Where
            none begins so, a part: `sft` of `ft:gpt-4.1:tau2-sft`.
        known: All names; a mapping says what each stands for, so that a thing may have several.

    Raises:
        InputError: Nothing, or several things, begin so or hold it.

    >>> chosen_name("policy", "small", ["served/small-model", "large"])
    'served/small-model'
    >>> chosen_name("policy", "sft", ["ft:gpt-4.1:tau2-sft", "gpt-4.1"])
    'ft:gpt-4.1:tau2-sft'
    >>> chosen_name("policy", "a", ["a", "ab"])
    'a'
    >>> chosen_name("capability", "Cancel", {"c1": "c1", "Cancel an order": "c1"})
    'c1'
    """
    names = known if isinstance(known, Mapping) else {name: name for name in known}
    if wanted in names:
        return names[wanted]
    fitting = sorted(
        name for name in names if name.startswith(wanted) or name.rpartition("/")[2].startswith(wanted)
    )
    how = "begin with" if fitting else "hold"
    fitting = fitting or sorted(name for name in names if wanted and wanted in name)
    if len({names[name] for name in fitting}) == 1:
        return names[fitting[0]]
    kinds = kind[:-1] + "ies" if kind.endswith("y") else kind + "s"
    if fitting:
        raise InputError(f"several {kinds} {how} '{wanted}': {_listed(fitting)}; name one of them.")
    if not names:
        raise InputError(f"no {kind} is called '{wanted}': there are no {kinds} in this study yet.")
    raise InputError(
        f"no {kind} is called '{wanted}'{did_you_mean(wanted, sorted(names))}"
        f" There are {_listed(sorted(names))}."
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
