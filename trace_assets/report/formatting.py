"""How figures are written, the same everywhere: never without their interval."""

from __future__ import annotations

NONE = "–"
"""Stands for a figure that is undefined or was not measured."""


def share(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a share or a gap with its interval.

    >>> share(0.54, 0.36, 0.67), share(-0.001), share(None)
    ('0.54 [0.36, 0.67]', '0.00', '–')
    """
    if value is None:
        return NONE
    value = round(value, 2) + 0.0  # no "-0.00"
    return f"{value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else "")


def percent(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a pass rate with its interval.

    >>> percent(0.473, 0.431, 0.516), percent(0.5)
    ('47.3 % [43.1, 51.6]', '50.0 %')
    """
    if value is None:
        return NONE
    bounds = f" [{100 * low:.1f}, {100 * high:.1f}]" if low is not None and high is not None else ""
    return f"{100 * value:.1f} %{bounds}"


def points(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a difference of pass rates in percentage points.

    >>> points(0.319, 0.284, 0.354), points(-0.02)
    ('+31.9 [+28.4, +35.4]', '-2.0')
    """
    if value is None:
        return NONE
    bounds = f" [{100 * low:+.1f}, {100 * high:+.1f}]" if low is not None and high is not None else ""
    return f"{100 * value:+.1f}{bounds}"


def decision(verdict: str | None, kept: bool) -> str:
    """Write what was decided on a candidate.

    >>> decision("override", True), decision("undecided", False), decision(None, False)
    ('kept by override', 'undecided', 'rejected')
    """
    if verdict == "override":
        return "kept by override"
    return "kept" if kept else verdict or "rejected"


def p_value(value: float | None) -> str:
    """Write a p or q value.

    >>> p_value(0.0004), p_value(0.0312), p_value(None)
    ('<0.001', '0.031', '–')
    """
    if value is None:
        return NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def count(n: float, noun: str, plural: str = "") -> str:
    """Write a count with its noun.

    >>> count(1, "task"), count(1200, "task"), count(2, "study", "studies")
    ('1 task', '1,200 tasks', '2 studies')
    """
    return f"{n:,.0f} {noun if n == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Write a time.

    >>> duration(0.04), duration(12.34), duration(200), duration(7300)
    ('0.0 s', '12.3 s', '3 min 20 s', '2 h 01 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def money(usd: float) -> str:
    """Write a cost.

    >>> money(0), money(0.0123), money(12)
    ('$0', '$0.012', '$12.00')
    """
    return "$0" if usd == 0 else f"${usd:,.3f}" if usd < 1 else f"${usd:,.2f}"


def marked(name: str) -> str:
    """Return the name of a capability whose adapter was trained on an environment that the audit rejected.

    >>> marked("Look first")
    'Look first (trained on a rejected environment)'
    """
    return f"{name} (trained on a rejected environment)"


def arm_name(arm: str, names: dict[str, str] | None = None) -> str:
    """Write an arm in words.

    >>> arm_name("oracle_routed"), arm_name("adapter:cancel", {"cancel": "Looks first"})
    ('routed by an oracle', 'adapter: Looks first')
    """
    if arm.startswith("adapter:"):
        adapter = arm.removeprefix("adapter:")
        return f"adapter: {(names or {}).get(adapter, adapter)}"
    if arm.startswith("round:"):
        return f"agent after round {arm.removeprefix('round:')}"
    known = {
        "base": "base model",
        "routed": "routed adapters",
        "oracle_routed": "routed by an oracle",
        "composed": "routed to sums of adapters",
        "oracle_composed": "routed to sums by an oracle",
        "sum": "sum of all adapters",
        "joint": "one adapter, all environments at once",
        "sequential": "one adapter, one environment after another",
        "together": "one adapter, where all is asked for at once",
        "consolidated": "one adapter, taught by the composed agent",
        "joining": "trained on top of their sum",
        "mixed_grpo": "GRPO on the target itself",
    }
    return known.get(arm, arm)
