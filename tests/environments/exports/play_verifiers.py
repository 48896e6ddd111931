"""Run by a Python that has verifiers: plays scripts through the engine, behind a scripted model server."""

import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REQUESTS = []


def model_server(script):
    """Serve the messages of a script, one a request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            REQUESTS.append(body)
            action = script[sum(one["role"] == "assistant" for one in body["messages"])]
            message = {"role": "assistant", "content": action.get("content")}
            if action.get("tool_calls"):
                message["tool_calls"] = [
                    {
                        "id": one["id"],
                        "type": "function",
                        "function": {"name": one["name"], "arguments": json.dumps(one["arguments"])},
                    }
                    for one in action["tool_calls"]
                ]
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            told = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
            data = json.dumps({**told, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return http


async def play(package, episodes):
    import verifiers.v1 as vf
    from verifiers.v1.runtimes import SubprocessConfig

    told = []
    for episode in episodes:
        http = model_server(episode["actions"])
        config = vf.SingleAgentEnvConfig(
            taskset={"id": package, "first_seed": episode["seed"], "seeds": 1},
            agent=vf.AgentConfig(harness={"id": "scripted_harness"}, runtime=SubprocessConfig()),
        )
        env = vf.SingleAgentEnv(config)
        client = vf.EvalClientConfig(base_url=f"http://127.0.0.1:{http.server_port}/v1", api_key_var="NO_KEY")
        context = vf.ModelContext(model="m", client=client)
        REQUESTS.clear()
        async with env.serving():
            (task,) = list(env.taskset)
            done = await env.run_episode(task, context)
        http.shutdown()
        trace = done.traces[0] if done.traces else None
        told.append(
            {
                "errors": [str(one.message) for one in done.errors]
                + [str(one.message) for one in (trace.errors if trace else [])],
                "messages": [one.model_dump(mode="json") for one in trace.messages] if trace else [],
                "rewards": {name: one.score for name, one in trace.rewards.items()} if trace else {},
                "tools": REQUESTS[0]["tools"] if REQUESTS else [],
            }
        )
    return told


def main():
    folder, package = sys.argv[1:3]
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, here, os.environ.get("PYTHONPATH", "")])
    os.environ["NO_KEY"] = "none"
    sys.path[:0] = [folder, here]
    print(json.dumps(asyncio.run(play(package, json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
