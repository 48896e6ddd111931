"""The analyst that asks a language model: discovery, merging, blind labelling, and what it costs.

`question` is what is asked and what counts as an answer, `server` asks it, `answers` remembers it, `account`
pays for it and stops at the cap; `view` and `redaction` decide what a model is shown.
"""
