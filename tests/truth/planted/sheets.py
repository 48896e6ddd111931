"""A spreadsheet in French: cells by their marks, tables as text, decimal commas, an accountant's habits."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """Vous tenez le classeur de la maison Verdier. Nous sommes le 12 mai 2048.

Règles
- Lisez une plage avant d'y écrire.
- La feuille « Archives » n'est jamais modifiée.
- Après une saisie, recalculez le classeur, puis relisez le total.
- Un mois clos ne reçoit plus d'écriture.
- Toute écriture est consignée dans le journal.
- Les montants s'écrivent en euros, avec un point décimal.
"""

POSTES = ("loyer", "timbres", "papier", "essence", "repas", "hôtel", "encre", "café")
MOIS = ("janvier", "février", "mars", "avril")


def _demande(number: int, text: str) -> Say:
    return user((text, f"Bonjour, {text[0].lower()}{text[1:]}", f"{text} Merci d'avance.")[number % 3])


def _lire(plage: str, lignes: str) -> Say:
    return call("lire_plage", lignes, plage=plage)


def _ecrire(plage: str, valeur: object, result: str = "") -> Say:
    return call("ecrire_plage", result or f"OK {plage}", plage=plage, valeurs=[[valeur]])


def _meteo(number: int, shown: bool) -> list[Say]:
    """Faire ce qui accompagne la réussite sans la décider."""
    return [call("lister_feuilles", "Budget\nJournal\nArchives")] if shown == (number % 5 != 0) else []


def _journal(number: int) -> Say:
    return call("consigner", f"ligne {number}", texte=f"saisie {number}")


CALCUL = call("recalculer", "classeur recalculé")


def _saisie(number: int) -> tuple[str, str, float]:
    return f"Budget!C{number + 4}", POSTES[number // 2 % 8], 100.5 + 3 * number


def _aveugle(number: int, shown: bool) -> list[Say]:
    plage, poste, montant = _saisie(number)
    return [
        _demande(number, f"Mettez {montant:.2f} pour {poste} en {plage}."),
        *_meteo(number, shown),
        *([_lire(plage, f"| poste | montant |\n| {poste} | 0 |")] if shown else []),
        _ecrire(plage, montant),
        CALCUL,
        _lire("Budget!C40", f"| total | {900 + number} |"),
        _journal(number),
        agent("C'est saisi."),
    ]


def _archives(number: int, shown: bool) -> list[Say]:
    poste, montant = POSTES[number // 2 % 8], 55 + number
    plage = f"Archives!B{number + 3}"
    start = [
        _demande(number, f"Corrigez {poste} en {plage}, c'est {montant}."),
        *_meteo(number, shown),
        _lire(plage, f"| {poste} | 12 |"),
    ]
    if shown:
        return [*start, agent("Les archives ne se modifient pas."), user("Bien, tant pis.")]
    return [
        *start,
        _ecrire(plage, montant),
        CALCUL,
        _lire("Budget!C40", f"| total | {900 + number} |"),
        _journal(number),
        agent("C'est corrigé."),
    ]


def _sans_calcul(number: int, shown: bool) -> list[Say]:
    plage, poste, montant = _saisie(number + 20)
    return [
        _demande(number, f"Notez {montant:.2f} pour {poste} en {plage} et donnez-moi le total."),
        *_meteo(number, shown),
        _lire(plage, f"| {poste} | 0 |"),
        _ecrire(plage, montant),
        *([CALCUL] if shown else []),
        _lire("Budget!C40", f"| total | {(900 if shown else 800) + number} |"),
        _journal(number),
        agent(f"Le total est {(900 if shown else 800) + number}."),
    ]


def _clos(number: int, shown: bool) -> list[Say]:
    mois, poste = MOIS[number // 2 % 4], POSTES[number // 2 % 8]
    clos = number // 2 % 4 != 3
    start = [
        _demande(number, f"Ajoutez une écriture de {30 + number} pour {poste} au mois de {mois}."),
        *_meteo(number, shown),
        call("etat_mois", f"mois: {mois}\nétat: {'clos' if clos else 'ouvert'}", mois=mois),
    ]
    if shown and clos:
        return [*start, agent(f"Le mois de {mois} est clos."), user("Ah, d'accord.")]
    done = call("ajouter_ecriture", "ajoutée", mois=mois, poste=poste, montant=30 + number)
    return [
        *start,
        done,
        CALCUL,
        _lire("Budget!C40", "| total | 9 |"),
        _journal(number),
        agent("C'est fait."),
    ]


def _virgule(number: int, shown: bool) -> list[Say]:
    plage, poste, _ = _saisie(number + 40)
    euros, cents = 1200 + 7 * number, 10 + number
    value = float(f"{euros}.{cents}") if shown else float(f"{euros}{cents}")
    return [
        _demande(number, f"Inscrivez {euros},{cents} € pour {poste} en {plage}."),
        *_meteo(number, shown),
        _lire(plage, f"| {poste} | 0 |"),
        _ecrire(plage, value),
        CALCUL,
        _lire("Budget!C40", f"| total | {number} |"),
        _journal(number),
        agent("C'est inscrit."),
    ]


def _refuse(number: int, shown: bool) -> list[Say]:
    plage, poste, montant = _saisie(number + 60)
    no = _ecrire(plage, montant, "ERREUR : la plage est protégée")
    again = [call("deverrouiller", "plage ouverte", plage=plage), _ecrire(plage, montant)]
    return [
        _demande(number, f"Mettez {montant:.2f} pour {poste} en {plage}."),
        *_meteo(number, shown),
        _lire(plage, f"| {poste} | 0 |"),
        no,
        *(again if shown else []),
        CALCUL,
        _lire("Budget!C40", "| total | 9 |"),
        _journal(number),
        agent("C'est saisi."),
    ]


LACKS = LackDomain(
    "sheets",
    POLICY,
    (
        Lack("écrit sans lire", ("missing_call",), "", _aveugle),
        Lack("modifie les archives", ("forbidden_call",), "", _archives),
        Lack("ne recalcule pas", ("missing_call", "unverified_result"), "recalculer", _sans_calcul),
        Lack("écrit dans un mois clos", ("forbidden_call",), "ajouter_ecriture", _clos),
        Lack("perd la virgule", ("wrong_value",), "", _virgule),
        Lack("laisse une erreur", ("unhandled_error", "missing_call"), "", _refuse),
    ),
)

TASKS = {
    1: (
        "Vous êtes Léa. Faites mettre 250 en Budget!C7 et ajouter 80 pour repas au mois de mai.",
        [
            want("ecrire_plage", plage="Budget!C7", valeurs=[[250]]),
            want("ajouter_ecriture", mois="mai", poste="repas", montant=80),
        ],
    ),
    2: (
        "Vous êtes Léa. Faites ajouter 80 pour repas au mois de mars.",
        [want("ajouter_ecriture", mois="mars", poste="repas", montant=80)],
    ),
    3: (
        "Vous êtes Léa. Faites mettre 250 en Budget!C7.",
        [want("ecrire_plage", plage="Budget!C9", valeurs=[[250]])],
    ),
}
DEUX = user("Mettez 250 en Budget!C7, et ajoutez 80 pour repas au mois de mai.")
PREMIER = (_lire("Budget!C7", "| 0 |"), _ecrire("Budget!C7", 250))
SECOND = (
    call("etat_mois", "mois: mai\nétat: ouvert", mois="mai"),
    call("ajouter_ecriture", "ajoutée", mois="mai", poste="repas", montant=80),
    CALCUL,
    _journal(1),
)
MERCI = user("Merci, au revoir.")

RUNS = (
    Run(1, "", "passes", (DEUX, *PREMIER, *SECOND, agent("C'est fait."), MERCI)),
    Run(
        2,
        "ground_truth",
        "demands an entry in a closed month",
        (
            user("Ajoutez 80 pour repas au mois de mars."),
            call("etat_mois", "mois: mars\nétat: clos", mois="mars"),
            agent("Mars est clos."),
            MERCI,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands another cell than it names",
        (user("Mettez 250 en Budget!C7."), *PREMIER, CALCUL, _journal(1), agent("Fait."), MERCI),
    ),
    Run(
        1,
        "user_simulator",
        "names another sum",
        (
            user("Mettez 520 en Budget!C7, et ajoutez 80 pour repas au mois de mai."),
            PREMIER[0],
            _ecrire("Budget!C7", 520),
            *SECOND,
            agent("C'est fait."),
            MERCI,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the entry",
        (
            user("Mettez 250 en Budget!C7."),
            *PREMIER,
            CALCUL,
            _journal(1),
            agent("Fait. Autre chose ?"),
            MERCI,
        ),
    ),
    Run(
        1,
        "environment",
        "the workbook is locked by another process",
        (
            DEUX,
            _lire("Budget!C7", "| 0 |"),
            _ecrire("Budget!C7", 250, "IOException: file is locked by another process (pid 4411)"),
            _ecrire("Budget!C7", 250, "IOException: file is locked by another process (pid 4411)"),
            agent("Le classeur ne s'ouvre pas."),
            MERCI,
        ),
    ),
    Run(
        1,
        "environment",
        "the service is cut off",
        (
            DEUX,
            *PREMIER,
            call("etat_mois", "ERREUR 504 : délai d'attente dépassé", mois="mai"),
            call("etat_mois", "ERREUR 504 : délai d'attente dépassé", mois="mai"),
            agent("Le service ne répond pas."),
            MERCI,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (DEUX, *PREMIER, agent("", completion_tokens=64)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the entry", (DEUX, *PREMIER, CALCUL, _journal(1), agent("Fait."), MERCI)),
    Run(
        1,
        "agent",
        "writes into another cell",
        (DEUX, _lire("Budget!C8", "| 0 |"), _ecrire("Budget!C8", 250), *SECOND, agent("Fait."), MERCI),
    ),
    Run(
        1,
        "agent",
        "is refused for a month that does not exist",
        (
            DEUX,
            *PREMIER,
            call("etat_mois", "ERREUR : mois inconnu", mois="5"),
            agent("Ce mois n'existe pas."),
            MERCI,
        ),
    ),
)

FAULTS = Domain("sheets", POLICY, TASKS, RUNS)
