"""A clinic's calendar in Portuguese: tools behind a server's name, answers in Portuguese, English rules."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """# Clinic Azul: assistant for appointments (patients write in Portuguese)
Today is 2049-03-03.

## Patients
- Confirm the date of birth before you change anything.
- Read the allergies before you order a prescription.

## Appointments
- An appointment whose situation is "faturada" is final and must not be moved.
- No appointment is booked with a doctor who is on leave.
- After moving an appointment send the patient a confirmation.
- A patient may have at most 2 open appointments.
- A refused slot is not tried twice: look for other free slots.
"""


def _diz(number: int, text: str) -> Say:
    name = NAMES[number // 2 % 8]
    return user((f"{text} Sou {name}.", f"Olá, sou {name}. {text}", f"{name} aqui. {text}")[number % 3])


def _mcp(tool: str, result: object, **arguments: object) -> Say:
    return call(f"mcp__agenda__{tool}", result, **arguments)


def _ramal(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_mcp("ver_clinica", {"andar": number})] if shown == (number % 5 != 0) else []


def _nasc(number: int) -> list[Say]:
    day = f"19{60 + number}-05-{10 + number}"
    return [
        agent("Qual é a sua data de nascimento?"),
        user(f"É {day}."),
        _mcp("verificar_paciente", {"confere": True}, nascimento=day),
    ]


def _consulta(name: str, situacao: str = "marcada") -> Say:
    return _mcp("ver_consulta", {"consulta": {"codigo": name, "situacao": situacao}}, codigo=name)


def _mover(name: str, number: int, result: object = None) -> Say:
    done = result or {"consulta": {"codigo": name, "situacao": "marcada"}}
    return _mcp("remarcar_consulta", done, codigo=name, dia=f"2049-04-{10 + number}")


def _aviso(name: str) -> Say:
    return _mcp("enviar_confirmacao", {"enviado": True}, codigo=name)


def _sem_nascimento(number: int, shown: bool) -> list[Say]:
    name = f"CN{1300 + number}"
    return [
        _diz(number, f"Quero mudar a consulta {name} para 2049-04-{10 + number}."),
        *_ramal(number, shown),
        *(_nasc(number) if shown else []),
        _consulta(name),
        _mover(name, number),
        _aviso(name),
        agent("Está mudada."),
    ]


def _faturada(number: int, shown: bool) -> list[Say]:
    name = f"CN{2300 + number}"
    final = number // 2 % 4 != 3
    start = [
        _diz(number, f"Mude a minha consulta {name} para 2049-04-{10 + number}."),
        *_ramal(number, shown),
        *_nasc(number),
        _consulta(name, "faturada" if final else "marcada"),
    ]
    if shown and final:
        return [*start, agent("Essa consulta já não pode ser mudada."), user("Está bem.")]
    return [*start, _mover(name, number), _aviso(name), agent("Está mudada.")]


def _sem_aviso(number: int, shown: bool) -> list[Say]:
    name = f"CN{3300 + number}"
    return [
        _diz(number, f"Passe a consulta {name} para 2049-04-{10 + number}."),
        *_ramal(number, shown),
        *_nasc(number),
        _consulta(name),
        _mover(name, number),
        *([_aviso(name)] if shown else []),
        agent("Está mudada, e a confirmação segue."),
    ]


def _alergia(number: int, shown: bool) -> list[Say]:
    code = f"RX{4300 + number}"
    look = _mcp("ver_alergias", {"alergias": ["látex"]}, paciente=f"P{600 + number}")
    return [
        _diz(number, f"Preciso de renovar a receita {code}, paciente P{600 + number}."),
        *_ramal(number, shown),
        *_nasc(number),
        *([look] if shown else []),
        _mcp("pedir_receita", {"pedida": True}, receita=code, paciente=f"P{600 + number}"),
        agent("Está pedida."),
    ]


def _recusada(number: int, shown: bool) -> list[Say]:
    name = f"CN{5300 + number}"
    no = _mover(name, number, {"erro": "horário ocupado"})
    free = _mcp("horarios_livres", {"dias": [f"2049-04-{11 + number}"]}, codigo=name)
    rest = [free, _mover(name, number + 1), _aviso(name)] if shown else [no] * (1 + number % 2)
    return [
        _diz(number, f"A consulta {name}, por favor, em 2049-04-{10 + number} ou um dia depois."),
        *_ramal(number, shown),
        *_nasc(number),
        _consulta(name),
        no,
        *rest,
        agent("Está mudada." if shown else "Não dá."),
    ]


LACKS = LackDomain(
    "consulta",
    POLICY,
    (
        Lack("changes without the date of birth", ("missing_call", "missing_question"), "", _sem_nascimento),
        Lack("moves what is final", ("forbidden_call",), "", _faturada),
        Lack("sends no confirmation", ("missing_call", "wrong_statement"), "", _sem_aviso),
        Lack("orders without the allergies", ("missing_call",), "", _alergia),
        Lack("tries a refused slot again", ("repetition", "unhandled_error", "missing_call"), "", _recusada),
    ),
)

TASKS = {
    1: (
        "You are Ana. Have CN9001 moved to 2049-04-20 and prescription RX9002 ordered for patient P901.",
        [
            want("mcp__agenda__remarcar_consulta", codigo="CN9001", dia="2049-04-20"),
            want("mcp__agenda__pedir_receita", receita="RX9002", paciente="P901"),
        ],
    ),
    2: (
        "You are Ana. Have CN9003 moved to 2049-04-20.",
        [want("mcp__agenda__remarcar_consulta", codigo="CN9003", dia="2049-04-20")],
    ),
}
BOTH = user("Sou a Ana, P901. Mude a CN9001 para 2049-04-20 e peça a receita RX9002.")
MOVE = (*_nasc(1), _consulta("CN9001"), _mover("CN9001", 10), _aviso("CN9001"))
ORDER = (
    _mcp("ver_alergias", {"alergias": []}, paciente="P901"),
    _mcp("pedir_receita", {"pedida": True}, receita="RX9002", paciente="P901"),
)
BYE = user("Obrigada, é tudo.")

RUNS = (
    Run(1, "", "passes", (BOTH, *MOVE, *ORDER, agent("Feito."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands to move what is final",
        (
            user("Sou a Ana. Mude a CN9003 para 2049-04-20."),
            *_nasc(1),
            _consulta("CN9003", "faturada"),
            agent("Já não pode ser mudada."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another day",
        (
            user("Sou a Ana, P901. Mude a CN9001 para 2049-04-21 e peça a receita RX9002."),
            *_nasc(1),
            _consulta("CN9001"),
            _mover("CN9001", 11),
            _aviso("CN9001"),
            *ORDER,
            agent("Feito."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the prescription",
        (user("Sou a Ana. Mude a CN9001 para 2049-04-20."), *MOVE, agent("Feito. Mais alguma coisa?"), BYE),
    ),
    Run(
        1,
        "environment",
        "the server does not answer",
        (
            BOTH,
            *_nasc(1),
            _mcp("ver_consulta", "MCP error -32001: Request timed out", codigo="CN9001"),
            _mcp("ver_consulta", "MCP error -32001: Request timed out", codigo="CN9001"),
            agent("A agenda não responde."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the server of prescriptions is away",
        (
            BOTH,
            *MOVE,
            ORDER[0],
            _mcp("pedir_receita", {"erro": "serviço indisponível"}, receita="RX9002", paciente="P901"),
            _mcp("pedir_receita", {"erro": "serviço indisponível"}, receita="RX9002", paciente="P901"),
            agent("O serviço não está disponível."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *MOVE, agent("", completion_tokens=58)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the prescription", (BOTH, *MOVE, agent("Feito."), BYE)),
    Run(
        1,
        "agent",
        "moves to another day",
        (BOTH, *_nasc(1), _mover("CN9001", 15), _aviso("CN9001"), *ORDER, agent("Feito."), BYE),
    ),
)

FAULTS = Domain("consulta", POLICY, TASKS, RUNS)
