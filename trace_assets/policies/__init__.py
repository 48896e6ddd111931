"""Who acts in an episode: model engines, servers, and scripts, all behind one protocol."""

from trace_assets.policies.protocol import Conversation, Policy, Reply, TokenTrace

__all__ = ["Conversation", "Policy", "Reply", "TokenTrace"]
