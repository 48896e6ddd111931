"""Pydantic records: one schema each, the same names in Python, Parquet and SQL."""

from trace_assets.records.triage import ActionDiff
from trace_assets.records.training import Adapter, BaseCheckpoint, TrainingPoint
from trace_assets.records.contrast import Agreement, Consensus
from trace_assets.records.history import Arrival, ArrivalKind, Quarantined
from trace_assets.records.base import Json, Record, Split
from trace_assets.records.capability import BatchCapability
from trace_assets.records.capability import Capability, Label, LabelValue
from trace_assets.records.contrast import CapabilitySpec, Contrast, SelectedCapability
from trace_assets.records.training import EnvironmentVerdict, Lesson
from trace_assets.records.contrast import Drift
from trace_assets.records.environment import ContractRow, Environment, EnvironmentCheck
from trace_assets.records.environment import EnvironmentVersion, FailedCheck
from trace_assets.records.evaluation import ArmSummary, Evaluation
from trace_assets.records.triage import FailureCause
from trace_assets.records.evaluation import NoHarm
from trace_assets.records.capability import LabelLeak
from trace_assets.records.training import Learnability, SeedOutcome
from trace_assets.records.history import LedgerEntry
from trace_assets.records.history import LineageEdge, LineageMember, LineageNode
from trace_assets.records.history import MadeWith
from trace_assets.records.trajectory import Message, MessageRow, Role, ToolCall, ToolSpec
from trace_assets.records.training import Pilot, PilotPoint
from trace_assets.records.contrast import PolicyContrast
from trace_assets.records.capability import Proposal
from trace_assets.records.evaluation import NO_ADAPTER, Route, RouterRegret, RouterScore
from trace_assets.records.evaluation import RoutingTrial
from trace_assets.records.environment import SandboxCheck
from trace_assets.records.training import ServedParity
from trace_assets.records.capability import ShownTranscript
from trace_assets.records.contrast import Stability
from trace_assets.records.triage import SuspectTask
from trace_assets.records.trajectory import ExpectedAction, Task, ToldTask
from trace_assets.records.triage import ToolUse
from trace_assets.records.trajectory import Fault, Trajectory, TrajectoryHead, Triage
from trace_assets.records.environment import UnconfirmedReward
from trace_assets.records.trajectory import Check, CheckKind, CheckRow, Stop, Verdict

TABLES: tuple[type[Record], ...] = (
    Task,
    ToldTask,
    TrajectoryHead,
    MessageRow,
    CheckRow,
    Triage,
    ActionDiff,
    ToolUse,
    SuspectTask,
    Proposal,
    Capability,
    BatchCapability,
    ShownTranscript,
    Label,
    LabelLeak,
    Agreement,
    Consensus,
    Contrast,
    Drift,
    SelectedCapability,
    Stability,
    PolicyContrast,
    CapabilitySpec,
    ContractRow,
    Environment,
    EnvironmentVersion,
    EnvironmentCheck,
    SeedOutcome,
    EnvironmentVerdict,
    UnconfirmedReward,
    Lesson,
    BaseCheckpoint,
    Pilot,
    PilotPoint,
    Adapter,
    TrainingPoint,
    Learnability,
    RoutingTrial,
    Route,
    RouterScore,
    Evaluation,
    RouterRegret,
    NoHarm,
    ArmSummary,
    LedgerEntry,
    SandboxCheck,
    ServedParity,
    LineageEdge,
    LineageMember,
    LineageNode,
    MadeWith,
    Arrival,
    Quarantined,
)
"""Every stored table, in pipeline order."""

__all__ = [
    "NO_ADAPTER",
    "TABLES",
    "ActionDiff",
    "Adapter",
    "Agreement",
    "ArmSummary",
    "Arrival",
    "ArrivalKind",
    "BaseCheckpoint",
    "BatchCapability",
    "Capability",
    "CapabilitySpec",
    "Check",
    "CheckKind",
    "CheckRow",
    "Consensus",
    "ContractRow",
    "Contrast",
    "Drift",
    "Environment",
    "EnvironmentCheck",
    "EnvironmentVerdict",
    "EnvironmentVersion",
    "Evaluation",
    "ExpectedAction",
    "FailedCheck",
    "FailureCause",
    "Fault",
    "Json",
    "Label",
    "LabelLeak",
    "LabelValue",
    "Learnability",
    "LedgerEntry",
    "Lesson",
    "LineageEdge",
    "LineageMember",
    "LineageNode",
    "MadeWith",
    "Message",
    "MessageRow",
    "NoHarm",
    "Pilot",
    "PilotPoint",
    "PolicyContrast",
    "Proposal",
    "Quarantined",
    "Record",
    "Role",
    "Route",
    "RouterRegret",
    "RouterScore",
    "RoutingTrial",
    "SandboxCheck",
    "SeedOutcome",
    "SelectedCapability",
    "ServedParity",
    "ShownTranscript",
    "Split",
    "Stability",
    "Stop",
    "SuspectTask",
    "Task",
    "ToldTask",
    "ToolCall",
    "ToolSpec",
    "ToolUse",
    "TrainingPoint",
    "Trajectory",
    "TrajectoryHead",
    "Triage",
    "UnconfirmedReward",
    "Verdict",
]
