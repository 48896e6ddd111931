"""The page on recipes, `docs/recipes.md`: its table is read off the code."""

from __future__ import annotations

from pathlib import Path

from tests.environments.recipe_cases import CASES
from trace_assets.environments.templates.families import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
TEXT = """# Recipes

An environment for a capability that a detector found is written offline from a **recipe**: a template
keyed by the detector's family and filled from the target's contract alone (tools, shapes of results and
errors, wordings, how successful agents use each tool). Nothing of a target's code, tasks or solutions
enters, and no word of a domain stands in a recipe. This page is written by
`python -m tests.docs`.

{table}

## What every episode holds

- One request, drawn from the seed: object, record, wording and, for every other seed, whether going on is
  right. Where no wordings of users were learned, requests are built of the names of the tool and of its
  arguments.
- The target's tools with their schemas, its policy, its messages: the same record fields, the same error
  sentences, the same compact or spaced JSON. Where the target's users answer, a scripted user does: told
  once an object to go ahead, whatever its state; it leaves when nothing is open.
- A reward from state: `.5 x share of checks + .5 x all of them - .05 x (bad calls + changes that nobody
  asked for)`, clipped to [0, 1]. The checks of an object: it was looked at first, it was settled exactly
  as its state calls for, what pays in the table above, and the reply tells the outcome. An agent that
  does nothing earns 0.
- Where the policy lists conditions of which one must hold for a change (`if any of the following is true`),
  they decide, and not the one field that a detector named: each holds alone in some scenes, two in others,
  none in half. A condition that hangs on words beside a field holds where the request says them; one that
  no field shows is never met.
- A record that keeps to every other rule of the policy that can be read (states that forbid, dates that
  have passed, spans, conditions that belong together, numbers and values of arguments): what decides is what
  is taught. Values that would break one are not drawn; where too few dates that were seen are left, others
  are drawn beside them. What other tools show (the bills of a line's owner) is drawn as it was seen.
- A refusal that the scene itself calls for (an object that is not there) costs nothing.

## Where they were filled

`tests/environments/test_families.py` fills and plays all of them: on the embedded desk ({embedded} families;
its users never answer, which `write_after_refusal` and `write_without_consent` need, and its policy lists
no conditions), on a made-up clinic whose users answer ({clinic}) and, where the simulation files are at
hand, on tau2's retail ({retail}: its policy lists no conditions), airline ({airline}) and telecom solo
({telecom_solo}, about lines). On each, a scripted agent that has every capability succeeds on every seed;
the same agent without just the one taught succeeds on at most 60 %.

## What is not taught

- Wording, tone and reasoning: no model judges a reply. Where the target's closing words were not learned,
  any reply will do.
- Records are drawn field by field: fields that depend on each other (a total and its items) do not agree.
- A line of text that calls for a step (`unanswered_state` without a field), and arguments whose values
  are known from nowhere: the writer says which, and how to mend it.
- Calls that name no single object of a record, such as a search or a switch of a device.
- Where users answer, the scripted one knows its request, the value that was left out and whether to go
  ahead. It does not understand other questions: it says the same again once, then leaves.
"""


def table() -> str:
    """Return the table of all families, one a line."""
    rows = [
        "| detector family | recipe | an episode asks for | what pays, beside state and reply | fits |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| `{family}` | `{one.template}` | {one.asks} | {one.pays} | {one.fits} |"
        for family, one in sorted(FAMILIES.items())
    ]
    return "\n".join(rows)


def page() -> str:
    """Return the whole page."""
    filled = {name.rpartition(":")[2]: len(instances) for name, instances in CASES.items()}
    return TEXT.format(table=table(), **filled)
