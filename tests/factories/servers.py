"""Local model servers for tests: a real one with a small model, a stub, and injected faults.

Run as a program, this file is `transformers serve`, even if torchvision cannot decode images.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from factories.sight import is_sight_check, read_code

LOOPBACK = "127.0.0.1"

ON_CPU = ("--device", "cpu", "--dtype", "float32", "--host", LOOPBACK)

# Seconds for which the server refuses connections after the fault `refuse`.
DOWN_SECONDS = 0.25


class StubServer:
    """Local HTTP server, one connection per request, that records requests and can inject faults."""

    def __init__(
        self,
        answer: Answer,
        faults: Sequence[
            Fault | None
        ] = (),  # per chat request; None answers normally, as after the last
        port: int = 0,
        *,
        sight: Callable[[bytes], str] | None = read_code,
    ) -> None:
        self.answer = answer
        self.sight = sight
        self.sight_checks: list[bytes] = []
        self.faults = list(faults)
        self.done: list[Fault] = []
        self.bodies: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.running = self.most_running = 0
        self.open = True
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._listener = listen(port or free_port())
        self.port = self._listener.getsockname()[1]
        self.url = f"http://{LOOPBACK}:{self.port}/v1"
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def close(self) -> None:
        """Stop accepting connections and release stalled requests."""
        self.open = False
        self._released.set()
        self._refuse()
        self._accepting.join()
        for thread in self._threads:
            thread.join()

    def kill(self) -> None:
        """Close and abort requests in flight, like a killed process."""
        self.open = False
        self._refuse()
        for connection in self._connections:
            with contextlib.suppress(OSError):  # closed long ago
                connection.shutdown(socket.SHUT_RDWR)
        self.close()

    def __enter__(self) -> StubServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _count(self, change: int) -> None:
        self.running += change
        self.most_running = max(self.most_running, self.running)

    def _accept(self) -> None:
        while self.open:
            try:
                connection, address = self._listener.accept()
            except OSError:
                if self.open:  # the fault `refuse`; listen again after a pause
                    time.sleep(DOWN_SECONDS)
                    self._listener = listen(self.port)
                continue
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, address))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, address: object) -> None:
        with connection, contextlib.suppress(OSError):
            Handler(connection, address, self)

    def _refuse(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def handle(self, handler: Handler, body: bytes) -> None:
        """Answer one request or inject its fault."""
        if self.sight is not None and is_sight_check(body):
            with self._lock:
                self.sight_checks.append(body)
                text = self.sight(body)
            handler.respond(200, {}, self.say(text))
            return
        chat = handler.path.endswith("/chat/completions")
        with self._lock:
            self.headers.append({k.lower(): value for k, value in handler.headers.items()})
            if chat:
                self.bodies.append(json.loads(body))
            fault = self.faults.pop(0) if chat and self.faults else None
            self._count(int(chat))
        # Count the request as done before sending: the client may send the next one immediately.
        if fault is None:
            try:
                answer = self.answer(handler.command, handler.path, body)
            finally:
                self._finish(chat)
            handler.respond(*answer)
        else:
            self.done.append(fault)
            try:
                self._do(fault, handler, body)
            finally:
                self._finish(chat)

    def say(self, text: str) -> bytes:
        """Return the body of a reply."""
        return chat_reply(text)

    def _finish(self, chat: bool) -> None:
        with self._lock:
            self._count(-int(chat))

    def _do(self, fault: Fault, handler: Handler, body: bytes) -> None:
        if isinstance(fault, tuple):
            status, headers, text = fault
            handler.respond(status, headers, text.encode())
        elif fault == "refuse":
            self._refuse()
            reset(handler.connection)
        elif fault == "reset":
            reset(handler.connection)
        elif fault == "stall":
            self._released.wait(60)
        elif fault == "cut":
            status, headers, whole = self.answer(handler.command, handler.path, body)
            handler.respond(status, headers, whole[: len(whole) // 2], length=len(whole))
        elif fault == "garbage":
            handler.respond(200, {"content-type": "text/html"}, b"<html>one moment, please</html>")
        elif fault == "no choices":
            handler.respond(200, {}, b'{"id": "1", "choices": []}')
        else:
            assert fault == "close", fault


Fault = str | tuple[int, dict[str, str], str]
Answer = Callable[[str, str, bytes], tuple[int, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    def do_GET(self) -> None:
        self.server.handle(self, b"")

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) == length:  # otherwise the connection was aborted
            self.server.handle(self, body)

    def respond(
        self, status: int, headers: dict[str, str], body: bytes, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in ({"content-type": "application/json"} | headers).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress the access log."""


def listen(port: int) -> socket.socket:
    """Return a socket that listens on localhost."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError:  # the port is in use
        listener.close()
        raise
    listener.listen(512)
    return listener


def reset(connection: socket.socket) -> None:
    """Reset a connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def free_port() -> int:
    """Return a free port outside the range of ephemeral ports."""
    while True:
        with contextlib.suppress(OSError), listen(random.randrange(20_000, 32_000)) as listener:
            return listener.getsockname()[1]


def forward_to(url: str) -> Answer:
    """Return an `Answer` that forwards requests to another server."""
    target = urlsplit(url)

    def answer(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, body, {"content-type": "application/json"})
                response = connection.getresponse()
                return response.status, {}, response.read()
            except OSError as error:
                return 502, {}, json.dumps({"error": str(error)}).encode()

    return answer


def chat_reply(text: str, **more: object) -> bytes:
    """Return the body of a chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return json.dumps({"choices": [choice], "usage": usage} | more).encode()


def chat_answers(reply: Callable[[dict], bytes], models: Sequence[str] = ("made",)) -> Answer:
    """Return an `Answer` that replies to chats with `reply(request body)` and lists `models`."""
    listed = json.dumps({"data": [{"id": name, "owned_by": "tests"} for name in models]}).encode()

    def answer(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if path == "/v1/chat/completions":
            return 200, {}, reply(json.loads(body))
        return (200, {}, listed) if path == "/v1/models" else (404, {}, b"{}")

    return answer


class ModelServer:
    """A running `transformers serve` with a model directory; can be killed and restarted."""

    def __init__(self, directory: Path) -> None:
        self.model = str(directory)
        self.port = free_port()
        self.url = f"http://{LOOPBACK}:{self.port}/v1"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self._cache = tempfile.TemporaryDirectory()
        self.start()

    def start(self, seconds: float = 600) -> None:
        """Start the server and wait until it answers."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, "serve", self.model, *ON_CPU, "--port", str(self.port)],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "HF_HUB_CACHE": self._cache.name,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), 1):
                return
            time.sleep(0.1)
        self._log.seek(0)
        log = self._log.read().decode()[-3000:]
        self.close()
        raise AssertionError(f"the server did not start:\n{log}")

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill the process and remove its files."""
        self.kill()
        self._log.close()
        self._cache.cleanup()


@contextlib.contextmanager
def model_server(directory: Path) -> Iterator[ModelServer]:
    """Start a server and yield it."""
    server = ModelServer(directory)
    try:
        yield server
    finally:
        server.close()


def different_questions(folder: Path, count: int) -> Path:
    """Write the questions of `factories.runs.make_questions` with unique wordings, so that all dialogues differ."""
    from factories.runs import make_questions

    path = make_questions(folder, count)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        row["question"] = f"This is question {row['id']}. {row['question']}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def decode_with_pil() -> None:
    """Make transformers decode images with Pillow if torchvision has no decoders."""
    import torchvision
    from torchvision.transforms.functional import pil_to_tensor

    if torchvision.io.image._has_image_ops():
        return

    def decode_image(data: object, mode: object = None, **_: object) -> object:
        from PIL import Image

        return pil_to_tensor(Image.open(io.BytesIO(bytes(data.tolist()))).convert("RGB"))

    torchvision.io.decode_image = decode_image


def serve() -> None:
    """Run `transformers serve`."""
    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

    patch_torchvision()
    decode_with_pil()
    from transformers.cli.transformers import main

    main()


if __name__ == "__main__":
    serve()
