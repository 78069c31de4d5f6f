"""What it costs that every request to a server has a connection of its own: beside kept ones, plain and by TLS.

    python benchmarks/connections.py --requests 300 --output FILE.json

An answer that comes late, or twice, on a connection that is kept would be taken for that of the next question, as HTTP/1.1
has no numbers. A server on this machine answers posts of 200 kB, as a turn with its pictures has, one after the other; both
sides take turns. Told are milliseconds of a request, the median, and of this process's processor, the mean. A server
elsewhere takes one way there and back more for a connection, and one or two more for TLS. Needs `openssl`.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import multiprocessing
import ssl
import statistics
import subprocess
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import click

SENT, ANSWER = b"x" * 200_000, b'{"choices": []}'

CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    " -keyout key.pem -out certificate.pem"
)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every post alike, and keeps connections."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *given: object) -> None:
        """Say nothing."""


def serve(folder: Path | None, port: Connection) -> None:
    """Answer on a free port, which is sent; folder: of the certificate, None without TLS."""
    server = http.server.ThreadingHTTPServer(("localhost", 0), Answers)
    if folder is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    port.send(server.server_address[1])
    server.serve_forever()


async def ask(url: str, folder: Path, requests: int, *, kept: bool) -> tuple[float, float]:
    """Return the median milliseconds of a request, and the mean ones of this process's processor."""
    import httpx

    verify = ssl.create_default_context(cafile=folder / "certificate.pem")
    limits = httpx.Limits(max_keepalive_connections=8 if kept else 0)
    took = []
    async with httpx.AsyncClient(verify=verify, limits=limits, trust_env=False) as client:
        for number in range(requests + 5):
            if number == 5:  # what is made once is made
                busy = time.process_time()
            began = time.perf_counter()
            await client.post(url, content=SENT)
            took.append(time.perf_counter() - began)
    return 1e3 * statistics.median(took[5:]), 1e3 * (time.process_time() - busy) / requests


@click.command()
@click.option("--requests", default=300, show_default=True, help="Of each kind.")
@click.option("--output", type=Path, required=True, help="Written as JSON.")
def main(requests: int, output: Path) -> None:
    """Measure both kinds of connection, plain and by TLS."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="connections-") as name:
        folder = Path(name)
        subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
        for kind, of in (("plain", None), ("TLS", folder)):
            ours, theirs = multiprocessing.Pipe()
            server = multiprocessing.Process(target=serve, args=(of, theirs), daemon=True)
            server.start()
            url = f"http{'s' if of else ''}://localhost:{ours.recv()}/"
            told = [
                asyncio.run(ask(url, folder, requests // 3, kept=kept))
                for kept in (True, False) * 3
            ]
            server.kill()
            middle = [[statistics.median(side) for side in zip(*told[n::2], strict=True)] for n in (0, 1)]  # fmt: skip
            found[kind] = {
                "requests": requests,
                "milliseconds": {"kept": round(middle[0][0], 2), "new": round(middle[1][0], 2)},
                "processor": {"kept": round(middle[0][1], 2), "new": round(middle[1][1], 2)},
            }
    output.write_text(json.dumps({"connections": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
