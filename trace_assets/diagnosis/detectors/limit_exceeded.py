"""A limit that was reached, and nothing done about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import deed, imperative, last_name, spoken

_USED = re.compile(r"(?:^|_)(?:used|usage|spent|consumed)(?:_|$)")
_LIMIT = re.compile(r"(?:^|_)(?:limit|quota|maximum|max|allowance|cap)(?:_|$)")


class LimitExceeded:
    """A record shows more used than the record that it points to allows, and the remedy was not taken.

    The remedy is the writing tool after which a third field of the record is named, which adds to the limit
    (`data_refueling_gb`, `refuel_data`). The limit need not have been looked up in this run: it is known
    from others, and not looking is the commonest way of missing it. Relevant when the limit is reached.
    Arguments: `used`, `more` (fields), `link` (the field that names the record with the limit), `limits`
    (that record to its limit), `tool`.
    """

    name = "limit_exceeded"
    norm = 0.6
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every pair of fields about one thing, joined by an identifier, that has a remedy."""
        limits: dict[str, dict[str, float]] = {}
        records: dict[tuple[str, str, str], set[str]] = {}
        for one in corpus.transcripts:
            for name, seen in one.observations.items():
                for observation in seen:
                    fields = observation.fields
                    for field, value in fields.items():
                        if _LIMIT.search(last_name(field)) and (number := _number(value)) is not None:
                            limits.setdefault(field, {})[name] = number
                        elif _USED.search(last_name(field)) and _number(value) is not None:
                            links = {link: normal(at) for link, at in fields.items() if looks_like_id(at)}
                            for more in (name for name in fields if _number(fields[name]) is not None):
                                for link, at in links.items():
                                    records.setdefault((field, more, link), set()).add(at)
        proposals: dict[tuple[str, ...], Proposal] = {}
        for (used, more, link), others in sorted(records.items()):
            tool = next((one for one in sorted(corpus.mutating) if _adds(one, more) and more != used), None)
            for field, known in sorted(limits.items()):
                joined = {name: known[name] for name in sorted(others & known.keys())}
                if (
                    tool is None
                    or not joined
                    or not _same_thing(used, field)
                    or not last_name(link).endswith("id")
                ):
                    continue
                if field in (used, more):
                    continue
                proposals.setdefault((used, link, tool), self._proposal(used, more, link, joined, tool))
        return list(proposals.values())

    def _proposal(self, used: str, more: str, link: str, limits: dict[str, float], tool: str) -> Proposal:
        return Proposal(
            args={"used": used, "more": more, "link": link, "limits": limits, "tool": tool},
            name=f"Compare {spoken(used)} with the limit, and {imperative(tool)} when it is reached",
            description=(
                f"Look up the limit of '{spoken(link)}' and compare it with '{spoken(used)}'; when "
                f"it is reached, '{spoken(tool)}' (or offer it) before ending or handing over."
            ),
            subject=(used, link, tool),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        for name, seen in transcript.observations.items():
            if not any(name in step.objects and not step.by_user for step in transcript.steps):
                continue
            for observation in seen:
                used = _number(observation.fields.get(args["used"], ""))
                more = _number(observation.fields.get(args["more"], "")) or 0.0
                limit = args["limits"].get(normal(observation.fields.get(args["link"], "")))
                if used is None or limit is None or used < limit + more:
                    continue
                done = [step.index for step in transcript.calls(args["tool"], ok=True)]
                if done:
                    return present(f"{used:g} of {limit + more:g} was used, then {args['tool']}", done[-1])
                return lacking(
                    f"{used:g} of {limit + more:g} was used, and {args['tool']} was not called",
                    observation.index,
                    transcript.last_of_agent(),
                )
        return NOT_NEEDED


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _adds(tool: str, field: str) -> bool:
    """Tell whether a field is named after a tool's verb and what it acts on.

    >>> _adds("refuel_data", "data_refueling_gb"), _adds("refillInk", "printer.inkRefilled")
    (True, True)
    >>> _adds("refuel_data", "data_used_gb")
    False
    """
    verb, *rest = deed(tool).split()
    parts = last_name(field).split("_")
    return any(part.startswith(verb) for part in parts) and any(word in parts for word in rest)


def _same_thing(used: str, limit: str) -> bool:
    """Tell whether two fields are about one thing in one unit: all their other words are the same."""
    one, other = (
        set(re.sub(pattern, "_", name).split("_")) - {""}
        for pattern, name in ((_USED, last_name(used)), (_LIMIT, last_name(limit)))
    )
    return bool(one) and one == other
