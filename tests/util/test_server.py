"""The local server: the pages it serves, and the requests it refuses."""

import logging
import socket
import threading
from contextlib import closing
from http.client import HTTPConnection

import pytest
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Mount, Route

from render_agent.errors import RunLogError, SetupError
from render_agent.util import interrupts
from render_agent.util.web.checks import MAX_POST_BYTES, TOKEN_HEADER, PageFiles
from render_agent.util.web.server import LocalServer


class Site:
    """Serves a folder, records POST bodies sent to `/take`, and fails at `/broken` and `/damaged`."""

    def __init__(self, folder):
        self.folder = folder
        self.bodies = []

    def routes(self):
        return [
            Route("/", lambda request: HTMLResponse(b"first")),
            Route("/broken", self.broken),
            Route("/damaged", self.damaged),
            Route("/take", self.take, methods=["POST"]),
            Mount("/", PageFiles(self.folder, ".css", ".html", ".json", ".png")),
        ]

    def broken(self, request):
        raise ValueError("a secret detail")

    def damaged(self, request):
        raise RunLogError("a secret line is damaged")

    async def take(self, request):
        self.bodies.append(await request.body())
        return JSONResponse({})


@pytest.fixture(scope="module")
def running_site(tmp_path_factory):
    """A site and its server, shared by all tests."""
    tmp_path = tmp_path_factory.mktemp("site")
    folder = tmp_path / "inside"
    (folder / "deep").mkdir(parents=True)
    (folder / "page.html").write_text("<p>here</p>")
    (folder / "deep" / "ünder way.png").write_bytes(b"\x89PNG")
    (folder / "run.log").write_text("not part of any page")
    (folder / ".hidden.css").write_text("p {}")
    (tmp_path / "secret.json").write_text("{}")
    (folder / "out.json").symlink_to(tmp_path / "secret.json")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "within.html").symlink_to(folder / "page.html")
    (folder / "circle.html").symlink_to(folder / "circle.html")
    (folder / "folder.html").mkdir()
    site, server = Site(folder), LocalServer()
    server.start(site.routes())
    yield site, server
    server.close()


@pytest.fixture
def site(running_site):
    running_site[0].bodies.clear()
    return running_site[0]


@pytest.fixture
def server(running_site):
    return running_site[1]


def ask(server, path="/", method="GET", body=None, **headers):
    """Return status, headers and body of the response; headers set to None are omitted."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    request_headers = {"Host": f"127.0.0.1:{server.port}"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    try:
        connection.putrequest(method, path, skip_host=True)
        if body is not None and "Content-Length" not in request_headers:
            request_headers["Content-Length"] = str(len(body))
        for name, value in request_headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def post(server, body=b"{}", path="/take", **headers):
    default = {
        "Origin": f"http://127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        TOKEN_HEADER: server.token,
    }
    return ask(server, path, "POST", body, **default | headers)


def test_pages_have_a_content_type_and_are_never_cached(server):
    status, headers, body = ask(server)
    assert (status, body) == (200, b"first")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Server"].strip() == "render_agent"
    status, headers, body = ask(server, "/deep/%C3%BCnder%20way.png?again=1")
    assert (status, headers["Content-Type"], body) == (200, "image/png", b"\x89PNG")
    assert ask(server, "/within.html")[2] == b"<p>here</p>"
    status, headers, body = ask(server, "/page.html", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "11", b"")


def test_localhost_is_an_accepted_host(server):
    host = f"localhost:{server.port}"
    assert ask(server, Host=host)[0] == 200
    assert ask(server, Host=host, Origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:{port}",
     "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:{port}@evil.example"],
)  # fmt: skip
def test_other_host_names_are_refused(server, host):
    assert ask(server, Host=host.format(port=server.port))[0] == 421


def test_missing_or_repeated_host_header_is_refused(server):
    assert ask(server, Host=None)[0] == 400
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
        connection.sendall(b"GET / HTTP/1.1\r\n" + host + host + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1",
     "http://localhost:{port}", "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}.evil.example"],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(server, site, origin):
    origin = origin.format(port=server.port)
    assert ask(server, Origin=origin)[0] == 403
    assert post(server, Origin=origin)[0] == 403
    assert site.bodies == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/../secret.json", 400),
        ("/deep/../../secret.json", 400),
        ("/%2e%2e/secret.json", 400),
        ("/%252e%252e/secret.json", 404),
        ("/..%5csecret.json", 400),
        ("/page.html%00.png", 400),
        ("/page.html%0d%0aX-Mine:%20yes", 400),
        ("/%ff.html", 400),
        ("http://evil.example/", 400),
        ("*", 400),
        ("/out.json", 404),
        ("/outside/secret.json", 404),
        ("/circle.html", 404),
        ("/folder.html", 404),
        ("/.hidden.css", 404),
        ("/run.log", 404),
        ("/nothing.html", 404),
        ("/" + "x" * 20_000, 404),
        ("/page.html/x.html", 404),
    ],
)
def test_nothing_outside_the_folder_is_served(server, path, status):
    actual, headers, body = ask(server, path)
    assert actual == status
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"Traceback" not in body


def test_a_folder_may_be_created_later(tmp_path, site, server):
    files = PageFiles(tmp_path / "later", ".html")
    assert files.lookup_path("page.html") == ("", None)
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "page.html").touch()
    assert files.lookup_path("page.html")[1].st_size == 0


def test_paths_are_decoded_once(server, site):
    (site.folder / "a b").mkdir()
    (site.folder / "a b" / "%.html").write_text("here")
    assert ask(server, "/a%20b/%25.html?x=/../y")[2] == b"here"


def test_post_with_the_page_token_is_accepted(server, site):
    status, _, body = post(server, b'{"text": "done"}')
    assert (status, body) == (200, b"{}")
    assert site.bodies == [b'{"text": "done"}']


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({TOKEN_HEADER: None}, 403),
        ({TOKEN_HEADER: "wrong"}, 403),
        ({TOKEN_HEADER: "\u00e9"}, 403),
        ({"Origin": None}, 403),
        ({"Content-Type": None}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": None}, 411),
        ({"Content-Length": str(MAX_POST_BYTES + 1)}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"path": "/elsewhere"}, 405),
        ({"path": "/../take"}, 400),
    ],
)
def test_other_posts_are_refused(server, site, change, status):
    assert post(server, **change)[0] == status
    assert site.bodies == []


@pytest.mark.parametrize("length", ["-1", "2.5", "9" * 40])
def test_an_invalid_content_length_is_refused(server, site, length):
    assert post(server, b"", **{"Content-Length": length})[0] == 400
    assert site.bodies == []


def test_the_largest_accepted_body_is_most_bytes(server, site):
    assert post(server, b"x" * (MAX_POST_BYTES + 1))[0] == 413
    assert post(server, b"x" * MAX_POST_BYTES)[0] == 200
    assert len(site.bodies) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(server, method):
    status, headers, body = ask(server, "/", method)
    assert status == 405
    assert method.encode() not in body
    assert headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("path", "message", "has_traceback"),
    [("/broken", "a secret detail", True), ("/damaged", "a secret line is damaged", False)],
)
def test_internal_errors_are_logged_but_not_shown(server, caplog, path, message, has_traceback):
    status, _, body = ask(server, path)
    assert status == 500
    assert b"secret" not in body
    assert message in caplog.text
    assert ("Traceback" in caplog.text) == has_traceback
    assert ask(server)[0] == 200


@pytest.mark.parametrize(
    "data",
    [b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n",
     b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n", b"POST /take HTTP/1.1\r\nContent-Length: 9"],
)  # fmt: skip
def test_malformed_requests_are_harmless(server, data, caplog):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b"Traceback" not in reply
    assert ask(server)[0] == 200
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


def test_nothing_is_printed(server, capfd, caplog):
    caplog.set_level(logging.INFO)
    ask(server)
    ask(server, "/../x")
    assert capfd.readouterr() == ("", "")
    (entry,) = caplog.records
    assert "/../x" in entry.getMessage()


def test_server_listens_on_localhost_only(server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.port}/"


def test_a_port_in_use_is_an_error(server):
    with pytest.raises(SetupError, match=rf"port {server.port} .*--port"):
        LocalServer(server.port)
    with pytest.raises(SetupError, match="no such port"):
        LocalServer(70_000)


def test_close_drops_idle_connections_and_joins_threads(site):
    before = set(threading.enumerate())
    server = LocalServer()
    server.start(site.routes())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as idle:
        assert ask(server)[0] == 200
        server.close()
        assert idle.recv(10) == b""
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), thread
    LocalServer(server.port).close()  # the port is free again at once


def test_signal_that_a_library_swallowed_ends_the_wait(monkeypatch):
    monkeypatch.setattr(interrupts, "_received", [KeyboardInterrupt])
    with closing(LocalServer()) as local:
        local._ended.set()
        with pytest.raises(KeyboardInterrupt):
            local.wait()


def test_a_server_that_never_started_can_be_closed():
    LocalServer().close()
