"""Énergie : calculer le coût annuel de chaque tarif avant d'en nommer le moins cher."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """Vous conseillez les clients d'un fournisseur d'électricité. Au client qui demande le tarif le moins cher, donnez celui dont le coût
annuel est le plus bas pour la consommation inscrite à son dossier : douze fois l'abonnement mensuel, plus le prix du kWh multiplié par la consommation. Faites le
calcul pour tous les tarifs de la liste, qui n'a pas d'ordre. S'il a déjà le moins cher, ne changez rien et dites-le-lui."""

TOOLS = [
    _t("get_client", "Show the file of a client.", ["client"], client="string"),
    _t("list_tarifs", "List all tariffs.", []),
    _t("change_tarif", "Change the tariff of a client.", ["client", "tarif"], client="string", tarif="string"),
]


def scene(seed):
    rng = random.Random(f"tarif|{seed}")
    use = rng.randrange(900, 6000, 10)
    rows = []
    while len(rows) < 5:
        row = {"tarif": f"E{rng.randint(100, 999)}", "abonnement_mensuel": rng.randint(3, 24), "centimes_par_kwh": rng.randint(14, 33)}
        cost = 1200 * row["abonnement_mensuel"] + use * row["centimes_par_kwh"]
        if all(abs(cost - other[0]) > 1500 and row["tarif"] != other[1]["tarif"] for other in rows):
            rows.append((cost, row))
    best = min(rows, key=lambda one: one[0])[1]
    own = best if seed % 3 == 0 else rng.choice([row for _, row in rows if row is not best])
    client = f"FR{rng.randint(10000, 99999)}"
    text = rng.choice(["Bonjour, client {c}. Je voudrais le tarif le moins cher.", "Je suis {c} et je paie trop. Mettez-moi au tarif le moins cher.", "{c} : passez-moi, s'il vous plaît, au tarif le plus bas pour moi."])
    return {
        "request": text.format(c=client),
        "client": {"client": client, "kwh_par_an": use, "tarif": own["tarif"]},
        "rows": [row for _, row in rows],
        "want": "" if own is best else best["tarif"],
        "seen": set(),
    }


def act(name, given):
    if name == "list_tarifs":
        S["seen"].add("list")
        return json.dumps({"tarifs": S["rows"]}), False
    if given["client"] != S["client"]["client"]:
        return json.dumps({"erreur": "client inconnu"}), True
    if name == "get_client":
        S["seen"].add("client")
        return json.dumps(S["client"]), False
    if given["tarif"] not in [row["tarif"] for row in S["rows"]]:
        return json.dumps({"erreur": "tarif inconnu"}), True
    S["log"].append(given["tarif"])
    return json.dumps({"client": given["client"], "tarif": given["tarif"]}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"list", "client"}
    right = looked and S["log"] == ([S["want"]] if S["want"] else [])
    return [("looked", "action", looked, 1), ("tarif", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = s["client"]["client"]
    looks = [("get_client", {"client": key}), ("list_tarifs", {})]
    if s["want"]:
        return [*looks, ("change_tarif", {"client": key, "tarif": s["want"]}), f"C'est fait : vous êtes au tarif {s['want']}."]
    return [*looks, "Vous avez déjà le tarif le moins cher."]


S = {}
