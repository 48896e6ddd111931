"""A verifiers harness that runs a plain chat loop with tools in this process."""

import contextlib
import json

import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp
from verifiers.v1.runtimes import ProgramResult

__all__ = ["ScriptedHarness"]


class ScriptedHarnessConfig(vf.HarnessConfig):
    """Nothing to set."""


class ScriptedHarness(vf.Harness[ScriptedHarnessConfig]):
    """The chat loop."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, *more):
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": one.role, "content": one.content} for one in prompt]
        client = AsyncOpenAI(base_url=endpoint, api_key=secret)
        async with contextlib.AsyncExitStack() as stack:
            config = {"mcpServers": {name: {"url": url} for name, url in mcp_urls.items()}}
            tools, dispatch, servers = await connect_mcp(config, stack)
            while True:
                answer = await client.chat.completions.create(model=ctx.model, messages=messages, tools=tools)
                said = answer.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                if not said.tool_calls:
                    break
                for call in said.tool_calls:
                    arguments = json.loads(call.function.arguments)
                    content = await call_mcp(servers, dispatch, call.function.name, arguments)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        return ProgramResult(exit_code=0, stdout="", stderr="")
