"""Environments that somebody else wrote without having seen the checks: broken, sound, misnamed.

The modules of `broken/` and `sound/` are kept as they came; `capabilities.json` has the capability of each,
and `mispaired.json` sound modules with a near neighbour that they do not teach. Their targets are made up, so
there is no contract, and there are no labelled runs: what is left is what `trace audit FILE` has.
"""
