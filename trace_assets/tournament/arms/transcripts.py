"""An episode as text, for words that show one to a model."""

from __future__ import annotations

from trace_assets.records import Trajectory


def written(one: Trajectory) -> str:
    r"""Return what was said and called, a line a message; the policy, which is told elsewhere, is left out.

    Args:
        one: The episode.

    >>> from trace_assets.records import Message
    >>> said = (Message(role="system", content="Rules."), Message(role="user", content="Hello."))
    >>> ids = {"trajectory_id": "a", "task_id": "t", "target": "d", "task_batch": "all", "policy": "p"}
    >>> written(Trajectory(**ids, messages=said))
    'user: Hello.'
    """
    lines = []
    for message in one.messages:
        if message.role == "system":
            continue
        calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
        lines.append(f"{message.role}: {' '.join([message.content or '', *calls]).strip()}")
    return "\n".join(lines)
