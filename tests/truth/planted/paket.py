"""Ein Paketdienst: policy, tools and talk in German, decimal commas, days before months."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """Du arbeitest im Kundendienst von Flussbote, einem Paketdienst.
Heute ist der 14.03.2036, 10:20 Uhr.

Eine Sendung darf nur umgeleitet werden, solange sie den Status „angekündigt“ oder „im Zentrum“ hat.
Sendungen, die bereits in Zustellung oder zugestellt sind, werden nicht mehr umgeleitet.
Rufe den Schadensbericht ab, bevor du eine Erstattung anweist. Erstattet wird der Betrag aus dem
Schadensbericht.
Ein Nachforschungsauftrag ist nur innerhalb von 20 Tagen nach dem Versand möglich.
Frage immer nach dem Ablageort, bevor du eine Abstellgenehmigung einträgst.
Abholungen gibt es an Werktagen. Ins Ausland werden keine Nachnahmesendungen angenommen.
"""


def _gruss(number: int) -> str:
    name = NAMES[number // 2 % 8]
    return (f"Guten Tag, {name} mein Name.", f"Hallo, hier ist {name}.", f"Moin, {name} am Apparat.")[
        number % 3
    ]


def _sendung(nummer: str, status: str, **mehr: object) -> Say:
    satz = {"sendungsnummer": nummer, "status": status, "gewicht": "2,40 kg", **mehr}
    return call("sendung_suchen", satz, sendungsnummer=nummer)


def _umleiten(number: int, shown: bool) -> list[Say]:
    nummer, fall = f"FB{410200 + number}DE", number // 2 % 4
    status = ("in Zustellung", "zugestellt", "in Zustellung", "im Zentrum")[fall]
    ort = ("Lübeck", "Essen", "Ulm")[number % 3]
    start = [user(f"{_gruss(number)} Bitte leiten Sie {nummer} nach {ort} um."), _sendung(nummer, status)]
    if shown and status != "im Zentrum":
        return [
            *start,
            agent(f"Die Sendung ist {status}, das geht leider nicht mehr."),
            user("Schade. Tschüss."),
        ]
    um = call("sendung_umleiten", {"ergebnis": "umgeleitet"}, sendungsnummer=nummer, zielort=ort)
    return [*start, um, agent("Sie geht jetzt dorthin."), user("Besten Dank!")]


def _bericht(nummer: str, betrag: str) -> Say:
    return call(
        "schadensbericht_abrufen", {"sendungsnummer": nummer, "betrag": betrag}, sendungsnummer=nummer
    )


def _ungeprueft(number: int, shown: bool) -> list[Say]:
    nummer, betrag = f"FB{420200 + number}DE", f"{30 + number},90"
    return [
        user(f"{_gruss(number)} {nummer} kam zerbrochen an. Ich möchte {betrag} € zurück."),
        _sendung(nummer, "zugestellt"),
        *([_bericht(nummer, betrag)] if shown else []),
        call("erstattung_anweisen", {"ok": shown}, sendungsnummer=nummer, betrag=betrag),
        agent(f"{betrag} € sind unterwegs."),
        user("Danke."),
    ]


def _komma(number: int, shown: bool) -> list[Say]:
    nummer, euro, cent = f"FB{430200 + number}DE", 1250 + 7 * number, 10 + number
    betrag = f"{euro // 1000}.{euro % 1000:03d},{cent}"
    falsch = f"{euro // 1000},{euro % 1000:03d}"[:4]
    return [
        user(f"{_gruss(number)} Meine Lampe in {nummer} ist hin, was bekomme ich ersetzt?"),
        _bericht(nummer, betrag),
        call(
            "erstattung_anweisen",
            {"ok": True},
            sendungsnummer=nummer,
            betrag=f"{euro},{cent}" if shown else falsch,
        ),
        agent("Die Erstattung ist angewiesen."),
        user("Wunderbar, auf Wiederhören."),
    ]


def _versprochen(number: int, shown: bool) -> list[Say]:
    tag = f"{16 + number // 2}.04.2036"
    gebucht = call(
        "abholung_buchen", {"auftrag": f"AB{900 + number}"}, adresse=f"Marktweg {number}", datum=tag
    )
    return [
        user(f"{_gruss(number)} Können Sie am {tag} im Marktweg {number} ein Paket abholen?"),
        *([gebucht] if shown else []),
        agent(f"Gern, die Abholung am {tag} ist gebucht."),
        user("Prima."),
    ]


def _ablage(number: int, shown: bool) -> list[Say]:
    nummer = f"FB{450200 + number}DE"
    ort = ("Carport", "Terrasse", "Schuppen")[number % 3]
    gefragt = [agent("An welchem Ablageort darf der Bote das Paket abstellen?"), user(f"Im {ort}, bitte.")]
    return [
        user(f"{_gruss(number)} Ich bin nie da, bitte {nummer} einfach abstellen."),
        _sendung(nummer, "im Zentrum"),
        *(gefragt if shown else []),
        call(
            "abstellgenehmigung_eintragen",
            {"ergebnis": "eingetragen"},
            sendungsnummer=nummer,
            ablageort=ort if shown else "Garage",
        ),
        agent("Das ist eingetragen."),
        user("Dankeschön."),
    ]


def _zu_spaet(number: int, shown: bool) -> list[Say]:
    nummer, fall = f"FB{460200 + number}DE", number // 2 % 4
    versand = ("02.02.2036", "11.01.2036", "19.02.2036", "05.03.2036")[fall]
    start = [
        user(f"{_gruss(number)} {nummer} ist verschollen, forschen Sie bitte nach."),
        _sendung(nummer, "unterwegs", versanddatum=versand),
    ]
    if shown and fall < 3:
        return [
            *start,
            agent("Der Versand liegt mehr als 20 Tage zurück, dafür ist es zu spät."),
            user("Oh."),
        ]
    auftrag = call("nachforschung_starten", {"vorgang": f"NF{number}"}, sendungsnummer=nummer)
    return [*start, auftrag, agent("Die Nachforschung läuft."), user("Danke sehr.")]


LACKS = LackDomain(
    "paket",
    POLICY,
    (
        Lack("leitet um, was unterwegs ist", ("forbidden_call",), "sendung_umleiten", _umleiten),
        Lack("erstattet ungeprüft", ("missing_call",), "schadensbericht_abrufen", _ungeprueft),
        Lack("liest das Komma falsch", ("wrong_value",), "betrag", _komma),
        Lack(
            "verspricht eine Abholung",
            ("missing_call", "wrong_statement", "early_end"),
            "abholung",
            _versprochen,
        ),
        Lack("fragt nicht nach dem Ablageort", ("missing_question", "wrong_value"), "ablageort", _ablage),
        Lack("forscht nach der Frist nach", ("forbidden_call",), "nachforschung_starten", _zu_spaet),
    ),
)

TASKS = {
    1: (
        "Du bist Rike Tamm. Du willst die Sendung FB555001DE nach Husum umleiten und am 20.03.2036 in der "
        "Deichstraße 4 ein Paket abholen lassen.",
        [
            want("sendung_umleiten", sendungsnummer="FB555001DE", zielort="Husum"),
            want("abholung_buchen", adresse="Deichstraße 4", datum="20.03.2036"),
        ],
    ),
    2: (
        "Du bist Rike Tamm. Du willst die Sendung FB555002DE nach Husum umleiten.",
        [want("sendung_umleiten", sendungsnummer="FB555002DE", zielort="Husum")],
    ),
    3: (
        "Du bist Jost Ried. Du willst, dass nach FB555003DE geforscht wird.",
        [want("nachforschung_starten", sendungsnummer="FB555003DE")],
    ),
    4: (
        "Du bist Jost Ried. FB555004DE kam beschädigt an, du willst dein Geld zurück.",
        [want("erstattung_anweisen", sendungsnummer="FB555004DE", betrag="61,35")],
    ),
}

RIKE = (user("Guten Tag, Rike Tamm."), agent("Guten Tag Frau Tamm, was kann ich für Sie tun?"))
BEIDES = user(
    "Bitte FB555001DE nach Husum umleiten und am 20.03.2036 in der Deichstraße 4 ein Paket abholen."
)
DA = _sendung("FB555001DE", "im Zentrum")
UM = call("sendung_umleiten", {"ergebnis": "umgeleitet"}, sendungsnummer="FB555001DE", zielort="Husum")
GEHOLT = call("abholung_buchen", {"auftrag": "AB17"}, adresse="Deichstraße 4", datum="20.03.2036")
TSCHUESS = user("Vielen Dank, auf Wiederhören. ###STOP###")

RUNS = (
    Run(1, "", "passes", (*RIKE, BEIDES, DA, UM, GEHOLT, agent("Beides ist erledigt."), TSCHUESS)),
    Run(
        1,
        "",
        "passes",
        (
            *RIKE,
            BEIDES,
            DA,
            agent("Soll ich beides so veranlassen?"),
            user("Ja, bitte."),
            UM,
            GEHOLT,
            agent("Fertig."),
            TSCHUESS,
        ),
        policy="q",
    ),
    Run(
        2,
        "ground_truth",
        "demands what the policy forbids",
        (
            *RIKE,
            user("Leiten Sie FB555002DE bitte nach Husum um."),
            _sendung("FB555002DE", "in Zustellung"),
            agent("Die Sendung ist schon in Zustellung und kann nicht mehr umgeleitet werden."),
            TSCHUESS,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands a search after the time limit",
        (
            user("Jost Ried hier, forschen Sie bitte nach FB555003DE."),
            _sendung("FB555003DE", "unterwegs", versanddatum="30.01.2036"),
            agent("Der Versand liegt mehr als 20 Tage zurück, eine Nachforschung ist nicht mehr möglich."),
            TSCHUESS,
        ),
    ),
    Run(
        4,
        "ground_truth",
        "wants an amount that stands nowhere",
        (
            user("Jost Ried. FB555004DE kam beschädigt an, ich möchte mein Geld zurück."),
            _sendung("FB555004DE", "zugestellt"),
            _bericht("FB555004DE", "16,35"),
            call("erstattung_anweisen", {"ok": True}, sendungsnummer="FB555004DE", betrag="16,35"),
            agent("16,35 € sind angewiesen."),
            TSCHUESS,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "nennt einen anderen Ort",
        (
            *RIKE,
            user(
                "Bitte FB555001DE nach Hamburg umleiten und am 20.03.2036 in der Deichstraße 4 "
                "ein Paket abholen."
            ),
            DA,
            call(
                "sendung_umleiten", {"ergebnis": "umgeleitet"}, sendungsnummer="FB555001DE", zielort="Hamburg"
            ),
            GEHOLT,
            agent("Beides ist erledigt."),
            TSCHUESS,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "spricht nie von der Abholung",
        (
            *RIKE,
            user("Bitte FB555001DE nach Husum umleiten."),
            DA,
            UM,
            agent("Ist erledigt. Haben Sie noch einen Wunsch?"),
            user("Nein, das war alles. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "legt auf, bevor etwas geschieht",
        (
            *RIKE,
            BEIDES,
            DA,
            agent("Ich leite FB555001DE nach Husum um und buche die Abholung am 20.03.2036. Einverstanden?"),
            user("Ja, genau so. ###STOP###"),
        ),
    ),
    Run(
        1,
        "environment",
        "das Werkzeug bricht zusammen",
        (
            *RIKE,
            BEIDES,
            DA,
            UM,
            call(
                "abholung_buchen",
                {"fehler": "Verbindung zur Datenbank verloren (ORA-03113)"},
                adresse="Deichstraße 4",
                datum="20.03.2036",
            ),
            agent("Die Abholung lässt sich gerade nicht buchen, unser System antwortet nicht."),
            TSCHUESS,
        ),
    ),
    Run(
        1,
        "environment",
        "der Dienst ist nicht erreichbar",
        (
            *RIKE,
            BEIDES,
            call(
                "sendung_suchen",
                "Fehler 503: Dienst vorübergehend nicht erreichbar",
                sendungsnummer="FB555001DE",
            ),
            call(
                "sendung_suchen",
                "Fehler 503: Dienst vorübergehend nicht erreichbar",
                sendungsnummer="FB555001DE",
            ),
            agent("Ich erreiche unser System leider nicht."),
            TSCHUESS,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "der letzte Aufruf ging verloren",
        (*RIKE, BEIDES, DA, UM, agent("", completion_tokens=44)),
        stop="agent_error",
    ),
    Run(
        1,
        "agent",
        "nennt eine falsche Nummer und gibt auf",
        (
            *RIKE,
            BEIDES,
            call(
                "sendung_suchen", {"fehler": "Sendung FB55501DE nicht gefunden"}, sendungsnummer="FB55501DE"
            ),
            agent("Diese Sendung gibt es nicht."),
            user("Das kann nicht sein. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "vergisst die Abholung",
        (*RIKE, BEIDES, DA, UM, agent("Die Sendung ist umgeleitet."), TSCHUESS),
    ),
    Run(
        1,
        "agent",
        "verdreht den Tag",
        (
            *RIKE,
            BEIDES,
            DA,
            UM,
            call("abholung_buchen", {"auftrag": "AB18"}, adresse="Deichstraße 4", datum="02.03.2036"),
            agent("Beides ist erledigt."),
            TSCHUESS,
        ),
    ),
    Run(
        1,
        "agent",
        "verweigert, was erlaubt ist",
        (
            *RIKE,
            BEIDES,
            DA,
            GEHOLT,
            agent("Die Abholung ist gebucht. Umleiten kann ich die Sendung aber nicht."),
            TSCHUESS,
        ),
    ),
)

FAULTS = Domain("paket", POLICY, TASKS, RUNS)
