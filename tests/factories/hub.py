"""A local HTTP server that imitates the Hugging Face Hub."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REFUSALS = {
    "team/gated": (403, "GatedRepo"),
    "team/unknown": (401, "RepoNotFound"),
    "team/broken": (500, ""),
}


class Hub(BaseHTTPRequestHandler):
    """Responds with the status, headers and body that a subclass returns from `respond(path parts)`."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, *, with_body):
        status, headers, body = self.respond(self.path.partition("?")[0].strip("/").split("/"))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_):
        """Suppress the access log."""


def refusal(name):
    """Return the hub's response to one of REFUSALS."""
    status, code = REFUSALS[name]
    return status, {"X-Error-Code": code, "X-Error-Message": code}, b""


@contextmanager
def serving(handler):
    """Serve a hub and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
