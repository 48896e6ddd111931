"""Every command: where it is, and what help shows of it without importing it."""

from __future__ import annotations

from trace_assets.cli.lazy import LazyCommand

START = "Begin here"
IN = "Trajectories in and out"
DIAGNOSE = "What the agent lacks"
TEACH = "Environments and training"
SERVE = "Routing and serving"
DAGSTER = "In the browser"

COMMANDS = (
    LazyCommand(
        "init",
        "begin:init",
        "Begin a study of your model: write trace.toml, prepare the target's interpreter, run the doctor.",
        panel=START,
        examples=(
            "trace init --target tau2:retail --model Qwen3-4B --user http://HOST:8000/v1 --from tau2-bench",
            "trace init --target library/target.py --model my-model",
        ),
    ),
    LazyCommand(
        "run",
        "begin:run",
        "Do the whole study: roll out, diagnose, teach, evaluate; run again, it goes on where it ended.",
        panel=START,
        examples=(
            "trace run                     # vLLM is started and ended by itself where it plays",
            "trace run --select trajectories",
        ),
    ),
    LazyCommand(
        "demo",
        "pipeline:demo",
        "Run the whole loop on the embedded target: CPU only, minutes, ends with the table.",
        panel=START,
        examples=(
            "trace demo                    # the whole loop; goes on where it was interrupted",
            "trace demo --desk b           # tasks that lack several skills at once",
        ),
    ),
    LazyCommand(
        "tournament",
        "tournament:tournament",
        "Compare arms over several worlds by a plan that is registered first: plan, run, add-arm, report.",
        panel=TEACH,
        examples=(
            "trace tournament plan study --worlds 6   # says what so many can show; nothing is played",
            "trace tournament run study --hours 8     # goes on where it was interrupted",
            "trace tournament add-arm study rft       # a rival more, marked as an amendment",
            "trace tournament report study",
        ),
    ),
    LazyCommand(
        "doctor",
        "doctor:doctor",
        "Report what this machine can do and how to mend what it cannot; exit 3 when what is wanted cannot.",
        panel=START,
        examples=(
            "trace doctor                  # what this machine can do",
            "trace doctor --for diagnose   # exit 3 where that cannot be done here",
        ),
    ),
    LazyCommand(
        "cluster",
        "home:cluster",
        "Whether the nodes of a Ray cluster can work on this home together; who holds its leases.",
        panel=START,
        examples=(
            "trace cluster check           # every node: code, home, locks, resources",
            "trace cluster files           # files hold the leases again, and no database",
        ),
    ),
    LazyCommand(
        "home",
        "home:home",
        "A home in an object store: copy it there and back.",
        panel=START,
        examples=(
            "trace home copy .trace s3://bucket/study   # what is there already is not sent again",
            "trace home copy s3://bucket/study copy/",
        ),
    ),
    LazyCommand(
        "settings",
        "settings:settings",
        "List every setting: default, value in force, meaning, and which assets an edit recomputes.",
        panel=START,
        examples=(
            "trace settings selection      # one section, with what an edit recomputes",
            "trace settings --json",
        ),
    ),
    LazyCommand(
        "ingest",
        "data:ingest",
        "Bring real trajectories into the store; the same files again change nothing, and nothing is played.",
        panel=IN,
        examples=(
            "trace ingest results/*.json   # the format is seen from the content",
            "trace ingest logs/            # every file in a folder",
        ),
    ),
    LazyCommand(
        "watch",
        "data:watch",
        "Take new files from the watched folders and diagnose what came; Ctrl-C ends it.",
        panel=IN,
        examples=(
            "trace watch                   # until Ctrl-C",
            "trace watch --once --json",
        ),
        serves=True,
    ),
    LazyCommand(
        "tasks",
        "data:tasks",
        "Task files for the watched folder.",
        panel=IN,
        examples=("trace tasks make --n 20 > .trace/watch/tasks/new.jsonl",),
    ),
    LazyCommand(
        "export",
        "data:export",
        "Write stored trajectories in a form that other programs read.",
        panel=IN,
        examples=("trace export runs.json --format atif --outcome failed",),
    ),
    LazyCommand(
        "diagnose",
        "pipeline:diagnose",
        "Find what the agent lacks in the trajectories that you have: no GPU, no torch.",
        panel=DIAGNOSE,
        examples=(
            "trace diagnose results/*.json        # ingests them first",
            "trace diagnose --policy gpt-4.1      # one of several models",
            "trace diagnose --analyst MODEL --base-url https://HOST/v1   # a model reads the runs, too",
            "trace diagnose --set selection.min_gap=0.3",
        ),
    ),
    LazyCommand(
        "compare",
        "diagnosis:compare",
        "Say what training (or another model) mended and what it broke: two policies on the same tasks.",
        panel=DIAGNOSE,
        examples=(
            "trace compare                 # every two policies that share ten tasks",
            "trace compare gpt-4 sft       # a unique beginning of a name will do",
        ),
    ),
    LazyCommand(
        "plan",
        "diagnosis:plan",
        "Say what the whole study takes; with --gap or --gain how many tasks that needs. Nothing is started.",
        panel=DIAGNOSE,
        examples=(
            "trace plan                    # hours, memory, tokens, dollars, power",
            "trace plan --gap 0.3          # tasks until such a gap is selected",
            "trace plan --gain 0.07 --trials 4 --tasks 100",
        ),
    ),
    LazyCommand(
        "show",
        "show:show",
        "Print one trajectory: its messages, its labels, and where and why it failed.",
        panel=DIAGNOSE,
        examples=(
            "trace show 3f2a               # a unique beginning of the id will do",
            "trace show 3f2a --page        # as an HTML page",
        ),
    ),
    LazyCommand(
        "sql",
        "sql:sql",
        "Query every table in SQL. Without a query: list the tables and the ready queries.",
        panel=DIAGNOSE,
        examples=(
            "trace sql                     # what tables and ready queries there are",
            "trace sql gap_table --json",
            'trace sql "SELECT target, avg(success) FROM trajectories GROUP BY 1"',
        ),
    ),
    LazyCommand(
        "report",
        "pipeline:report",
        "Write the HTML page from what is in the store, finished or not, and print its path.",
        panel=DIAGNOSE,
        examples=("trace report -o report.html",),
    ),
    LazyCommand(
        "warehouse",
        "sql:app",
        "The tables as a DuckDB file.",
        panel=DIAGNOSE,
        examples=("trace warehouse build trace.duckdb",),
    ),
    LazyCommand(
        "analyst",
        "analyst:app",
        "What a model analyst costs, and whether an analyst keeps its promises.",
        panel=DIAGNOSE,
        examples=(
            "trace analyst forecast        # before a model is paid",
            "trace analyst check mine.py:factory",
        ),
    ),
    LazyCommand(
        "sync",
        "pipeline:sync",
        "Materialize what is missing or stale, with the reason for each; also: run everything.",
        panel=TEACH,
        examples=(
            "trace sync --dry-run          # what is due, why, and what it will take",
            "trace sync --select labels",
            "trace sync --again 'adapter[refunds]'",
        ),
    ),
    LazyCommand(
        "contract",
        "environment:contract",
        "Read a target's contract off its trajectories: tools, shapes, errors, wording, lengths.",
        panel=TEACH,
        examples=("trace contract retail",),
    ),
    LazyCommand(
        "audit",
        "environment:audit",
        "Audit an environment module in the sandbox; exit 0 accepted, 1 rejected, 2 unusable, 3 not run.",
        panel=TEACH,
        examples=("trace audit environment.py --json",),
    ),
    LazyCommand(
        "environment",
        "environment:app",
        "Generated environments: what writing costs, every version, exports.",
        panel=TEACH,
        examples=(
            "trace environment versions refunds",
            "trace environment export refunds --format trl --to out/",
        ),
    ),
    LazyCommand(
        "targets",
        "targets:app",
        "Where an agent can be rolled out: benchmarks, and your own targets.",
        panel=TEACH,
        examples=(
            "trace targets list",
            "trace targets new library     # a target of your own to begin with",
        ),
    ),
    LazyCommand(
        "route",
        "serving:route",
        'Say which adapter a task would be sent to, with probabilities; "none" is the base model.',
        panel=SERVE,
        examples=('trace route "Cancel my order K1."',),
    ),
    LazyCommand(
        "serve",
        "serving:serve",
        "Serve the base model and every accepted adapter through vLLM until interrupted.",
        panel=SERVE,
        examples=(
            "trace serve --check           # compare every adapter with the trained model, and stop",
            "trace serve",
        ),
        serves=True,
    ),
    LazyCommand(
        "router",
        "serving:router",
        "Serve the model `routed` in front of a model server that serves the adapters, until interrupted.",
        panel=SERVE,
        examples=("trace router --upstream http://127.0.0.1:8000/v1",),
        serves=True,
    ),
    LazyCommand(
        "release",
        "serving:release",
        "Write what was taught, ready to be served: adapters that a router may choose, the router, "
        "how to start.",
        panel=SERVE,
        examples=(
            "trace release out/",
            "trace release out/ --hub my-name --dry-run   # what would be pushed to the Hugging Face hub",
        ),
    ),
    LazyCommand(
        "ui",
        "ui:ui",
        "Open the Dagster UI on this study, with sensors and schedule; an edit of trace.toml is "
        "seen at once.",
        panel=DAGSTER,
        examples=("trace ui --port 3001",),
        serves=True,
    ),
)
