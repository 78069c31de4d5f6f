"""The local server: what it serves, and everything that it refuses."""

import logging
import socket
import threading
from http.client import HTTPConnection

import pytest

from render_agent.errors import RunLogError, SetupError
from render_agent.web.checks import LONGEST_PATH, MOST_BYTES, TOKEN_HEADER, Refused, plain_path
from render_agent.web.folder import find_file
from render_agent.web.server import LocalServer, Page


class Shelf:
    """Serves a folder, takes what is posted to `take`, and breaks at `broken`."""

    def __init__(self, folder):
        self.folder = folder
        self.taken = []

    def get(self, path):
        if path == "broken":
            raise ValueError("a secret detail")
        if path == "damaged":
            raise RunLogError("a secret line is damaged")
        return Page(b"first") if path == "" else find_file(self.folder, path)

    def post(self, path, body):
        if path != "take":
            return None
        self.taken.append(body)
        return Page(b"{}", "application/json")


@pytest.fixture
def shelf(tmp_path):
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
    return Shelf(folder)


@pytest.fixture
def server(shelf):
    served = LocalServer()
    served.start(shelf)
    yield served
    served.close()


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
        return reply.status, dict(reply.getheaders()), reply.read()
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
    [None, "", "evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:{port}",
     "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:{port}@evil.example"],
)  # fmt: skip
def test_other_names_for_this_machine_are_refused(server, host):
    host = host and host.format(port=server.port)
    assert ask(server, Host=host)[0] == 421


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
        ("/..%2fsecret.json", 400),
        ("/%2e%2e/secret.json", 400),
        ("/%252e%252e/secret.json", 404),
        ("/..%5csecret.json", 400),
        ("/deep\\secret.json", 400),
        ("/page.html%00.png", 400),
        ("/page.html%0d%0aX-Mine:%20yes", 400),
        ("/%ff.html", 400),
        ("/deep//x.png", 400),
        ("/deep/", 400),
        ("http://evil.example/", 400),
        ("*", 400),
        ("/out.json", 404),
        ("/outside/secret.json", 404),
        ("/circle.html", 404),
        ("/folder.html", 404),
        ("/.hidden.css", 404),
        ("/run.log", 404),
        ("/deep", 404),
        ("/nothing.html", 404),
        ("/" + "x" * LONGEST_PATH, 414),
        ("/" + "x" * 300 + ".html", 404),
        ("/page.html/x.html", 404),
    ],
)
def test_nothing_outside_the_folder_is_served(server, path, status):
    found, headers, body = ask(server, path)
    assert found == status
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"Traceback" not in body


def test_a_folder_that_is_gone_has_no_files(tmp_path):
    assert find_file(tmp_path / "gone", "page.html") is None
    assert find_file(tmp_path, "") is None


def test_paths_are_decoded_once():
    assert plain_path("/a%20b/%25.html?x=/../y#z") == "a b/%.html"
    with pytest.raises(Refused):
        plain_path("")


def test_the_page_may_post_with_its_token(server, shelf):
    status, _, body = post(server, b'{"text": "done"}')
    assert (status, body) == (200, b"{}")
    assert shelf.taken == [b'{"text": "done"}']


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({TOKEN_HEADER: None}, 403),
        ({TOKEN_HEADER: ""}, 403),
        ({TOKEN_HEADER: "wrong"}, 403),
        ({TOKEN_HEADER: "\u00e9"}, 403),
        ({"Origin": None}, 403),
        ({"Content-Type": None}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": None}, 411),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "2.5"}, 411),
        ({"Content-Length": str(MOST_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 40}, 411),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"path": "/elsewhere"}, 404),
        ({"path": "/../take"}, 400),
    ],
)
def test_other_posts_are_refused(server, shelf, given, status):
    assert post(server, **given)[0] == status
    assert shelf.taken == []


def test_more_than_a_page_posts_is_told_so(server, shelf):
    assert post(server, b"x" * (MOST_BYTES + 1))[0] == 413
    assert post(server, b"x" * MOST_BYTES)[0] == 200
    assert len(shelf.taken) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(server, method):
    status, headers, body = ask(server, "/", method)
    assert status == 501
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
    assert [entry.getMessage() for entry in caplog.records] == [
        "refused GET '/../x': That is no address here."
    ]


def test_it_listens_on_this_machine_only(server):
    assert server._server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.port}/"


def test_a_port_that_is_taken_is_one_clear_sentence(server):
    with pytest.raises(SetupError, match=rf"port {server.port} of 127.0.0.1 .*--port"):
        LocalServer(server.port)
    with pytest.raises(SetupError, match="no such port"):
        LocalServer(70_000)


def test_closing_waits_for_no_silent_browser_and_leaves_no_thread(shelf):
    before = threading.active_count()
    served = LocalServer()
    served.start(shelf)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as silent:
        assert ask(served)[0] == 200
        served.close()
        assert silent.recv(10) == b""
    assert threading.active_count() == before
    again = LocalServer(served.port)  # its port is free at once
    again.close()


def test_one_that_never_started_closes_too():
    LocalServer().close()
