"""The zoo: sound environments, and broken ones that each fail exactly the check meant for them.

A broken environment (an `Animal`) is a sound one with a small edit, so that its fault stands in one place.
Add one to a `faults_*.py` beside this file; a sound one is a module in `sound/`. `trace audit --zoo` runs
them all in the user's own sandbox.
"""
