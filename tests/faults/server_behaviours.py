"""What a server may do, at every point of a run: each once, against real processes of the program.

    python tests/faults/server_behaviours.py --seed 1 --output FILE.json

BEHAVIOURS are what is sent instead of an answer, byte by byte, or something put into one; POINTS are the requests that it
meets. Whatever comes, the run ends in time and within memory, with a sentence where it does not go on; afterwards, over a
server that behaves, it comes to the transcripts of an undisturbed run. Nothing is sent to another server, and the key is
written nowhere. --cases N tries N of all, drawn by the seed.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import os
import platform
import random
import re
import resource
import shutil
import socket
import socketserver
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

import campaign
from factories.runs import transcripts
from factories.servers import LOOPBACK, chat_reply, free_port, reset
from ground import Ground, Reference, write_questions
from outside_faults import over_a_server

from render_agent.runs.log.folder import RunFolder, list_runs

KEY = "sk-made-7Qz4mX91TbR0"
"""What the program sends to its server, and writes nowhere."""

QUICK = {
    "environment": {"RENDER_AGENT_API_KEY": KEY},
    "settings": {"render_agent.engines.openai.servers.LOOK_UP_SECONDS": 3.0},
}
"""Of every process: its key, and for how long it waits for what a server says before a run."""

MOST_SECONDS, MOST_BYTES = 240.0, 1_000_000_000
"""Of one process: what lasts longer hangs; the memory of the largest."""

MIDWAY = 6
"""The number of a reply that is neither the first nor the last."""

CUT_OFF = "20260101T000000_batched"


@dataclass(frozen=True)
class Asked:
    """One request: its path, the body that answers it, the address that nobody should ask, its connection."""

    path: str
    good: bytes
    trap: str
    connection: socket.socket

    def send(self, *parts: bytes | str) -> None:
        """Send some bytes."""
        for part in parts:
            self.connection.sendall(part.encode() if isinstance(part, str) else part)

    def answer(
        self, body: bytes | str, status: str = "200 OK", length: object = None, **headers: str
    ) -> None:
        """Send an answer. length: what is said to be its length, by default what it is."""
        data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        told = {"content_type": "application/json", "content_length": length or len(data)}
        lines = "".join(f"{n.replace('_', '-')}: {v}\r\n" for n, v in (told | headers).items())
        self.send(f"HTTP/1.1 {status}\r\n{lines}\r\n", data)

    def drip(self, data: bytes, pause: float = 0.1) -> None:
        """Send a byte now and then, without an end."""
        while True:
            for byte in data:
                self.send(bytes([byte]))
                time.sleep(pause)

    def flood(self, data: bytes, most: int = 1 << 30) -> None:
        """Send the same bytes again and again."""
        for _ in range(most // len(data)):
            self.send(data)

    def said(self, text: str) -> None:
        """Answer a chat with a text of the model; what lists models calls one so."""
        if b'"choices"' in self.good:
            self.answer(chat_reply(text))
        else:
            self.answer(json.dumps({"data": [{"id": "made", "owned_by": text, "root": text}]}))

    def changed(self, **entries: object) -> None:
        """Answer with entries of the body, or of its one choice, that are other than they should be."""
        body = json.loads(self.good)
        rows = body.get("choices") or body.get("data")
        for name, value in entries.items():
            of = rows[0] if rows and name in rows[0] else body
            of[name] = value
        self.answer(json.dumps(body))


def status(number: int, words: str = "made", **headers: str) -> Callable[[Asked], None]:
    """Return what answers with a status and an error message."""
    body = json.dumps({"error": {"message": words, "code": number}})
    return lambda asked: asked.answer(body, f"{number} Made", **headers)


def to(place: str, number: int = 307) -> Callable[[Asked], None]:
    """Return what points elsewhere; {trap} is the server that nobody should ask."""
    return lambda asked: asked.answer(
        "", f"{number} Go", location=place.format(trap=asked.trap, path=asked.path)
    )


def raw(head: str, body: bytes = b"") -> Callable[[Asked], None]:
    """Return what sends some bytes and ends."""
    return lambda asked: asked.send(head, body)


def bomb(packed: Callable[[bytes], bytes], name: str) -> Callable[[Asked], None]:
    """Return what answers with few bytes that stand for many."""
    return lambda asked: asked.answer(packed(b" " * 300_000_000), content_encoding=name)


def chunks(*parts: bytes) -> Callable[[Asked], None]:
    """Return what sends these as the chunks of a body."""
    return raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"".join(parts))


def twice(asked: Asked) -> None:
    """Answer, and send behind it what looks like the answer to the next request."""
    asked.answer(asked.good)
    asked.answer(chat_reply('{"answer": "STOLEN", "done": true}'))
    time.sleep(0.3)


BEHAVIOURS: dict[str, Callable[[Asked], object]] = {
    **{f"status {n}": status(n) for n in (204, 206, 400, 401, 403, 404, 405, 408, 409)},
    **{f"status {n}": status(n) for n in (413, 418, 422, 425, 429, 451, 500, 502, 503, 504, 599)},
    "a status that is none": raw("HTTP/1.1 0 \r\n\r\n"),
    "a status of 999": status(999),
    "a status of a million digits": raw(f"HTTP/1.1 {'9' * 10**6} OK\r\n\r\n"),
    "switches protocols": raw("HTTP/1.1 101 Switching\r\nupgrade: h2c\r\n\r\n"),
    "says continue without end": lambda asked: asked.flood(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "asks to wait for ten years": status(429, retry_after="315360000"),
    "asks to wait until 1970": status(503, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"),
    "asks to wait for nan": status(429, retry_after="nan"),
    "asks to wait for -inf": status(503, retry_after="-inf"),
    "asks to wait for 10^400": status(429, retry_after_ms="1" + "0" * 400),
    "has no quota": status(429, "insufficient_quota"),
    "is too long": status(400, "maximum context length is 5 tokens"),
    "refuses every field": status(400, "seed temperature n max_tokens response_format"),
    "an error that is a list": lambda asked: asked.answer('{"error": [{}]}', "500 Made"),
    "an error of 5 MB": status(500, "e" * 5_000_000),
    "an error that is a page": lambda asked: asked.answer("<script>alert(1)</script>", "502 Bad"),
    "points to another server": to("http://{trap}/v1{path}"),
    "points to another server by 301": to("http://localhost.{trap}/", 301),
    "points to another server without a scheme": to("//{trap}/x", 302),
    "points to another server in disguise": to("http://127.0.0.1:80@{trap}/", 308),
    "points to itself": to("{path}"),
    "points to a file": to("file:///etc/passwd", 302),
    "points to no address": to("http://[::1", 303),
    "points to a name of a million letters": to("http://" + "a" * 10**6, 302),
    "half of it": lambda asked: asked.answer(asked.good[: len(asked.good) // 2]),
    "shorter than it says": lambda asked: asked.answer(asked.good, length=len(asked.good) + 99),
    "longer than it says": lambda asked: asked.answer(asked.good, length=9),
    "a negative length": lambda asked: asked.answer(asked.good, length=-5),
    "a length of letters": lambda asked: asked.answer(asked.good, length="ten"),
    "a length of 10^30": lambda asked: asked.answer(asked.good, length=10**30),
    "two lengths": lambda asked: asked.answer(asked.good, Content_Length="7"),
    "a length and chunks": lambda asked: asked.answer(asked.good, transfer_encoding="chunked"),
    "chunks without an end": chunks(b'5\r\n{"a":\r\n'),
    "a chunk of no size": chunks(b"zz\r\n"),
    "a chunk of 2^64 bytes": chunks(b"1" + b"0" * 16 + b"\r\n{}"),
    "chunk notes without end": lambda asked: (
        asked.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;"),
        asked.flood(b"a" * 10**5),
    ),
    "drips its body": lambda asked: (
        asked.send("HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n"),
        asked.drip(b" "),
    ),
    "drips its headers": lambda asked: asked.drip(b"HTTP/1.1 200 OK\r\nx-a: aaaaaaaaaa\r\n" * 99),
    "drips chunks": lambda asked: (
        asked.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        asked.drip(b"1\r\n \r\n"),
    ),
    "a header of 5 MB": lambda asked: asked.answer(asked.good, x_a="a" * 5_000_000),
    "100,000 headers": lambda asked: asked.answer(
        asked.good, **{f"x{number}": "a" for number in range(100_000)}
    ),
    "a header that is split": lambda asked: asked.answer(
        asked.good, x="a\r\n b\r\nset-cookie: c=d"
    ),
    "headers without end": lambda asked: (
        asked.send("HTTP/1.1 200 OK\r\n"),
        asked.flood(b"x-a: b\r\n" * 999),
    ),
    "letters that no header has": raw("HTTP/1.1 200 OK\r\nx: \0\xff\r\n: y\r\n\r\n{}"),
    "noise": raw("", random.Random(1).randbytes(5000)),
    "another protocol": raw("SSH-2.0-OpenSSH_9.2\r\n"),
    "an alert of TLS": raw("", b"\x15\x03\x01\x00\x02\x02\x28"),
    "frames of HTTP/2": raw("", b"\0\0\x12\x04\0\0\0\0\0" + bytes(18)),
    "an answer of HTTP/0.9": lambda asked: asked.send(asked.good),
    "nothing": lambda asked: None,
    "a reset": lambda asked: reset(asked.connection),
    "a reset in the body": lambda asked: (
        asked.answer(asked.good[:20], length=len(asked.good)),
        reset(asked.connection),
    ),
    "stalls": lambda asked: time.sleep(60),
    "stalls in the body": lambda asked: (
        asked.answer(asked.good[:20], length=len(asked.good)),
        time.sleep(60),
    ),
    "closes what it keeps open": lambda asked: asked.answer(asked.good, connection="keep-alive"),
    "answers twice": twice,
    "a body of 100 MB": lambda asked: asked.answer(b" " * 10**8 + asked.good),
    "a body without end": lambda asked: (
        asked.send("HTTP/1.1 200 OK\r\n\r\n"),
        asked.flood(b" " * 10**6),
    ),
    "300 MB, packed by gzip": bomb(gzip.compress, "gzip"),
    "300 MB, packed by deflate": bomb(zlib.compress, "deflate"),
    "packed as nothing known": lambda asked: asked.answer(asked.good, content_encoding="br, zstd"),
    "no UTF-8": lambda asked: asked.answer(asked.good.replace(b'"', b'"\xff\xfe', 3)),
    "UTF-16": lambda asked: asked.answer(
        asked.good.decode().encode("utf-16"), content_type="application/json; charset=utf-16"
    ),
    "an encoding that is none": lambda asked: asked.answer(
        asked.good, content_type="application/json; charset=rot13"
    ),
    "a type that is none": lambda asked: asked.answer(asked.good, content_type="image/png\x7f;;="),
    "100,000 lists in each other": lambda asked: asked.answer("[" * 10**5),
    "a number of a million digits": lambda asked: asked.answer('{"choices": %s}' % ("1" * 10**6)),
    "numbers that are none": lambda asked: asked.answer('{"choices": NaN, "data": Infinity}'),
    "null": lambda asked: asked.answer("null"),
    "an empty body": lambda asked: asked.answer(""),
    "choices that are an object": lambda asked: asked.answer('{"choices": {}, "data": {}}'),
    "choices that are words": lambda asked: asked.answer('{"choices": "abc", "data": "abc"}'),
    "choices of nothing": lambda asked: asked.answer('{"choices": [null], "data": [null]}'),
    "no choices": lambda asked: asked.answer('{"choices": [], "data": []}'),
    "a message that is a list": lambda asked: asked.answer(
        '{"choices": [{"message": []}], "data": [{"id": []}]}'
    ),
    "a stream that stops": lambda asked: asked.answer(
        'data: {"choices": [{"delta": {"content": "a"}}]}\n\n', content_type="text/event-stream"
    ),
    "cookies of 4 MB": lambda asked: asked.answer(asked.good, set_cookie="a=" + "b" * 4_000_000),
    "the key in an error": status(500, f"wrong key {KEY}"),
    "the key in base64": status(400, base64.b64encode(f"Bearer {KEY}".encode()).decode()),
    "the key in percent signs": status(503, "".join(f"%{ord(a):02X}" for a in KEY)),
    "the key, split": status(401, " ".join(KEY)),
    "the key in its reason": lambda asked: asked.answer("{}", f"500 {KEY}"),
    "the key in a header": lambda asked: asked.answer("{}", "500 Made", x_key=KEY),
    "the key in an address": to(f"http://{{trap}}/{quote(KEY)}"),
    "the key in what is no chat": lambda asked: asked.answer(f"<b>{KEY}</b>"),
}
"""By name: what happens to a request instead of its answer."""

TEXTS: dict[str, Callable[[Asked], object]] = {
    "a script": lambda asked: asked.said("<script>alert(1)</script>"),
    "signs of a terminal": lambda asked: asked.said("\x1b]0;taken\a\x1b[2J\x9b5m\u202e"),
    "the key in a reply": lambda asked: asked.said(f"my key is {KEY}"),
    "the key in a reply, in base64": lambda asked: asked.said(
        base64.b64encode(f"x{KEY}y".encode()).decode()
    ),
    "the key in a reply, with unseen signs": lambda asked: asked.said("\u200b".join(KEY)),
    "a reply of 30 MB": lambda asked: asked.said("a" * 30_000_000),
    "a reply beyond its tokens": lambda asked: asked.said('{"answer": "3"}' * 10_000),
    "a reply of zeros": lambda asked: asked.said("\0" * 1000),
    "half a letter": lambda asked: asked.said("\ud800 and \udfff"),
    "ends of lines of all kinds": lambda asked: asked.said("\r\n\x85\u2028\u2029\x0b"),
    "a reply 50,000 deep": lambda asked: asked.said('{"a":' * 50_000),
    "a reply of nothing": lambda asked: asked.said(""),
    "a message of null": lambda asked: asked.changed(message={"content": None}, id="made"),
    "a message of parts": lambda asked: asked.changed(
        message={"content": [{"type": "text", "text": 5}, None, {"type": "image"}]}
    ),
    "tokens below nothing": lambda asked: asked.changed(usage={"prompt_tokens": -(10**30)}),
    "tokens in words": lambda asked: asked.changed(usage="many"),
    "an end that is an object": lambda asked: asked.changed(finish_reason={"a": [1]}),
    "entries that nobody knows": lambda asked: asked.changed(a={"b": [None] * 9}, model="other"),
    "more choices than asked for": lambda asked: asked.answer(
        json.dumps(
            {"choices": [{"message": {"content": "{}"}}] * 5000, "data": [{"id": "made"}] * 5000}
        )
    ),
}
"""What is an answer, with a text that was not hoped for: the dialogue that it meets may become another."""

POINTS = (
    "the first look-up",
    "every look-up",
    "the first reply",
    "a reply midway",
    "every reply from midway on",
    "the first reply of a run that goes on",
)
"""Which requests a behaviour meets."""


def met(point: str, path: str, number: int) -> bool:
    """Whether the request of this number, among those of replies or of others, is one of a point."""
    if not path.endswith("/chat/completions"):
        return point == "every look-up" or (point == "the first look-up" and number == 1)
    due = {POINTS[2]: number == 1, POINTS[3]: number == MIDWAY, POINTS[4]: number >= MIDWAY}
    return due.get(point, point == POINTS[5] and number == 1)


class Server:
    """A server in a process of its own: answers by the replies of questions, but where its behaviour is due.

    trap: a file that grows with every request to a second port, which nobody should ask.
    """

    def __init__(
        self, replies: Path, port: int, trap: Path, behaviour: str = "", point: str = ""
    ) -> None:
        read, write = os.pipe()
        self.process = os.fork()
        if not self.process:
            with suppress(BaseException):
                resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
                self._serve(
                    replies, port, trap, {**BEHAVIOURS, **TEXTS}.get(behaviour), point, write
                )
            os._exit(1)
        os.close(write)
        with os.fdopen(read, "rb") as ready:
            assert ready.read(1), "the server did not come up"

    def _serve(self, replies, port, trap, behaviour, point, ready) -> None:
        rows = [json.loads(line) for line in replies.read_text().splitlines()]
        texts = {row["id"]: row["replies"] for row in rows}
        listed = json.dumps({"data": [{"id": "made", "owned_by": "tests"}]}).encode()
        counts = {True: 0, False: 0}

        def good(path: str, body: bytes) -> bytes:
            if not path.endswith("/chat/completions"):
                return listed if path.endswith("/models") else b'{"version": "1"}'
            messages = json.loads(body)["messages"]
            number = int(re.search(r"(?:Question |How many, )(\d+)[:?]", json.dumps(messages))[1])
            turn = sum(message["role"] == "assistant" for message in messages)
            return chat_reply(json.dumps(texts[number][min(turn, len(texts[number]) - 1)]))

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    while line := self.rfile.readline(10_000):
                        path = line.split()[1].decode()
                        length = 0
                        while (header := self.rfile.readline(10_000)).strip():
                            name, _, value = header.decode().lower().partition(":")
                            length = int(value) if name == "content-length" else length
                        body = self.rfile.read(length)
                        if self.server.server_address[1] != port:
                            with trap.open("a") as file:
                                file.write(f"{path}\n")
                        chat = path.endswith("/chat/completions")
                        counts[chat] += 1
                        asked = Asked(path, good(path, body), address, self.connection)
                        if behaviour is not None and met(point, path, counts[chat]):
                            behaviour(asked)
                            return
                        asked.answer(asked.good)

        class Listening(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            request_queue_size = 99

            def handle_error(self, *_: object) -> None:
                pass

        with (
            Listening((LOOPBACK, 0), Connection) as other,
            Listening((LOOPBACK, port), Connection) as one,
        ):
            address = f"{LOOPBACK}:{other.server_address[1]}"
            import threading

            threading.Thread(target=other.serve_forever, daemon=True).start()
            os.write(ready, b"x")
            one.serve_forever()

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)


def written_forms(key: str) -> list[bytes]:
    """Return what a key looks like as it is, in base64, in hexadecimal digits and in percent signs."""
    coded = [base64.b64encode(b"x" * n + key.encode())[4:-4] for n in range(3)]
    percent = "".join(f"%{ord(letter):02x}" for letter in key)
    return [key.encode().lower(), key.encode().hex().encode(), percent.encode()] + [
        code.lower() for code in coded
    ]


HIDDEN = re.compile(rb"\s+|\\u200b|\xe2\x80\x8b|\x1b\[[\d;]*m|\\n|\\t")


def tells_no_key(folder: Path) -> None:
    """Nothing below a folder has the key in it, however it is written."""
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".png":
            data = HIDDEN.sub(b"", file.read_bytes()).lower()
            for form in written_forms(KEY):
                assert form not in data, f"the key stands in {file.relative_to(folder)}"


class Fields:
    """What all attempts share: the port of their servers, the replies, the run that nothing disturbed, and a cut one."""

    def __init__(self, place: Path) -> None:
        self.place, self.port = place, free_port()
        words = write_questions(place)
        campaign.load(place, words)
        given = Reference(place, words, {}, {}, False, {})
        ground = Ground(place / "made", given, random.Random(0))
        self.replies = over_a_server(ground, self.port, retries=2)
        more = [("timeout=5", "timeout=1.5"), ("connect_timeout=5", "connect_timeout=2")]
        for before, after in more:
            ground.words[ground.words.index(before)] = after
        self.given = replace(given, words=ground.words)
        self.whole = self._run("undisturbed", "", 0)
        self.cut = self._run("cut", "a reset", 1)
        self.given = replace(self.given, path=self.whole)

    def server(self, behaviour: str = "", point: str = "") -> Server:
        """Return a server that is up."""
        return Server(self.replies, self.port, self.place / "trap", behaviour, point)

    def _run(self, name: str, behaviour: str, code: int) -> Path:
        ground = Ground(self.place / name, self.given, random.Random(0), always=dict(QUICK))
        server = self.server(behaviour, POINTS[4])
        try:
            ended = ground.run()
        finally:
            server.kill()
        assert ended.code == code, ended.told
        (path,) = list_runs(ground.output)
        return path


def attempt(place: Path, fields: Fields, behaviour: str, point: str) -> str:
    """Let a server behave so at a point; return how the run ended. AssertionError where it was not survived."""
    ground = Ground(place, fields.given, random.Random(0), always=dict(QUICK))
    continued = point == POINTS[5]
    if continued:
        shutil.copytree(fields.cut, ground.output / CUT_OFF)
    before = ground.logged()
    server = fields.server(behaviour, point)
    try:
        ended = (
            ground.go_on(seconds=MOST_SECONDS) if continued else ground.run(seconds=MOST_SECONDS)
        )
    finally:
        server.kill()
    assert ended.code in (0, 1), f"exit code {ended.code}: {ended.told[-800:]}"
    assert "Traceback" not in ended.told, ended.told[-3000:]
    assert ended.code == 0 or re.search(r"error: |\d+ failed \(see ", ended.told), ended.told[-800:]
    assert not (fields.place / "trap").exists(), "another server was asked"
    logged = ground.logged()
    assert logged[: len(before)] == before, "lines that were logged are gone"
    tells_no_key(ground.folder)
    server = fields.server()
    try:
        if behaviour not in TEXTS or "look-up" in point:
            ground.comes_to_its_end(logged)
        elif ended.code:
            again = ground.run() if ground.path() is None else ground.go_on()
            assert again.code == 0, again.told[-800:]
    finally:
        server.kill()
    path = ground.path()
    assert path is not None
    results = RunFolder(path).results()
    assert not results["counts"]["failed"], "questions failed for good"
    assert max(map(len, ground.logged())) < 1_000_000, "a line of more than a megabyte"
    if point in POINTS[2:4]:  # one dialogue alone may be another
        here, whole = transcripts(path), transcripts(fields.whole)
        differing = [name for name in whole if here.get(name) != whole[name]]
        assert len(differing) <= 1, f"dialogues of {differing} are others"
    tells_no_key(ground.folder)
    return ended.told.strip().splitlines()[-1] if ended.code else "went on"


def cases(chance: random.Random) -> list[tuple[str, str]]:
    """Return all there is to try, in an order in which every behaviour comes once before any comes again."""
    names = [*BEHAVIOURS, *TEXTS]
    points = {name: chance.sample(POINTS, len(POINTS)) for name in names}
    return [(name, points[name][turn]) for turn in range(len(POINTS)) for name in names]


def main() -> int:
    """Try them; exit code 1 where one was not survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="the cases whose behaviour and point hold this")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    began, kinds = time.monotonic(), {}
    place = Path(tempfile.mkdtemp(prefix="servers-")).resolve()
    try:
        fields = Fields(place / "fields")
        for number, (name, point) in enumerate(cases(random.Random(given.seed))[: given.cases]):
            if given.only and given.only not in f"{name}: {point}":
                continue
            row = kinds.setdefault(
                point,
                {"injected": 0, "survived": 0, "not_survived": [], "not_here": None, "ends": {}},
            )
            row["injected"] += 1
            since, told = time.monotonic(), "not survived"
            try:
                told = attempt(place / "attempt", fields, name, point)
                row["survived"] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its number
                what = (
                    f"{name}: {error}"
                    if isinstance(error, AssertionError)
                    else traceback.format_exc()
                )
                what = what.replace(str(place), "PLACE")
                row["not_survived"].append(
                    {"seed": given.seed, "number": number, "what": what[-1500:]}
                )
                sys.stderr.write(f"NOT SURVIVED {point}, {what}\n")
            shutil.rmtree(place / "attempt", ignore_errors=True)
            (fields.place / "trap").unlink(missing_ok=True)
            row["ends"][name] = told.replace(str(place), "PLACE")[:200]
            row["most_seconds"] = max(
                row.get("most_seconds", 0), round(time.monotonic() - since, 1)
            )
            row["most_bytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            sys.stderr.write(
                f"{number} {point}, {name}: {told}; {time.monotonic() - since:.1f} s,"
                f" {row['most_bytes'] / 1e6:.0f} MB\n"
            )
            if given.output:
                written(given.output, given.seed, began, kinds)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return any(row["not_survived"] for row in kinds.values())


def written(output: Path, seed: int, began: float, kinds: Mapping) -> None:
    """Write what was tried until now."""
    found = {
        "machine": platform.platform(),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "kinds": kinds,
    }
    output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
