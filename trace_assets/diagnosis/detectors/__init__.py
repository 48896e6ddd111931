"""Detectors: general, deterministic, outcome-blind predicates over tool-call trajectories.

Families of one kind share a file. To add one, write a class that fits `protocol.Detector` and name it in
`FAMILIES`.
"""

from __future__ import annotations

from trace_assets.diagnosis.detectors.agreed_deeds import AgreedDeedLeft
from trace_assets.diagnosis.detectors.alike_left import AlikeLeftOut
from trace_assets.diagnosis.detectors.answers import CallInProse, EmptyTurn, NoAnswer, UnseenAnswer
from trace_assets.diagnosis.detectors.argument_values import StaleValue, UnsupportedArgument
from trace_assets.diagnosis.detectors.asked_values import OtherChoiceTaken, OtherThanAsked
from trace_assets.diagnosis.detectors.barred_changes import BarredByOwnChange
from trace_assets.diagnosis.detectors.consent import UnaskedCondition, WriteAfterRefusal, WriteWithoutConsent
from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.described_records import (
    DescribedRecordLeft,
    ListedUnopened,
    OtherRecordTaken,
)
from trace_assets.diagnosis.detectors.missing_looks import (
    SkippedCheck,
    UnreadPages,
    UnreadPrerequisite,
    UnverifiedWrite,
    WriteWithoutRead,
)
from trace_assets.diagnosis.detectors.other_record_told import OtherRecordTold
from trace_assets.diagnosis.detectors.policy_sums import OtherSum
from trace_assets.diagnosis.detectors.protocol import Detector, Finding, Mistake, Proposal
from trace_assets.diagnosis.detectors.refrained_writes import WriteAgainstState, WriteOnKind
from trace_assets.diagnosis.detectors.repeated_calls import (
    EmptyResultBelieved,
    IdleLoop,
    RefusalUntold,
    RepeatedError,
    UnrecoveredError,
)
from trace_assets.diagnosis.detectors.situational_steps import CustomaryStep, SituationalStep
from trace_assets.diagnosis.detectors.told_counts import WrongCount
from trace_assets.diagnosis.detectors.told_extremes import WrongExtreme
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.unanswered_state import LimitExceeded, UnansweredState
from trace_assets.diagnosis.detectors.unfinished_work import (
    EndedWithWorkOpen,
    ObjectUntouched,
    SecondRequestLeft,
    UnfinishedDeed,
)
from trace_assets.diagnosis.detectors.unmet_requests import (
    ChangeAgainstRequest,
    RequestLeftUnmentioned,
    UnaskedDeletion,
)
from trace_assets.diagnosis.detectors.unnamed_choices import UnnamedChoice
from trace_assets.diagnosis.detectors.untold import UnaskedFact, UntoldFigure
from trace_assets.diagnosis.detectors.whole_for_part import WholeForPart
from trace_assets.diagnosis.detectors.write_against_policy import WriteAgainstClauses, WriteAgainstPolicy
from trace_assets.diagnosis.detectors.write_against_rule import WriteAgainstRule
from trace_assets.diagnosis.detectors.write_past_date import WritePastDate
from trace_assets.diagnosis.detectors.wrong_statements import (
    ClaimWithoutWrite,
    DeniedWithoutLook,
    PromiseUnkept,
    WrongFigure,
)

FAMILIES: tuple[Detector, ...] = (
    UnreadPrerequisite(),
    UntoldFigure(),
    UnaskedFact(),
    OtherSum(),
    WriteAgainstPolicy(),
    WriteAgainstClauses(),
    WritePastDate(),
    WriteAgainstRule(),
    ChangeAgainstRequest(),
    WriteWithoutRead(),
    WriteAgainstState(),
    WriteOnKind(),
    ObjectUntouched(),
    OtherRecordTaken(),
    OtherChoiceTaken(),
    OtherThanAsked(),
    DescribedRecordLeft(),
    UnaskedDeletion(),
    UnsupportedArgument(),
    StaleValue(),
    RequestLeftUnmentioned(),
    EndedWithWorkOpen(),
    SecondRequestLeft(),
    UnfinishedDeed(),
    BarredByOwnChange(),
    WholeForPart(),
    UnnamedChoice(),
    AgreedDeedLeft(),
    AlikeLeftOut(),
    OtherRecordTold(),
    WrongCount(),
    WrongExtreme(),
    SituationalStep(),
    CustomaryStep(),
    UnreadPages(),
    LimitExceeded(),
    UnaskedCondition(),
    ListedUnopened(),
    UnansweredState(),
    SkippedCheck(),
    WriteAfterRefusal(),
    WriteWithoutConsent(),
    PromiseUnkept(),
    WrongFigure(),
    ClaimWithoutWrite(),
    DeniedWithoutLook(),
    EmptyResultBelieved(),
    UnverifiedWrite(),
    RepeatedError(),
    UnrecoveredError(),
    RefusalUntold(),
    IdleLoop(),
    UnseenAnswer(),
    NoAnswer(),
    EmptyTurn(),
    CallInProse(),
)
"""Every family. Of two candidates with the same labels the one whose family comes first is kept.

What the policy says comes before what runs mostly do: it explains a failure, a habit may merely go with it.
"""

__all__ = ["FAMILIES", "Corpus", "Detector", "Finding", "Mistake", "Proposal", "Transcript"]
