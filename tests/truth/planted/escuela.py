"""The office of a school: policy, tools and talk in Spanish."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """Secretaría del colegio Los Olmos. Hoy es 12.09.2038.

Consulta siempre la actividad antes de inscribir a un alumno en ella.
No se cambia de grupo a los alumnos cuya matrícula está cerrada.
Se devuelve exactamente el importe del recibo.
Los certificados se emiten en el momento.
Si una familia pide algo para varios alumnos, hay que hacerlo para todos.
"""


def _hola(number: int) -> str:
    name = NAMES[number // 2 % 8]
    return (f"Buenos días, soy {name}.", f"Hola, le habla {name}.", f"Buenas, {name} al teléfono.")[
        number % 3
    ]


def _alumno(codigo: str, **mas: object) -> Say:
    return call("consultar_alumno", {"alumno": {"codigo": codigo, **mas}}, codigo=codigo)


def _sin_consultar(number: int, shown: bool) -> list[Say]:
    act, cod = f"ACT-{510 + number}", f"AL{6100 + number}"
    mirar = call("consultar_actividad", {"actividad": {"clave": act, "plazas": 3 + number}}, clave=act)
    return [
        user(f"{_hola(number)} Quiero apuntar a mi hija {cod} a la actividad {act}."),
        *([mirar] if shown else []),
        call("inscribir_actividad", {"resultado": "inscrito"}, codigo=cod, clave=act),
        agent("Ya está inscrita."),
        user("Gracias."),
    ]


def _cerrada(number: int, shown: bool) -> list[Say]:
    cod, caso = f"AL{6200 + number}", number // 2 % 4
    estado = "abierta" if caso == 3 else "cerrada"
    inicio = [
        user(f"{_hola(number)} ¿Pueden cambiar de grupo a {cod} al grupo {'BCD'[number % 3]}?"),
        _alumno(cod, matricula=estado),
    ]
    if shown and estado == "cerrada":
        return [*inicio, agent("La matrícula está cerrada, ya no es posible."), user("Vaya. Adiós.")]
    hecho = call("cambiar_grupo", {"resultado": "cambiado"}, codigo=cod, grupo="BCD"[number % 3])
    return [*inicio, hecho, agent("Cambiado."), user("Perfecto.")]


def _importe(number: int, shown: bool) -> list[Say]:
    recibo, euros, cent = f"RC-{7300 + number}", 1045 + 11 * number, 20 + number
    bien, mal = f"{euros},{cent}", f"{euros + 100},{cent}"
    return [
        user(f"{_hola(number)} Pagué dos veces el recibo {recibo}, devuélvanmelo."),
        call(
            "consultar_recibo",
            {"recibo": {"numero": recibo, "importe": f"1.{euros - 1000:03d},{cent}"}},
            numero=recibo,
        ),
        call("devolver_cuota", {"resultado": "devuelto"}, numero=recibo, importe=bien if shown else mal),
        agent("Se lo hemos devuelto."),
        user("Muy amable."),
    ]


def _solo_uno(number: int, shown: bool) -> list[Say]:
    cods = [f"AL{6400 + 20 * k + number}" for k in range(3)]
    hechos = [call("emitir_certificado", {"resultado": "emitido"}, codigo=cod) for cod in cods]
    return [
        user(f"{_hola(number)} Necesito certificados de {cods[0]}, {cods[1]} y {cods[2]}."),
        *(hechos if shown else hechos[:1]),
        agent("Aquí los tiene."),
        user("Gracias, adiós."),
    ]


def _otro_grupo(number: int, shown: bool) -> list[Say]:
    cod, beca = f"AL{6500 + number}", f"BK-{880 + number}"
    return [
        user(f"{_hola(number)} Tramiten la beca de {cod}, por favor."),
        _alumno(cod, beca=beca),
        call(
            "tramitar_beca",
            {"resultado": "tramitado"},
            codigo=cod,
            beca=beca if shown else f"BK-{330 + number}",
        ),
        agent("Tramitada."),
        user("Estupendo."),
    ]


LACKS = LackDomain(
    "escuela",
    POLICY,
    (
        Lack("inscribe sin consultar", ("missing_call",), "consultar_actividad", _sin_consultar),
        Lack("cambia con matrícula cerrada", ("forbidden_call",), "cambiar_grupo", _cerrada),
        Lack("devuelve otro importe", ("wrong_value",), "importe", _importe),
        Lack("hace uno de tres", ("missing_call", "early_end"), "codigo", _solo_uno),
        Lack("inventa la beca", ("wrong_value",), "beca", _otro_grupo),
    ),
)

TASKS = {
    1: (
        "Eres Marta Gil. Quieres cambiar a AL9001 al grupo C y un certificado de AL9002.",
        [want("cambiar_grupo", codigo="AL9001", grupo="C"), want("emitir_certificado", codigo="AL9002")],
    ),
    2: (
        "Eres Marta Gil. Quieres cambiar a AL9003 al grupo B.",
        [want("cambiar_grupo", codigo="AL9003", grupo="B")],
    ),
}
MARTA = (user("Hola, soy Marta Gil."), agent("Buenos días, ¿en qué puedo ayudarle?"))
DOS = user("Cambien a AL9001 al grupo C y denme un certificado de AL9002.")
VER = _alumno("AL9001", matricula="abierta")
CAMBIO = call("cambiar_grupo", {"resultado": "cambiado"}, codigo="AL9001", grupo="C")
PAPEL = call("emitir_certificado", {"resultado": "emitido"}, codigo="AL9002")
ADIOS = user("Gracias, adiós. ###STOP###")

RUNS = (
    Run(1, "", "passes", (*MARTA, DOS, VER, CAMBIO, PAPEL, agent("Todo listo."), ADIOS)),
    Run(
        2,
        "ground_truth",
        "demands what the policy forbids",
        (
            *MARTA,
            user("Cambien a AL9003 al grupo B."),
            _alumno("AL9003", matricula="cerrada"),
            agent("La matrícula está cerrada."),
            ADIOS,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another pupil",
        (
            *MARTA,
            user("Cambien a AL9001 al grupo C y denme un certificado de AL9005."),
            VER,
            CAMBIO,
            call("emitir_certificado", {"resultado": "emitido"}, codigo="AL9005"),
            agent("Todo listo."),
            ADIOS,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "forgets the certificate",
        (
            *MARTA,
            user("Cambien a AL9001 al grupo C."),
            VER,
            CAMBIO,
            agent("Hecho. ¿Algo más?"),
            user("No, nada más. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "hangs up before anything is done",
        (*MARTA, DOS, VER, agent("¿Lo hago así?"), user("Sí, por favor. ###STOP###")),
    ),
    Run(
        1,
        "environment",
        "the database is gone",
        (
            *MARTA,
            DOS,
            call("consultar_alumno", {"error": "no se pudo conectar con la base de datos"}, codigo="AL9001"),
            call("consultar_alumno", {"error": "no se pudo conectar con la base de datos"}, codigo="AL9001"),
            agent("El sistema no responde."),
            ADIOS,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (*MARTA, DOS, VER, CAMBIO, agent("", completion_tokens=39)),
        stop="agent_error",
    ),
    Run(
        1,
        "agent",
        "mistypes and gives up",
        (
            *MARTA,
            DOS,
            call("consultar_alumno", {"error": "alumno AL901 no encontrado"}, codigo="AL901"),
            agent("Ese alumno no existe."),
            ADIOS,
        ),
    ),
    Run(1, "agent", "forgets the certificate", (*MARTA, DOS, VER, CAMBIO, agent("Cambiado."), ADIOS)),
    Run(
        1,
        "agent",
        "takes another group",
        (
            *MARTA,
            DOS,
            VER,
            call("cambiar_grupo", {"resultado": "cambiado"}, codigo="AL9001", grupo="D"),
            PAPEL,
            agent("Todo listo."),
            ADIOS,
        ),
    ),
)

FAULTS = Domain("escuela", POLICY, TASKS, RUNS)
