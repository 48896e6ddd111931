"""An environment of the word target, as a model may have written it. Only its text is used."""

WORDS = ("red", "blue", "green", "one", "two")
episode = {}


def tools():
    return []


def reset(seed):
    episode.clear()
    episode.update(word=WORDS[seed % 5], said="")
    return [{"role": "user", "content": "say " + episode["word"]}]


def step(message):
    episode["said"] = message["content"] or ""
    return {"messages": [], "done": True, "truncated": False}


def verdict():
    success = episode["said"].split()[:1] == [episode["word"]]
    check = {
        "name": "word",
        "kind": "communicate",
        "passed": success,
        "score": None,
        "gates": True,
        "detail": "",
    }
    return {"reward": float(success), "success": success, "checks": [check]}


def oracle(seed):
    return [{"role": "assistant", "content": WORDS[seed % 5]}]
