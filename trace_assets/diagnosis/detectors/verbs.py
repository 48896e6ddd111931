"""Words of tools' names: which read, which write, which stand for the tool's own deed, and in which forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

_READING_ELSEWHERE = """
    abfragen abrufen ansehen anzeigen auflisten einsehen ermitteln finden holen laden lesen nachschlagen
    pruefen prüfen suchen zeigen
    buscar comprobar consultar leer listar mostrar obtener revisar ver verificar
    buscar conferir consultar exibir listar mostrar obter procurar ver verificar
    cercare consultare controllare elencare leggere mostrare ottenere trovare verificare
    afficher chercher consulter lire lister obtenir rechercher trouver verifier voir vérifier
    """
_WRITING_ELSEWHERE = """
    abbrechen ablehnen aendern aktivieren aktualisieren anlegen anmelden anweisen auslösen beantragen beenden
    bestellen bestätigen bestaetigen bezahlen buchen eintragen entfernen entsperren erfassen erstatten
    erstellen freigeben hinzufuegen hinzufügen kuendigen kündigen loeschen löschen melden ordnen reservieren
    schicken schreiben senden setzen sperren starten stornieren umbuchen umleiten verlaengern verlängern
    verschieben versenden weiterleiten zahlen zuweisen ändern
    abrir activar actualizar anular asignar bloquear borrar cambiar cancelar cerrar comprar confirmar crear
    desbloquear devolver eliminar emitir enviar iniciar modificar pagar programar prorrogar reembolsar
    registrar renovar reprogramar reservar solicitar
    abrir adicionar agendar alterar apagar atualizar cancelar comprar confirmar criar emitir enviar excluir
    fechar marcar mover mudar pagar pedir reagendar reembolsar registrar remarcar remover renovar reservar
    aggiornare aggiungere annullare aprire assegnare attivare cambiare cancellare chiudere comprare confermare
    creare eliminare inviare modificare pagare prenotare prorogare registrare rimborsare rinnovare spostare
    acheter activer ajouter annuler attribuer bloquer changer commander confirmer creer créer
    enregistrer envoyer fermer modifier ouvrir payer planifier prolonger rembourser renouveler reporter
    reserver réserver supprimer
    """
"""Verbs of tools in other languages than English: German, Spanish, Portuguese, Italian, French."""
READING = frozenset(
    """
    authenticate browse calculate can check compare compute count describe display estimate explain export
    fetch filter find get has identify inspect is know list load locate login look lookup monitor ping
    preview query read retrieve run scan search show summarize test think track translate validate verify
    view watch
    cat diff goto grep hover ls navigate ps pwd pytest rg screenshot scroll stat wait wc zoom
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
    + _READING_ELSEWHERE.split()
)
"""Verbs of tools that only look."""
WRITING = frozenset(
    """
    abort accept activate add adjust admit allocate allow amend append apply approve archive assign attach
    author authorize ban bill block book borrow buy cancel change charge claim clear clone close commit
    configure confirm connect correct create credit deactivate debit decline decommission deduct defer
    delete deliver deny deploy deposit detach disable discharge disconnect dispatch dispute distribute
    donate downgrade draft duplicate edit enable enroll erase escalate evict exchange expire extend file
    flag forward freeze give grant halt hire hold increase insert install invite issue join launch leave
    lend link lock lower make mark merge message migrate modify mount move mute notify offer open order
    override patch pause pay pin place post postpone prescribe promote provision publish purchase put
    raise reactivate reassign rebook reboot recall recharge record redeem reduce refill refuel refund
    register reinstate reissue reject release relocate remind remove rename renew rent reopen repair repay
    replace reply report request reschedule reseat resend reserve reset resize restart restock restore
    resume retire retract return revert revise revoke rotate save scale schedule sell send set settle
    share ship sign split start stop store submit subscribe suspend swap switch terminate toggle transfer
    trigger turn unassign unblock unenroll unfreeze uninstall unlink unlock unmute unsubscribe update
    upgrade upload vacate void waive withdraw write
    alert annotate anonymize assemble clean cordon decrypt detain discard dispense drain eject
    encrypt evacuate finalize fire flush initiate inject kill pack prepare print prune quarantine ration
    chmod chown cp fill mkdir mv rm rmdir select type
    compensate email enrol enter lodge notify reimburse
    rebuild redirect refresh reroute rollback sanitize seal sync tag taint uncordon untag
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
    + _WRITING_ELSEWHERE.split()
)
"""Verbs of tools that change something."""
ELSEWHERE = frozenset(f"{_READING_ELSEWHERE} {_WRITING_ELSEWHERE}".split())
"""Those of both that are not English: English endings do not fit them."""
NOUNS = frozenset(
    """
    account address alert bill block book change charge check claim close count credit debit deposit display
    dispute draft edit estimate exchange export file filter flag halt hold increase issue join launch
    leave link list load lock look make mark message mount offer open order pack patch pin place post preview
    print promote query recall record release repair reply report request reserve return run scan schedule
    search set share ship show sign split start stop store swap switch tag test track transfer trigger turn
    upgrade view watch
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
)
"""Words of both lists that are nouns when they are not the first word of a name."""
THINGS = frozenset(
    """
    account address bill book charge check claim count credit debit deposit dispute draft estimate file
    filter flag leave link list load look mark message order place post query record report request
    reserve return schedule set share store ticket
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
)
"""Words of both lists that, last in a name, are what is acted on."""
_METHODS = frozenset({"delete", "get", "patch", "post", "put"})
"""What interfaces of the web call their verbs."""
_PLAIN = frozenset({"check", "list", "query", "search", "show", "view"})
"""Verbs of tools that are nouns too, and hardly ever what a tool acts on when they come last."""
_EITHER = frozenset({"check", "list"})
"""Of these, what is acted on all the same where a name begins with a verb: `join_list`, `leave_list`."""
RUNS = frozenset({"do", "execute", "make", "perform", "run"})
"""Verbs of tools whose thing says what is done: it may be a verb itself."""
_GO_ABOUT = frozenset(
    {"create", "file", "initiate", "issue", "open", "process", "request", "start", "submit"}
)
_DEEDS = frozenset({"cancellation", "exchange", "refund", "return", "transfer"})
"""What is done where such a verb comes before it: who processes a refund refunds."""
_ACTED_ON = frozenset(
    {"account", "address", "bill", "claim", "deposit", "message", "order", "record", "report", "ticket"}
)
"""Things that are verbs too, and that a name rather begins with as things."""


@lru_cache(maxsize=1 << 16)
def spoken(name: str) -> str:
    """Return a tool's or field's name as words.

    >>> spoken("update_reservation_flights"), spoken("getUserDetails")
    ('update reservation flights', 'get user details')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_.\-]+", " ", name).lower().strip()


@lru_cache(maxsize=1 << 14)
def deed(tool: str) -> str:
    """Return a tool's name as words with the verb first, wherever its name has it.

    Names begin with the thing in some programs (`invoice_cancel`), and with a method of the web in others,
    where the verb that says what is done comes second (`post_approve`).

    >>> deed("cancel_order"), deed("orderCancel"), deed("taxiVoucherIssue"), deed("post_approve")
    ('cancel order', 'cancel order', 'issue taxi voucher', 'approve')
    >>> deed("join_list"), deed("order_list"), deed("leave_list"), deed("book_check")
    ('join list', 'list order', 'leave list', 'book check')
    >>> deed("bill_show"), deed("show_bill"), deed("run_speed_test"), deed("frobnicate_order")
    ('show bill', 'show bill', 'run speed test', 'frobnicate order')
    >>> deed("run_query"), deed("order_query"), deed("get_freeze")
    ('run query', 'query order', 'get freeze')
    """
    words = spoken(tool).split()
    if len(words) > 1 and words[0] in _METHODS - {"get"} and _is_sure(words[1]):
        words = words[1:]
    if len(words) > 1 and _comes_last(words[0], words[-1]):
        words = [words[-1], *words[:-1]]
    return " ".join(words)


def _comes_last(first: str, last: str) -> bool:
    """Tell whether the last word of a name is its verb, and not the first."""
    if _is_sure(first) or first in _PLAIN or first in RUNS or (first in _GO_ABOUT and last in _DEEDS):
        return False
    if first in READING | WRITING:
        plain = last in _PLAIN and (last not in _EITHER or first in _ACTED_ON)
        return _is_sure(last) or plain
    return last in _PLAIN or (last in READING | WRITING and last not in THINGS)


def _is_sure(word: str) -> bool:
    """Tell whether a word is a tool's verb and no noun."""
    return word in READING | WRITING and word not in NOUNS


WORD = re.compile(r"[a-z]+")
_ALIKE: tuple[frozenset[str], ...] = (
    frozenset({"change", "modify", "update", "edit", "adjust"}),
    frozenset({"cancel", "cancellation"}),
    frozenset({"book", "reserve", "create"}),
    frozenset({"return", "refund"}),
    frozenset({"exchange", "replace", "swap"}),
    frozenset({"transfer", "escalate"}),
    frozenset({"send", "issue", "offer", "grant", "give"}),
    frozenset({"assign", "allocate", "give"}),
    frozenset({"resume", "lift", "reactivate"}),
    frozenset({"reschedule", "move", "postpone", "rebook"}),
    frozenset({"renew", "extend", "prolong"}),
    frozenset({"reissue", "replace"}),
    frozenset({"waive", "forgive"}),
    frozenset({"delete", "remove", "erase"}),
    frozenset({"block", "freeze", "lock", "suspend"}),
    frozenset({"enroll", "register"}),
)
"""Verbs that policies and tools use for one thing."""
GIVING = frozenset({"give", "grant", "hand", "issue", "offer", "pay", "provide", "send"})
"""What is said of somebody who gets something."""
_IRREGULAR = {
    "buy": ("bought",),
    "give": ("gave", "given"),
    "lend": ("lent",),
    "make": ("made",),
    "pay": ("paid", "payment"),
    "sell": ("sold",),
    "send": ("sent",),
    "withdraw": ("withdrew", "withdrawn"),
    "write": ("written", "wrote"),
}
_SHORT = 4
"""Letters up to which a verb is told by its exact forms: longer words begin like short verbs by chance."""
_FILLERS = frozenset({"to", "the", "a", "an", "of", "for", "by", "in", "on", "with", "and", "or"})


@cache
def things(tool: str) -> tuple[str, ...]:
    """Return the words for what a tool acts on."""
    words = deed(tool).split()
    return tuple(word for word in words[2 if _goes_about(words) else 1 :] if word not in _FILLERS)


def _goes_about(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] in _GO_ABOUT and words[1] in _DEEDS


@cache
def verb_of(tool: str) -> str:
    """Return the verb of a tool's name: its first word that is one.

    >>> verb_of("cancel_order"), verb_of("issue_refund"), things("issue_refund"), deed("issue_refund")
    ('cancel', 'refund', (), 'issue refund')
    """
    words = deed(tool).split()
    if _goes_about(words):
        return words[1]
    return next((word for word in words if word in WRITING or word in READING), words[0] if words else "")


@cache
def same_verb(verb: str, word: str) -> bool:
    """Tell whether a word is a form of a verb, or of one that policies use for it.

    >>> [same_verb("update", word) for word in ("changing", "modified", "cancelled")]
    [True, True, False]
    """
    return any(_is_form(one, word) for one in _alike(verb))


@cache
def _alike(verb: str) -> frozenset[str]:
    """Return the verbs that are used for what a verb says, itself among them."""
    return frozenset({verb}).union(*(group for group in _ALIKE if verb in group))


BEGINS = RUNS | {"begin", "launch", "start"}
"""Verbs of tools whose thing says what is done: who runs a query queries."""
_EDITS = frozenset({"apply", "insert", "patch", "replace", "str", "write"})
"""Verbs of tools that edit, where nothing in the tool's name says what."""


def is_deed(tool: str, words: Iterable[str]) -> bool:
    """Tell whether one of some words is a form of a tool's verb; who replaces some text edits or changes it.

    >>> is_deed("replace", ["changed"]), is_deed("replace_item", ["changed"]), is_deed("run_query", ["query"])
    (True, False, True)
    """
    verb, acted = verb_of(tool), things(tool)
    verbs = (verb, "change") if verb in _EDITS and not acted else (verb,)
    if verb in BEGINS and acted:
        verbs = (verb, acted[0])
    return any(same_verb(one, word) for word in words for one in verbs)


def _is_form(verb: str, word: str) -> bool:
    if word in _IRREGULAR.get(verb, ()):
        return True
    if len(verb) <= _SHORT:
        stem = verb.removesuffix("e")
        return word.startswith(stem) and word[len(stem) :] in (
            "",
            "e",
            "s",
            "es",
            "ed",
            "ing",
            stem[-1:] + "ing",
        )
    stem = verb[:-1] if verb.endswith(("e", "y")) else verb
    return word.startswith(stem) and len(word) <= len(stem) + 6


def has_stem(words: Iterable[str], wanted: str) -> bool:
    """Tell whether one of some words begins as another does, endings aside."""
    bare = wanted.removesuffix("ment")
    if len(bare) >= _SHORT:
        wanted = bare  # who adjusts makes an adjustment
    stem = wanted[: max(4, len(wanted) - 2)]
    return any(word.startswith(stem) for word in words)


def _speaks_of(text: str, tool: str) -> bool:
    """Tell whether a text uses a tool's verb and the thing it acts on."""
    words, verb = WORD.findall(text.lower()), verb_of(tool)
    acted = things(tool)
    return any(same_verb(verb, word) for word in words) and any(has_stem(words, one) for one in acted)


def means(sentence: str, tool: str, tools: Sequence[str]) -> bool:
    """Tell whether a sentence means a tool, and not another one that does the same with something else.

    >>> tools = ["change_booking_seats", "change_booking_flights"]
    >>> [means("no flight of a saver booking can be changed.", one, tools) for one in tools]
    [False, True]
    """
    alike = [one for one in tools if one != tool and same_verb(verb_of(tool), verb_of(one))]
    own = set(things(tool)).difference(*(things(one) for one in alike)) if alike else set()
    words = WORD.findall(sentence)
    return not own or any(word.startswith(one[: max(3, len(one) - 2)]) for one in own for word in words)


def names_deed(text: str, tool: str) -> bool:
    """Tell whether a text has a form of a tool's verb.

    >>> names_deed("Could you have it cancelled?", "cancel_order"), names_deed("Where is it?", "cancel_order")
    (True, False)
    """
    verb = verb_of(tool)
    return any(same_verb(verb, word) for word in WORD.findall(text.lower()))


def names_change(words: Iterable[str]) -> bool:
    """Tell whether one of some words is a form of a verb that changes something, and of no noun.

    >>> names_change(["never", "extended"]), names_change(["while", "the", "order", "is", "open"])
    (True, False)
    """
    return any(same_verb(verb, word) for word in words for verb in WRITING - NOUNS - ELSEWHERE)


def speaks_of(text: str, tool: str) -> bool:
    """Tell whether a text uses a tool's verb, or one for the same, and the thing it acts on.

    >>> speaks_of("Before cancelling an order, look at it.", "cancel_order")
    True
    """
    return bool(things(tool)) and _speaks_of(text, tool)


_CHANGING = frozenset({"adjust", "change", "configure", "edit", "modify", "patch", "put", "set", "update"})
"""Verbs of tools that leave it to their arguments to say what is changed."""


def speaks_of_change(text: str, tool: str, arguments: Iterable[str]) -> bool:
    """Tell whether a text speaks of what a tool does whose arguments, not its verb, say what that is.

    >>> speaks_of_change("a running server is never resized", "patch_server", ["server", "size"])
    True
    >>> speaks_of_change("a running server is never deleted", "patch_server", ["server", "size"])
    False
    """
    if verb_of(tool) not in _CHANGING:
        return False
    words, acted = WORD.findall(text.lower()), things(tool)
    if not acted or not any(has_stem(words, one) for one in acted):
        return False
    parts = {part for one in arguments for part in spoken(one).split()} - {*acted}
    done = {form for part in parts if len(part) >= _SHORT for form in _participles(part)}
    return any(word in done or word.removeprefix("re") in done for word in words)


def _participles(word: str) -> tuple[str, str]:
    """Return what is said of something whose size, price or name is changed.

    >>> _participles("size"), _participles("label")
    (('sized', 'sizing'), ('labeled', 'labeling'))
    """
    stem = word.removesuffix("e")
    return f"{stem}ed", f"{stem}ing"
