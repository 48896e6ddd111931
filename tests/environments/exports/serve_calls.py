"""Run by a Python that has openenv: a server whose actions are single tool calls. serve_calls.py PORT"""

import sys

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import Observation, State

NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


class Counter(Environment):
    """Add numbers until the sum is the seed; the reward comes with the call that ends it."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.wanted = self.sum = 0

    def reset(self, seed=None, episode_id=None, **_):
        self.wanted, self.sum = int(seed or 0), 0
        return Observation(done=False, reward=None)

    def step(self, action, timeout_s=None, **_):
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=[Tool(name="add", description="Add.", input_schema=NUMBER)])
        number = action.arguments.get("number")
        if number == 13:
            raise ValueError("thirteen breaks this environment")
        if not isinstance(number, int):
            error = {"error_type": "invalid_args", "message": "no number"}
            return CallToolObservation(tool_name="add", error=error, done=False)
        self.sum += number
        done = self.sum >= self.wanted
        reward = float(self.sum == self.wanted) if done else None
        return CallToolObservation(tool_name="add", result={"sum": self.sum}, done=done, reward=reward)

    @property
    def state(self):
        return State(step_count=0)


if __name__ == "__main__":
    app = create_app(Counter, CallToolAction, CallToolObservation, env_name="counter", max_concurrent_envs=2)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
