"""Does a lack decide failures? Failed runs are replayed with what a capability prescribes put right.

`recipes` says what to change in a run, `placebos` what to change for comparison, `replay` plays the calls in
a fresh episode, `measure` puts them together, and `shares` counts.
"""
