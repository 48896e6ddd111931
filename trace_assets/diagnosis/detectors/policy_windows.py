"""How long before or after a date a policy allows a tool, and which dates of a record it means."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_subjects import EXCEPTION, NUMBERS, WORD, forbids_deed, speaks_of
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.verbs import has_stem, spoken, things
from trace_assets.diagnosis.detectors.wording import last_name, plain_name

_BEGUN = re.compile(r"\b(begun|started|begins?|starts?|departed|left|checked in)\b")
_BEGINS = re.compile(r"(?:^|[._])(?:start\w*|begin\w*|from|arriv\w*|depart\w*|check_?in|pick_?up)(?:[._]|$)")
_ENDED = re.compile(r"\b(over|ended|finished|expired|elapsed|closed)\b")
_ENDS = re.compile(r"(?:^|[._])(?:ends?|expir\w*|due|until|valid\w*|deadline|return\w*|check_?out)(?:[._]|$)")
_DONE = re.compile(
    r"(?:^|[._])(?:creat\w*|made|last|issued?|updated|ordered|placed|paid|charged|booked|birth|dob|joined|since)"
    r"(?:[._]|$)"
)
"""Fields that tell when something was done or born, which always lies behind."""
_LENGTH = r"(?P<number>\d+|" + "|".join(NUMBERS) + r") (?P<unit>hour|day|week)s?"
_DATE = r" (?:the |its |their |your )?(?P<what>[a-z ]+)"
_WINDOWS = (
    (
        re.compile(
            rf"\b(?:at least|no later than|a minimum of|more than) {_LENGTH} "
            rf"(?:before|prior to|ahead of){_DATE}"
        ),
        True,
        False,
    ),
    (re.compile(rf"\b(?:less than|fewer than|within) {_LENGTH} (?:before|prior to){_DATE}"), True, True),
    (
        re.compile(
            rf"\b(?:within|for|have|(?:no|not) (?:later|more) than|at most|up to) (?:the first )?{_LENGTH} "
            rf"(?:of|after|from|since|following){_DATE}"
        ),
        False,
        False,
    ),
    (re.compile(rf"\b(?:more than|later than) {_LENGTH} (?:after|from|since){_DATE}"), False, True),
    (re.compile(rf"(?P<what>[a-z]+(?: [a-z]+)?) (?:more|longer) than {_LENGTH} ago\b"), False, True),
    (re.compile(rf"(?P<what>[a-z]+),?(?: that| which)?(?: is| are)? older than {_LENGTH}\b"), False, True),
    (
        re.compile(
            r"\b(?:can|may|only|possible|accepted|allowed|permitted|eligible)\b[^,;]*"
            rf"\b(?:within|for|up to) {_LENGTH}(?P<what>)(?=[,;]|\W*\Z)"
        ),
        False,
        False,
    ),
    (re.compile(rf"\bafter {_LENGTH}(?P<what>)(?=[,;]|\W*\Z)"), False, True),
)
"""How it is said, whether the date lies ahead, and whether the sentence forbids."""
_HOURS = {"hour": 1.0, "day": 24.0, "week": 168.0}
_DATED = re.compile(r"(?:19|20)\d\d-\d\d-\d\d")


@dataclass(frozen=True)
class Window:
    """A tool may be used only so long before a date, or so long after one.

    Attributes:
        sentence: What says so.
        hours: How long.
        what: Words for the date.
        ahead: Whether the date must lie at least so far ahead; else it may lie at most so far behind.
    """

    sentence: str
    hours: float
    what: tuple[str, ...]
    ahead: bool

    def fields(self, names: Iterable[str], thing: Iterable[str] = ()) -> list[str]:
        """Return those of some fields that are named after the date.

        The date of the thing itself is the record's only one that is called by nothing else.

        >>> Window("", 48, ("payment",), ahead=False).fields(["date", "payee.since"], ["payment"])
        ['date']
        >>> Window("", 48, (), ahead=False).fields(["purchased_on", "valid_until"], ["order"])
        ['purchased_on']
        """
        if not self.what:  # no date is named: it is the only one that says when the thing was had
            had = [one for one in names if _ITS_OWN.issuperset(spoken(one).split()) or _HAD.search(one)]
            return had if len(had) == 1 else []
        stems = {word[:5] for word in self.what if len(word) > 3}
        known = sorted(names)
        found = [one for one in known if any(word[:5] in stems for word in spoken(one).split())]
        own = [one for one in known if _ITS_OWN.issuperset(spoken(one).split())]
        of_thing = len(own) == 1 and not stems.isdisjoint(word[:5] for word in thing)
        return found or (own if of_thing else [])

    def is_missed(self, value: str, now: str) -> bool:
        """Tell whether a date lies too near, or too far behind; where a time of day is not told, days count.

        >>> ahead = Window("", 48, ("exam",), ahead=True)
        >>> [ahead.is_missed(one, "2030-05-10 15:00") for one in ("2030-05-11", "2030-05-12")]
        [True, False]
        """
        moment, today, span = time_of(value), time_of(now), timedelta(hours=self.hours)
        if moment is None or today is None:
            return False
        if len(value) <= _DAY or len(now) <= _DAY:
            moment, today = (
                one.replace(hour=0, minute=0, second=0, microsecond=0) for one in (moment, today)
            )
        return moment - today < span if self.ahead else today - moment > span


_HAD = re.compile(r"(?:^|[._])(?:placed|ordered|purchas\w*|bought|deliver(?:y|ed)|received)(?:[._]|$)")
_DAY = len("2030-01-31")
_ITS_OWN = frozenset({"at", "created", "date", "day", "made", "on", "placed", "time", "timestamp"})
"""Words of fields that say when a thing was made, and no more."""


def windows(policy: PolicyText, tool: str, given: Collection[str] = ()) -> list[Window]:
    """Return how long before or after a date a policy allows a tool.

    Args:
        policy: The policy.
        tool: Its name.
        given: Dotted names of its arguments that are dates. Where these are named, windows of them alone are
            returned, also of sentences that name nothing else of the tool (`incidents are reported within`).

    >>> text = PolicyText("Items can be returned within 30 days of delivery. Exams must be moved at least "
    ...                   "48 hours before the exam date.")
    >>> [(one.hours, one.what, one.ahead) for one in windows(text, "return_item")]
    [(720.0, ('delivery',), False)]
    >>> [(one.hours, one.what, one.ahead) for one in windows(text, "reschedule_exam")]
    [(48.0, ('exam', 'date'), True)]
    >>> text = PolicyText("A loss has to be reported no later than two days after it happened. Repairs done "
    ...                   "more than 9 days ago are not claimed.")
    >>> [(one.hours, one.what) for one in windows(text, "open_claim", ["claim.loss.date"])]
    [(48.0, ('loss', 'happened'))]
    >>> [(one.hours, one.what, one.ahead) for one in windows(text, "claim_repair")]
    [(216.0, ('repairs', 'done'), False)]
    >>> text = PolicyText("Refunds are possible within 30 days. Refunds are processed within 5 days.")
    >>> [(one.hours, one.what) for one in windows(text, "issue_refund")]
    [(720.0, ())]
    >>> [one.hours for one in windows(PolicyText("No returns after 2 weeks."), "create_return")]
    [336.0]
    """
    found = []
    named = {word for one in given for word in spoken(one).split()} - _ITS_OWN - {*things(tool)}
    for sentence in policy.sentences:
        of_given = any(has_stem(sentence.words, word) for word in named if len(word) > 3)
        if not (speaks_of(sentence, tool) or of_given) or EXCEPTION.search(sentence.text):
            continue
        forbids = forbids_deed(sentence.text, tool)
        for pattern, ahead, forbidding in _WINDOWS:
            match = pattern.search(sentence.text)
            if match is None or forbids != forbidding:
                continue
            said = match["number"]
            number = NUMBERS[said] if said in NUMBERS else float(said)
            what = tuple(WORD.findall(match["what"]))[:3]
            if what and what[0] in _IT:  # what it is stands before the first verb
                subject = _BEFORE_VERB.split(sentence.text[: match.start()])[0]
                what = (*WORD.findall(subject)[-1:], *what[1:])
            found.append(Window(sentence.text, number * _HOURS[match["unit"]], what, ahead))
            break
    return found


_IT = frozenset({"it", "that", "they", "this"})
_BEFORE_VERB = re.compile(r"\b(?:are|can|has|have|is|may|must|needs?|should|shall|will)\b")


def dates_meant(sentence: Sentence, record: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Return the dates of a record that a sentence about the past speaks of.

    Args:
        sentence: One of `PolicyText.forbids_past`.
        record: Pairs of field, dotted, and value.

    Returns:
        Pairs of field and ISO date: those whose names it says, in full before in part; else the beginnings or
        ends by what it says of them.

    >>> record = {"contractEndDate": "2030-01-31", "suspensionStartDate": "2030-03-01", "name": "A"}
    >>> said = Sentence("do not lift a suspension if the contract end date is in the past.")
    >>> dates_meant(said, record.items())
    [('contractEndDate', '2030-01-31')]
    """
    dates = [
        (path, value[:10])
        for path, value in record
        if isinstance(value, str) and _DATED.match(value) and not _DONE.search(plain_name(path))
    ]
    words = {word[:5] for word in sentence.words}
    told = {path: [word[:5] in words for word in spoken(path).split() if word != "date"] for path, _ in dates}
    named = [pair for pair in dates if "date" in last_name(pair[0]) and any(told[pair[0]])]
    whole = [pair for pair in named if all(told[pair[0]])]
    if named:
        return whole or named
    begins = [(path, value) for path, value in dates if _BEGINS.search(plain_name(path))]
    if _BEGUN.search(sentence.text) and (begins or not _ENDED.search(sentence.text)):
        return begins
    ends = [(path, value) for path, value in dates if _ENDS.search(plain_name(path))]
    if _ENDED.search(sentence.text) and ends:
        return ends
    return dates if len(dates) == 1 else []
