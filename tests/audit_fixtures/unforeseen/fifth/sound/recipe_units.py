"""Recipes: amounts are worked out for other portions and in grams, one entry each, in any order."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You write recipes out for kitchens. Look the recipe up, and each of its ingredients, for how many grams a cup of it weighs. Enter every ingredient with enter_grams: cups per portion, times portions, times the
grams of a cup. An ingredient that the guest must not eat is left out."""

TOOLS = [
    _t("get_recipe", "Show a recipe: cups of each ingredient per portion.", ["recipe"], recipe="string"),
    _t("get_ingredient", "Show how many grams a cup weighs, and what it holds.", ["ingredient"], ingredient="string"),
    _t("enter_grams", "Enter how many grams of an ingredient are needed.", ["ingredient", "grams"], ingredient="string", grams="integer"),
]

CUPS = {"flour": (120, "gluten"), "oats": (90, "gluten"), "sugar": (200, "nothing"), "butter": (227, "milk"), "yoghurt": (245, "milk"), "almonds": (143, "nuts"), "raisins": (165, "nothing")}


def scene(seed):
    rng = random.Random(f"recipes|{seed}")
    recipe, portions, avoid = f"R{rng.randint(100, 999)}", rng.randint(2, 9), rng.choice(["gluten", "milk", "nuts"])
    cups = {one: rng.randint(1, 4) for one in rng.sample(list(CUPS), 3)}
    grams = {one: n * portions * CUPS[one][0] for one, n in cups.items() if CUPS[one][1] != avoid}
    text = rng.choice(["{r} for {n}, without {a} please.", "Please write {r} out for {n} people who eat no {a}.", "We are {n} and eat no {a}: {r}, please."])
    return {"request": text.format(r=recipe, n=portions, a=avoid), "recipe": recipe, "cups": cups, "grams": grams, "looked": False}


def act(name, given):
    if name == "get_recipe":
        if given["recipe"] != S["recipe"]:
            return json.dumps({"error": "no such recipe"}), True
        S["looked"] = True
        return json.dumps({"recipe": S["recipe"], "cups_per_portion": S["cups"]}), False
    if given["ingredient"] not in S["cups"]:
        return json.dumps({"error": "that is not in it"}), True
    if name == "get_ingredient":
        weight, holds = CUPS[given["ingredient"]]
        return json.dumps({"ingredient": given["ingredient"], "grams_a_cup": weight, "holds": holds}), False
    S["log"].append((given["ingredient"], given["grams"]))
    return json.dumps({"ingredient": given["ingredient"], "status": "entered"}), False


def judge():
    right = S["looked"] and sorted(S["log"]) == sorted(S["grams"].items())
    return [("looked", "action", S["looked"], 1), ("entered", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_ingredient", {"ingredient": one}) for one in s["cups"]]
    entries = [("enter_grams", {"ingredient": one, "grams": n}) for one, n in s["grams"].items()]
    return [("get_recipe", {"recipe": s["recipe"]}), *looks, *entries, "The recipe is written out."]


def user(text):
    return ""


S = {}
