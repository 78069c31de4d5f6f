"""Memory that runs out: in the engine, in the renderer, in the reader of scans, and for the whole process."""

from __future__ import annotations

from ground import TO_GO_ON, TO_TRY_AGAIN, Ground, NotInjected, said

RAN_OUT = r"error: .*this machine's memory ran out[;:] "
FAILED = r"\d+ failed \(see .*run\.log\)|questions in a row failed alike"


def out_of_memory(ground: Ground, sort: str) -> None:
    """A call finds no memory, once or from a moment on: its questions fail, the others go on; where all fail, the run stops."""
    deed = ground.chance.choice(("no memory", "no more memory"))
    ended = ground.run(fault={"deed": deed, **ground.moment(sort)})
    said(ended, 1, FAILED, rf"{TO_TRY_AGAIN}|{TO_GO_ON}", "memory")
    ground.comes_to_its_end()


def out_of_memory_in_the_engine(ground: Ground) -> None:
    """The engine finds no memory, and is gone with it: the run stops, and goes on."""
    ended = ground.run(fault={"deed": "no memory", **ground.moment("answers")})
    said(ended, 1, RAN_OUT, TO_GO_ON)
    ground.comes_to_its_end()


def little_memory(ground: Ground) -> None:
    """The process may take no more address space than some bytes beyond what it has."""
    moment = ground.moment(ground.chance.choice(("anything", "loads")))
    most = ground.chance.choice((0, 10**5, 10**6, 10**7))
    ended = ground.run(fault={"deed": "little memory", "bytes": most, **moment})
    if ended.code == 0:
        raise NotInjected("there was enough")
    said(ended, 1)
    ground.comes_to_its_end()


KINDS = {
    "out of memory in the engine": out_of_memory_in_the_engine,
    "out of memory in the renderer": lambda ground: out_of_memory(ground, "draws"),
    "out of memory in the reader of scans": lambda ground: out_of_memory(ground, "loads"),
    "little memory for the process": little_memory,
}
