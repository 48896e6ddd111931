from __future__ import annotations

import subprocess
import sys


def test_policies_and_runner_load_without_torch() -> None:
    code = (
        "import sys, trace_assets.policies, trace_assets.policies.transformers_engine, "
        "trace_assets.policies.openai_server, trace_assets.policies.protocol, "
        "trace_assets.rollouts.parallel; "
        "print(sorted({'torch', 'transformers', 'openai', 'peft'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
