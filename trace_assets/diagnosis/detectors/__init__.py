"""Detectors: general, deterministic, outcome-blind predicates over tool-call trajectories.

One family a file. To add one, write a class that fits `protocol.Detector` and name it in `FAMILIES`.
"""

from __future__ import annotations

from trace_assets.diagnosis.detectors.call_in_prose import CallInProse
from trace_assets.diagnosis.detectors.claim_without_write import ClaimWithoutWrite
from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.customary_step import CustomaryStep
from trace_assets.diagnosis.detectors.denied_without_look import DeniedWithoutLook
from trace_assets.diagnosis.detectors.empty_turn import EmptyTurn
from trace_assets.diagnosis.detectors.ended_with_work_open import EndedWithWorkOpen
from trace_assets.diagnosis.detectors.idle_loop import IdleLoop
from trace_assets.diagnosis.detectors.limit_exceeded import LimitExceeded
from trace_assets.diagnosis.detectors.listed_unopened import ListedUnopened
from trace_assets.diagnosis.detectors.object_untouched import ObjectUntouched
from trace_assets.diagnosis.detectors.protocol import Detector, Finding, Mistake, Proposal
from trace_assets.diagnosis.detectors.repeated_error import RepeatedError
from trace_assets.diagnosis.detectors.skipped_check import SkippedCheck
from trace_assets.diagnosis.detectors.stale_value import StaleValue
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.unanswered_state import UnansweredState
from trace_assets.diagnosis.detectors.unasked_condition import UnaskedCondition
from trace_assets.diagnosis.detectors.unfinished_deed import UnfinishedDeed
from trace_assets.diagnosis.detectors.unread_pages import UnreadPages
from trace_assets.diagnosis.detectors.unread_prerequisite import UnreadPrerequisite
from trace_assets.diagnosis.detectors.unrecovered_error import UnrecoveredError
from trace_assets.diagnosis.detectors.unsupported_argument import UnsupportedArgument
from trace_assets.diagnosis.detectors.unverified_write import UnverifiedWrite
from trace_assets.diagnosis.detectors.write_after_refusal import WriteAfterRefusal
from trace_assets.diagnosis.detectors.write_against_clauses import WriteAgainstClauses
from trace_assets.diagnosis.detectors.write_against_policy import WriteAgainstPolicy
from trace_assets.diagnosis.detectors.write_against_rule import WriteAgainstRule
from trace_assets.diagnosis.detectors.write_against_state import WriteAgainstState
from trace_assets.diagnosis.detectors.write_on_kind import WriteOnKind
from trace_assets.diagnosis.detectors.write_past_date import WritePastDate
from trace_assets.diagnosis.detectors.write_without_consent import WriteWithoutConsent
from trace_assets.diagnosis.detectors.write_without_read import WriteWithoutRead

FAMILIES: tuple[Detector, ...] = (
    UnreadPrerequisite(),
    WriteAgainstPolicy(),
    WriteAgainstClauses(),
    WritePastDate(),
    WriteAgainstRule(),
    WriteWithoutRead(),
    WriteAgainstState(),
    WriteOnKind(),
    ObjectUntouched(),
    UnsupportedArgument(),
    StaleValue(),
    EndedWithWorkOpen(),
    UnfinishedDeed(),
    CustomaryStep(),
    UnreadPages(),
    LimitExceeded(),
    UnaskedCondition(),
    ListedUnopened(),
    UnansweredState(),
    SkippedCheck(),
    WriteAfterRefusal(),
    WriteWithoutConsent(),
    ClaimWithoutWrite(),
    DeniedWithoutLook(),
    UnverifiedWrite(),
    RepeatedError(),
    UnrecoveredError(),
    IdleLoop(),
    EmptyTurn(),
    CallInProse(),
)
"""Every family. Of two candidates with the same labels the one whose family comes first is kept.

What the policy says comes before what runs mostly do: it explains a failure, a habit may merely go with it.
"""

__all__ = ["FAMILIES", "Corpus", "Detector", "Finding", "Mistake", "Proposal", "Transcript"]
