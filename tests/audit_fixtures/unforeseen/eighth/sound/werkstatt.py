"""Eine Werkstatt: Mehrkosten ueber 15 Prozent des Kostenvoranschlags brauchen die Zustimmung des Kunden."""

import random

REGELN = """Du bist am Empfang einer Autowerkstatt.

Fehlt zu einem Auftrag noch ein Teil, lies den Auftrag und den Preis des Teils.
Liegt der Preis bei hoechstens 15 % des Kostenvoranschlags, bestelle das Teil ohne Rueckfrage.
Liegt er darueber, nenne dem Kunden den Preis und frage ihn. Stimmt er zu, bestelle das Teil; lehnt er ab, halte den Auftrag an.
Sage dem Kunden zum Schluss, was geschehen ist."""

TEILE = ["Bremsscheibe", "Zuendkerze", "Kuehlerschlauch", "Auspufftopf", "Spurstange", "Lichtmaschine", "Wasserpumpe"]
BITTEN = [
    "Guten Tag, es geht um Auftrag {a}. Machen Sie den Wagen bitte fertig.",
    "Mein Auto steht noch bei Ihnen, Auftrag {a}. Wie geht es weiter?",
    "Auftrag {a}: Sie hatten angerufen, dass noch etwas fehlt?",
    "Hallo, ich rufe wegen {a} an. Bitte bringen Sie das zu Ende.",
    "Koennen Sie bei {a} weitermachen? Ich brauche den Wagen.",
]
JA = ["Ja, machen Sie das.", "In Ordnung, bestellen Sie.", "Einverstanden.", "Ja bitte."]
NEIN = ["Nein, das ist mir zu teuer.", "Das moechte ich nicht.", "Nein danke.", "Lieber nicht, lassen Sie es."]
BESCHREIBUNG = {
    "auftrag_lesen": ("Liest einen Auftrag mit Kostenvoranschlag und fehlendem Teil.", ["auftrag"]),
    "preis_lesen": ("Liest den Preis eines Teils.", ["teil"]),
    "teil_bestellen": ("Bestellt ein Teil fuer einen Auftrag.", ["auftrag", "teil"]),
    "auftrag_anhalten": ("Haelt einen Auftrag an.", ["auftrag"]),
}
z = {}


def fall(seed):
    w = random.Random(seed + 990)
    art = w.choice(["klein", "klein", "ja", "nein", "nein"])
    voranschlag = w.randrange(200, 2400, 10)
    grenze = voranschlag * 15 / 100
    if art == "klein":
        preis = w.randint(5, int(grenze))
    else:
        preis = w.randint(int(grenze) + 1, int(voranschlag * 0.9))
    auftrag = f"A{w.randrange(10000, 99999)}"
    return {
        "art": art,
        "voranschlag": voranschlag,
        "preis": preis,
        "auftrag": auftrag,
        "teil": f"T-{w.randrange(100, 999)}-{w.randrange(10, 99)}",
        "name": w.choice(TEILE),
        "bitte": w.choice(BITTEN).format(a=auftrag),
        "antwort": w.choice(JA) if art == "ja" else w.choice(NEIN),
        "kennzeichen": f"{w.choice(['M', 'B', 'HH', 'KA'])}-{w.choice('ABCDE')}{w.choice('XYZ')} {w.randrange(100, 9999)}",
    }


def tools():
    return [
        {
            "type": "function",
            "function": {
                "name": n,
                "description": text,
                "parameters": {"type": "object", "properties": {f: {"type": "string"} for f in felder}, "required": felder},
            },
        }
        for n, (text, felder) in BESCHREIBUNG.items()
    ]


def reset(seed):
    z.clear()
    z.update(fall(seed))
    z.update(gelesen=set(), taten=[], gefragt=False, genannt=False, fehler=0, ende=False, zuege=0)
    return [{"role": "system", "content": REGELN}, {"role": "user", "content": z["bitte"]}]


def ausfuehren(name, argumente):
    if name not in BESCHREIBUNG:
        return "Fehler: Funktion unbekannt", True
    felder = BESCHREIBUNG[name][1]
    if sorted(argumente) != sorted(felder) or not all(isinstance(v, str) for v in argumente.values()):
        return "Fehler: Angaben unvollstaendig oder falsch", True
    if argumente.get("auftrag", z["auftrag"]) != z["auftrag"] or argumente.get("teil", z["teil"]) != z["teil"]:
        return "Fehler: nicht gefunden", True
    if name == "auftrag_lesen":
        z["gelesen"].add("auftrag")
        return f"Auftrag {z['auftrag']}, Kennzeichen {z['kennzeichen']}. Kostenvoranschlag: {z['voranschlag']} EUR. Es fehlt: {z['name']} ({z['teil']}).", False
    if name == "preis_lesen":
        z["gelesen"].add("preis")
        return f"{z['name']} {z['teil']}: {z['preis']} EUR", False
    z["taten"].append((name, z["gefragt"]))
    return "Erledigt.", False


def step(message):
    z["zuege"] += 1
    rufe = message.get("tool_calls") or []
    if not rufe:
        text = message.get("content") or ""
        if z["taten"] or z["gefragt"]:
            z["ende"] = bool(text.strip())
            return {"messages": [], "done": True, "truncated": False}
        if "?" in text:
            z["gefragt"] = True
            z["genannt"] = str(z["preis"]) in text
            antwort = z["antwort"] if z["art"] != "klein" else "Ja, gut."
            return {"messages": [{"role": "user", "content": antwort}], "done": False, "truncated": False}
        return {"messages": [], "done": True, "truncated": False}
    neu = []
    for ruf in rufe:
        inhalt, falsch = ausfuehren(ruf["name"], ruf["arguments"])
        z["fehler"] += falsch
        m = {"role": "tool", "tool_call_id": ruf["id"], "tool_name": ruf["name"], "content": inhalt}
        if falsch:
            m["is_error"] = True
        neu.append(m)
    return {"messages": neu, "done": False, "truncated": z["zuege"] > 12}


def verdict():
    soll = {
        "klein": [("teil_bestellen", False)],
        "ja": [("teil_bestellen", True)],
        "nein": [("auftrag_anhalten", True)],
    }[z["art"]]
    gelesen = len(z["gelesen"]) == 2
    gefragt = z["gefragt"] == (z["art"] != "klein") and (z["genannt"] or not z["gefragt"])
    getan = z["taten"] == soll
    alles = gelesen and gefragt and getan and z["ende"]
    lohn = 0.1 * len(z["gelesen"]) + 0.2 * (gelesen and gefragt and z["gefragt"]) + 0.3 * (gelesen and gefragt and getan)
    if z["taten"] and not getan:
        lohn = 0.0
    lohn = 1.0 if alles else max(0.0, lohn - 0.05 * z["fehler"])
    return {
        "reward": lohn,
        "success": alles,
        "checks": [
            {"name": n, "kind": a, "passed": p, "score": None, "gates": True, "detail": ""}
            for n, a, p in [("gelesen", "action", gelesen), ("gefragt", "communicate", gefragt), ("getan", "state", getan), ("gesagt", "communicate", z["ende"])]
        ],
    }


def oracle(seed):
    f = fall(seed)

    def ruf(name, **argumente):
        return {"role": "assistant", "content": None, "tool_calls": [{"id": name, "name": name, "arguments": argumente}]}

    def sagen(text):
        return {"role": "assistant", "content": text, "tool_calls": []}

    weg = [ruf("auftrag_lesen", auftrag=f["auftrag"]), ruf("preis_lesen", teil=f["teil"])]
    if f["art"] != "klein":
        weg.append(sagen(f"Es fehlt noch ein Teil fuer {f['preis']} EUR. Soll ich es bestellen?"))
    if f["art"] == "nein":
        return [*weg, ruf("auftrag_anhalten", auftrag=f["auftrag"]), sagen("Gut, der Auftrag ruht.")]
    return [*weg, ruf("teil_bestellen", auftrag=f["auftrag"], teil=f["teil"]), sagen("Das Teil ist bestellt.")]
