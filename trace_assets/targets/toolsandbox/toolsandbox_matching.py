"""The best match of milestones with a conversation, found without trying every one.

ToolSandbox's own search is exact and looks at the whole of it: half a minute and more for a conversation of
thirty messages that reaches nothing. What the rest of a search can still earn depends only on which
milestones are left, on the last message taken and on what those that are left refer to; each such state is
solved once.
The measures are ToolSandbox's own, and so is the result.
"""

from __future__ import annotations

import math
from typing import Any

from tool_sandbox.common.evaluation import guardrail_similarity

START = -1
"""A reference to the world as the user first spoke."""


class Matcher:
    """Matches milestones, or minefields, with the conversation of a context.

    Args:
        matcher: ToolSandbox's, with its milestones and their graph.
        context: The conversation and its databases.
    """

    def __init__(self, matcher: Any, context: Any) -> None:
        self._graph, self._context = matcher.milestone_dag, context
        self._constraints = [milestone.snapshot_constraints for milestone in matcher.milestones]
        self._first, self._last = context.first_user_sandbox_message_index, context.max_sandbox_message_index
        self._frames: dict[Any, Any] = {}
        self._buckets: dict[Any, int] = {}
        self._values: dict[Any, float] = {}
        self._solved: dict[Any, Any] = {}

    def scores(self) -> dict[int, float]:
        """Return the score of every milestone in the match with the largest sum."""
        _, taken = self._best(frozenset(self._graph.nodes), self._first, {})
        return dict(sorted(taken))

    def _best(self, left: frozenset[int], last: int, at: dict[int, int]) -> Any:
        """Return the largest sum that is left to earn, and the score of every milestone that earns it."""
        if not left:
            return 0.0, ()
        wanted = {one.reference_milestone_node_index for index in left for one in self._constraints[index]}
        at = {index: place for index, place in at.items() if index in wanted}
        state = (left, last, tuple(sorted(at.items())))
        if state in self._solved:
            return self._solved[state]
        best: Any = (-1.0, ())
        for index in sorted(left):
            if left & set(self._graph.predecessors(index)):
                continue
            for place in range(self._last, last - 1, -1):
                score = self._score(index, place, at)
                rest, taken = self._best(left - {index}, place, {**at, index: place})
                if score + rest > best[0]:
                    best = (score + rest, ((index, score), *taken))
        self._solved[state] = best
        return best

    def _score(self, index: int, place: int, at: dict[int, int]) -> float:
        """Return how well a milestone fits a message: the geometric mean, guardrails not counted."""
        product, counted = 1.0, 0
        for number, one in enumerate(self._constraints[index]):
            before = one.reference_milestone_node_index
            reference = None if before is None else self._first if before == START else at[before]
            product *= self._value(index, number, one, place, reference)
            counted += one.snapshot_constraint is not guardrail_similarity
            if product == 0.0:
                return 0.0
        return math.pow(product, 1 / counted)

    def _value(self, index: int, number: int, one: Any, place: int, reference: Any) -> float:
        kind = one.database_namespace
        here = self._bucket(kind, place)
        there = None if reference is None else self._bucket(kind, reference)
        key = (index, number, here, there)
        if key not in self._values:
            self._values[key] = one.snapshot_constraint(
                snapshot=self._frame(kind, here),
                target_dataframe=one.target_dataframe,
                column_similarities=one.column_similarity_measure,
                reference_snapshot=None if there is None else self._frame(kind, there),
            )
        return self._values[key]

    def _bucket(self, kind: Any, place: int) -> int:
        """Return the message that last changed a database."""
        if (kind, place) not in self._buckets:
            found = self._context.get_most_recent_snapshot_sandbox_message_index(kind, place)
            self._buckets[kind, place] = int(found)
        return self._buckets[kind, place]

    def _frame(self, kind: Any, place: int) -> Any:
        if (kind, place) not in self._frames:
            self._frames[kind, place] = self._context.get_database(
                namespace=kind, sandbox_message_index=place
            )
        return self._frames[kind, place]
