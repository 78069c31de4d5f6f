"""The local server: what it serves, and everything that it refuses."""

import logging
import socket
import threading
from http.client import HTTPConnection

import pytest
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Mount, Route

from render_agent.errors import RunLogError, SetupError
from render_agent.util.web.checks import MOST_BYTES, TOKEN_HEADER, PageFiles
from render_agent.util.web.server import LocalServer


class Shelf:
    """Serves a folder, takes what is posted to `take`, and breaks at `broken`."""

    def __init__(self, folder):
        self.folder = folder
        self.taken = []

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
        self.taken.append(await request.body())
        return JSONResponse({})


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A shelf and its server, for all tests."""
    tmp_path = tmp_path_factory.mktemp("shelf")
    folder = tmp_path / "inside"
    (folder / "deep").mkdir(parents=True)
    (folder / "page.html").write_text("<p>here</p>")
    (folder / "deep" / "ünder way.png").write_bytes(b"\x89PNG")
    (folder / "run.log").write_text("of no concern to a page")
    (folder / ".hidden.css").write_text("p {}")
    (tmp_path / "secret.json").write_text("{}")
    (folder / "out.json").symlink_to(tmp_path / "secret.json")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "within.html").symlink_to(folder / "page.html")
    (folder / "circle.html").symlink_to(folder / "circle.html")
    (folder / "folder.html").mkdir()
    shelf, server = Shelf(folder), LocalServer()
    server.start(shelf.routes())
    yield shelf, server
    server.close()


@pytest.fixture
def shelf(standing):
    standing[0].taken.clear()
    return standing[0]


@pytest.fixture
def server(standing):
    return standing[1]


def ask(server, path="/", method="GET", body=None, **headers):
    """Return status, headers and body of the reply; a header None is left out."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {"Host": f"127.0.0.1:{server.port}"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    try:
        connection.putrequest(method, path, skip_host=True)
        if body is not None and "Content-Length" not in given:
            given["Content-Length"] = str(len(body))
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def post(server, body=b"{}", path="/take", **headers):
    given = {
        "Origin": f"http://127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        TOKEN_HEADER: server.token,
    }
    return ask(server, path, "POST", body, **given | headers)


def test_pages_and_files_come_with_their_type_and_are_kept_by_nobody(server):
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


def test_localhost_is_a_name_for_it(server):
    host = f"localhost:{server.port}"
    assert ask(server, Host=host)[0] == 200
    assert ask(server, Host=host, Origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:{port}",
     "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:{port}@evil.example"],
)  # fmt: skip
def test_other_names_for_this_machine_are_refused(server, host):
    assert ask(server, Host=host.format(port=server.port))[0] == 421


def test_a_request_that_names_no_machine_or_two_is_none(server):
    assert ask(server, Host=None)[0] == 400
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        named = f"Host: 127.0.0.1:{server.port}\r\n".encode()
        connection.sendall(b"GET / HTTP/1.1\r\n" + named + named + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1",
     "http://localhost:{port}", "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}.evil.example"],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(server, shelf, origin):
    origin = origin.format(port=server.port)
    assert ask(server, Origin=origin)[0] == 403
    assert post(server, Origin=origin)[0] == 403
    assert shelf.taken == []


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
    found, headers, body = ask(server, path)
    assert found == status
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"Traceback" not in body


def test_a_folder_that_is_not_there_yet_has_no_files(tmp_path, shelf, server):
    found = PageFiles(tmp_path / "later", ".html")
    assert found.lookup_path("page.html") == ("", None)
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "page.html").touch()
    assert found.lookup_path("page.html")[1].st_size == 0


def test_paths_are_decoded_once(server, shelf):
    (shelf.folder / "a b").mkdir()
    (shelf.folder / "a b" / "%.html").write_text("here")
    assert ask(server, "/a%20b/%25.html?x=/../y")[2] == b"here"


def test_the_page_may_post_with_its_token(server, shelf):
    status, _, body = post(server, b'{"text": "done"}')
    assert (status, body) == (200, b"{}")
    assert shelf.taken == [b'{"text": "done"}']


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({TOKEN_HEADER: None}, 403),
        ({TOKEN_HEADER: "wrong"}, 403),
        ({TOKEN_HEADER: "\u00e9"}, 403),
        ({"Origin": None}, 403),
        ({"Content-Type": None}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": None}, 411),
        ({"Content-Length": str(MOST_BYTES + 1)}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"path": "/elsewhere"}, 405),
        ({"path": "/../take"}, 400),
    ],
)
def test_other_posts_are_refused(server, shelf, given, status):
    assert post(server, **given)[0] == status
    assert shelf.taken == []


@pytest.mark.parametrize("length", ["-1", "2.5", "9" * 40])
def test_a_length_that_is_no_number_is_refused(server, shelf, length):
    assert post(server, b"", **{"Content-Length": length})[0] == 400
    assert shelf.taken == []


def test_more_than_a_page_posts_is_told_so(server, shelf):
    assert post(server, b"x" * (MOST_BYTES + 1))[0] == 413
    assert post(server, b"x" * MOST_BYTES)[0] == 200
    assert len(shelf.taken) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(server, method):
    status, headers, body = ask(server, "/", method)
    assert status == 405
    assert method.encode() not in body
    assert headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("path", "told", "traced"),
    [("/broken", "a secret detail", True), ("/damaged", "a secret line is damaged", False)],
)
def test_what_goes_wrong_is_logged_and_not_shown(server, caplog, path, told, traced):
    status, _, body = ask(server, path)
    assert status == 500
    assert b"secret" not in body
    assert told in caplog.text
    assert ("Traceback" in caplog.text) == traced
    assert ask(server)[0] == 200


@pytest.mark.parametrize(
    "sent",
    [b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n",
     b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n", b"POST /take HTTP/1.1\r\nContent-Length: 9"],
)  # fmt: skip
def test_what_is_no_request_does_no_harm(server, sent, caplog):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b"Traceback" not in reply
    assert ask(server)[0] == 200
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


def test_it_is_quiet(server, capfd, caplog):
    caplog.set_level(logging.INFO)
    ask(server)
    ask(server, "/../x")
    assert capfd.readouterr() == ("", "")
    (entry,) = caplog.records
    assert "/../x" in entry.getMessage()


def test_it_listens_on_this_machine_only(server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.port}/"


def test_a_port_that_is_taken_is_one_clear_sentence(server):
    with pytest.raises(SetupError, match=rf"port {server.port} of 127.0.0.1 .*--port"):
        LocalServer(server.port)
    with pytest.raises(SetupError, match="no such port"):
        LocalServer(70_000)


def test_closing_waits_for_no_silent_browser_and_leaves_no_thread(shelf):
    before = set(threading.enumerate())
    served = LocalServer()
    served.start(shelf.routes())
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as silent:
        assert ask(served)[0] == 200
        served.close()
        assert silent.recv(10) == b""
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), thread
    again = LocalServer(served.port)  # its port is free at once
    again.close()


def test_one_that_never_started_closes_too():
    LocalServer().close()
