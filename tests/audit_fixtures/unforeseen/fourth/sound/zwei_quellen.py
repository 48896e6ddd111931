"""Archiv: zwei Werkzeuge zeigen dasselbe, und jedes von beiden genügt."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """Sie betreuen ein Archiv. Sehen Sie nach, ob eine Akte gesperrt ist: in der Liste mit auflisten_akten oder in der Akte selbst mit anzeigen_akte, wie Sie wollen. Eine offene Akte wird mit
ausleihen_akte verliehen; eine gesperrte wird nicht verliehen, das ist der Leserin oder dem Leser zu sagen."""

TOOLS = [
    _t("auflisten_akten", "Zeigt alle Akten eines Bestands.", ["bestand"], bestand="string"),
    _t("anzeigen_akte", "Zeigt eine Akte.", ["akte"], akte="string"),
    _t("ausleihen_akte", "Leiht eine Akte aus.", ["akte", "karte"], akte="string", karte="string"),
]


def scene(seed):
    rng = random.Random(f"archiv|{seed}")
    akten = {f"A{n}": rng.choice(["offen", "gesperrt"]) for n in rng.sample(range(1000, 9999), 5)}
    akte = rng.choice(list(akten))
    akten[akte] = "offen" if seed % 2 else "gesperrt"
    karte, bestand = f"K{rng.randint(1000, 9999)}", f"Best{rng.randint(100, 999)}"
    text = rng.choice(["Ich möchte {a} aus {b} ausleihen, meine Karte ist {k}.", "{k}: bitte {a} (Bestand {b}).", "Bekomme ich {a}? Bestand {b}, Karte {k}."])
    return {"request": text.format(a=akte, b=bestand, k=karte), "akten": akten, "akte": akte, "karte": karte, "bestand": bestand, "gesehen": False}


def act(name, given):
    if name == "auflisten_akten":
        if given["bestand"] != S["bestand"]:
            return json.dumps({"error": "Bestand unbekannt"}), True
        S["gesehen"] = True
        return json.dumps({"akten": [{"akte": k, "stand": v} for k, v in S["akten"].items()]}), False
    if given["akte"] not in S["akten"]:
        return json.dumps({"error": "Akte unbekannt"}), True
    if name == "anzeigen_akte":
        S["gesehen"] = S["gesehen"] or given["akte"] == S["akte"]
        return json.dumps({"akte": given["akte"], "stand": S["akten"][given["akte"]]}), False
    S["log"].append((given["akte"], given["karte"], S["gesehen"]))
    return json.dumps({"akte": given["akte"], "stand": "verliehen"}), False


def user(text):
    return ""


def judge():
    offen = S["akten"][S["akte"]] == "offen"
    right = S["gesehen"] and S["log"] == ([(S["akte"], S["karte"], True)] if offen else [])
    return [("gesehen", "action", S["gesehen"], 1), ("verliehen", "state", right, 2), ("gesagt", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"akte": s["akte"]}
    if s["akten"][s["akte"]] == "offen":
        return [("anzeigen_akte", key), ("ausleihen_akte", {**key, "karte": s["karte"]}), "Die Akte liegt für Sie bereit."]
    return [("anzeigen_akte", key), "Diese Akte ist gesperrt und kann nicht verliehen werden."]


S = {}
