"""Praxis: Facharzttermine nur mit gültiger Überweisung vergeben."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """Du arbeitest am Empfang einer Praxis. Einen Termin beim Facharzt bekommt nur, wer eine Überweisung für dieses Fach hat, die
am Tag des Termins noch gilt. Sieh vorher in die Akte. Ohne gültige Überweisung wird kein Termin vergeben; setze die
Person dann auf die Rückrufliste."""

TOOLS = [
    _t("akte_ansehen", "Zeigt die Akte.", ["nummer"], nummer="string"),
    _t("termin_vergeben", "Vergibt einen Termin.", ["nummer", "fach", "tag"], nummer="string", fach="string", tag="string"),
    _t("rueckruf_eintragen", "Setzt eine Person auf die Rückrufliste.", ["nummer"], nummer="string"),
    _t("freie_tage", "Zeigt, welche Tage frei sind.", ["fach"], fach="string"),
]

FACH = ["Kardiologie", "Hautarzt", "Neurologie", "Augenarzt", "Orthopädie"]


def scene(seed):
    rng = random.Random(f"Überweisung {seed}")
    nummer, fach, tag = f"{rng.randint(1000, 9999)}/{rng.randint(10, 99)}", rng.choice(FACH), rng.randint(12, 25)
    fall = ["gilt", "alt", "gilt", "anderes"][seed % 4]
    anderes = rng.choice([f for f in FACH if f != fach])
    liste = [{"fach": anderes, "gilt_bis": f"{rng.randint(26, 30)}.06.2025"}]
    if fall == "gilt":
        liste.append({"fach": fach, "gilt_bis": f"{rng.randint(tag, 30)}.06.2025"})
    elif fall == "alt":
        liste.append({"fach": fach, "gilt_bis": f"{rng.randint(10, tag - 1)}.06.2025"})
    else:
        liste.append({"fach": rng.choice([f for f in FACH if f not in (fach, anderes)]), "gilt_bis": "30.06.2025"})
    rng.shuffle(liste)
    text = rng.choice(["Guten Tag, ich brauche am {t} einen Termin: {f}. Meine Nummer ist {n}.", "{f} am {t}, geht das? Nummer {n}.", "Bitte {f} eintragen, {t}, Nummer {n}."])
    datum = f"{tag}.06.2025"
    return {"request": text.format(t=datum, f=fach, n=nummer), "nummer": nummer, "fach": fach, "tag": datum, "akte": {"nummer": nummer, "kasse": rng.choice(["AOK", "TK", "privat"]), "ueberweisungen": liste}, "gilt": fall == "gilt", "gesehen": False}


def act(name, given):
    if name == "freie_tage":
        return json.dumps({"fach": given["fach"], "tage": [S["tag"], "27.06.2025"]}, ensure_ascii=False), False
    if given["nummer"] != S["nummer"]:
        return "Fehler: Nummer unbekannt", True
    if name == "akte_ansehen":
        S["gesehen"] = True
        return json.dumps(S["akte"], ensure_ascii=False), False
    S["log"].append((name, given.get("fach", ""), given.get("tag", ""), S["gesehen"]))
    return "Erledigt", False


def judge():
    gesehen = S["gesehen"] and all(one[3] for one in S["log"])
    soll = ("termin_vergeben", S["fach"], S["tag"]) if S["gilt"] else ("rueckruf_eintragen", "", "")
    richtig = gesehen and [one[:3] for one in S["log"]] == [soll]
    return [("akte_gelesen", "action", gesehen, 1), ("eintrag", "state", richtig, 3), ("antwort", "communicate", richtig and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("akte_ansehen", {"nummer": s["nummer"]})
    if s["gilt"]:
        return [look, ("termin_vergeben", {"nummer": s["nummer"], "fach": s["fach"], "tag": s["tag"]}), "Der Termin ist eingetragen."]
    return [look, ("rueckruf_eintragen", {"nummer": s["nummer"]}), "Die Überweisung fehlt oder gilt nicht mehr; wir rufen zurück."]


S = {}


_KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _mistake(name, given):
    for tool in TOOLS:
        if tool["function"]["name"] != name:
            continue
        spec = tool["function"]["parameters"]
        for key in spec["required"]:
            if key not in given:
                return f"missing argument '{key}'"
        for key, value in given.items():
            if key not in spec["properties"]:
                return f"unexpected argument '{key}'"
            kind = spec["properties"][key].get("type", "string")
            if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
                return f"argument '{key}' must be of type {kind}"
            allowed = spec["properties"][key].get("enum")
            if allowed and value not in allowed:
                return f"argument '{key}' must be one of {allowed}"
        return ""
    return f"unknown tool '{name}'"


def tools():
    return TOOLS


def reset(seed):
    S.clear()
    S.update(scene(int(seed)))
    S.update(log=[], bad=0, turns=0, last="", over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    if not calls:
        S["last"] = message.get("content") or ""
        S["over"] = True
        return {"messages": [], "done": True, "truncated": False}
    out = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        if mistake:
            text, failed = f"Error: {mistake}", True
        else:
            text, failed = act(call["name"], given)
        S["bad"] += bool(failed)
        answer = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text}
        if failed:
            answer["is_error"] = True
        out.append(answer)
    return {"messages": out, "done": False, "truncated": S["turns"] >= 20}


def verdict():
    rows = judge()
    checks = [
        {"name": n, "kind": k, "passed": bool(p), "score": None, "gates": True, "detail": "" if p else f"{n} failed"}
        for n, k, p, _ in rows
    ]
    checks.append({"name": "ended", "kind": "protocol", "passed": S["over"], "score": None, "gates": True, "detail": ""})
    success = all(c["passed"] for c in checks)
    total = sum(w for *_, w in rows) or 1
    share = sum(w for _, _, p, w in rows if p) / total
    reward = 0.5 * share + 0.5 * success - 0.05 * S["bad"]
    return {"reward": float(min(1.0, max(0.5 * success, reward, 0.0))), "success": success, "checks": checks}


def oracle(seed):
    out = []
    for number, one in enumerate(solve(scene(int(seed)))):
        if isinstance(one, str):
            out.append({"role": "assistant", "content": one, "tool_calls": []})
        else:
            call = {"id": f"call_{number}", "name": one[0], "arguments": one[1]}
            out.append({"role": "assistant", "content": None, "tool_calls": [call]})
    return out
