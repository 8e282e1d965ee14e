"""The page's server under wrong and hostile requests: right status codes, no crash, nothing outside is served."""

import http.client
import json
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the web extra is not installed")
pytest.importorskip("uvicorn", reason="the web extra is not installed")

import tokenmill
from live_page import Server


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A directory with a tokenizer and a broken one; next to it a secret, and a link to the secret."""
    root = tmp_path_factory.mktemp("served")
    tokenizer = tokenmill.train_from_iterator(["the mill turns the grain", "방앗간 磨坊"] * 20, 300)
    tokenizer.save(root / "tok")
    (root / "broken").mkdir()
    (root / "broken" / "tokenizer.json").write_text("{")
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.mkdir()
    (secret / "report.html").write_text("a secret")
    tokenizer.save(secret)
    (root / "link").symlink_to(secret)
    tokenmill.prepare(dataset=["the mill turns"] * 20, tokenizer=tokenizer, output=root / "run", eos=False)
    (root / "tok" / "report.html").symlink_to(secret / "report.html")
    return root


@pytest.fixture(scope="module")
def server(served):
    running = Server(served)
    yield urlsplit(running.url).netloc
    assert running.process.poll() is None, "the server did not stay up"
    running.stop()


def request(server, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(server, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def tokenize(server, **body):
    status, _, data = request(server, "POST", "/api/tokenize", json.dumps(body))
    return status, json.loads(data)


def test_tokens_of_a_text(server, served):
    status, answer = tokenize(server, tokenizer="tok", text="the mill 방앗간")
    tokenizer = tokenmill.Tokenizer.load(served / "tok")
    assert status == 200
    assert answer["ids"] == tokenizer.encode("the mill 방앗간")
    assert answer["ends"][-1] == len("the mill 방앗간".encode())
    assert answer["round_trip"] is True
    assert answer["piece_ends"][-1] == answer["ends"][-1]


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("user: a\nassistant: b", 200, "plain"),
        ('[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]', 200, "plain"),
        ('{"messages": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}', 200, "plain"),
        ("hello", 422, "begin each message on a new line with its role"),
        ("", 422, "begin each message on a new line with its role"),
        ("hello\nuser: a", 422, "begin each message on a new line with its role"),
        ("[1, 2", 422, "not JSON"),
        ('{"text": "a"}', 422, "no conversation: "),
        ("[3]", 422, "no conversation: "),
    ],
)
def test_a_conversation_as_it_is_typed(server, text, status, words):
    asked = json.dumps({"tokenizer": "tok", "text": text})
    found, _, data = request(server, "POST", "/api/chat", asked)
    body = json.loads(data)
    assert found == status, body
    assert words in json.dumps(body), body
    if status == 200:
        assert [part["learned"] for part in body["parts"]] == [False, True]


ANSWER = "{% for m in messages %}{{ m.content }}{% endfor %}"
LARGE = "{% set n = namespace(x=[0]) %}{% for i in range(22) %}{% set n.x = n.x + n.x %}{% endfor %}"
HELD = "{% set y = namespace(a=[]) %}{% for i in range(999) %}{% set y.a = y.a + [n.x + []] %}{% endfor %}"
SLOW = "{% set a = 'ab' * 1000000 %}{% for i in range(100000) %}{{ 'bac' in a }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (ANSWER, '"tokens":2'),
        (LARGE + HELD, "MemoryError"),
        (SLOW, "was not rendered within 20 seconds"),
        ("{{ [", "chat template"),
    ],
)
def test_a_template_has_limits_of_time_and_memory(server, served, template, words):
    folder = served / f"chat-{len(template)}"
    tokenmill.Tokenizer.load(served / "tok").save(folder)
    (folder / "chat_template.jinja").write_text(template)
    asked = json.dumps({"tokenizer": folder.name, "text": "user: a\nassistant: b"})
    assert words in request(server, "POST", "/api/chat", asked)[2].decode()


def test_merge_history_ends_with_the_token(server, served):
    tokenizer = tokenmill.Tokenizer.load(served / "tok")
    token = max(range(256, tokenizer.vocab_size), key=lambda i: len(tokenizer.token_bytes(i)))
    status, _, data = request(server, "POST", "/api/merges", json.dumps({"tokenizer": "tok", "id": token}))
    answer = json.loads(data)
    assert status == 200
    assert [part["id"] for part in answer["steps"][-1]] == [token]
    assert [len(step) for step in answer["steps"]] == list(range(len(tokenizer.token_bytes(token)), 0, -1))


@pytest.mark.parametrize(
    "name", ["../outside", "link", "/etc", "tok/../../..", "%2e%2e", "tok\0", "none", ""]
)
def test_nothing_outside_is_served(server, name):
    status, answer = tokenize(server, tokenizer=name, text="x")
    assert status in {404, 422}
    assert "error" in answer
    assert "secret" not in json.dumps(answer).replace("secret/", "")


@pytest.mark.parametrize(
    "path",
    [
        "/runs/link/report",
        "/runs/tok/report",
        "/runs/../outside/report",
        "/runs/%2e%2e%2foutside/report",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
    ],
)
def test_path_traversal_is_refused(server, path):
    status, _, body = request(server, "GET", path)
    assert status in {400, 404, 422}
    assert b"a secret" not in body
    assert b"create_app" not in body


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/", None, 200),
        ("GET", "/nothing", None, 404),
        ("GET", "/api/tokenize", None, 405),
        ("DELETE", "/api/runs", None, 405),
        ("POST", "/api/tokenize", "{", 400),
        ("POST", "/api/tokenize", "[]", 400),
        ("POST", "/api/tokenize", b"\xff\xfe", 400),
        ("POST", "/api/tokenize", '{"tokenizer": 5, "text": "x"}', 400),
        ("POST", "/api/tokenize", '{"tokenizer": "tok", "text": "x", "special": "maybe"}', 400),
        ("POST", "/api/tokenize", '{"tokenizer": "tok", "text": "\\ud800"}', 400),
        ("POST", "/api/tokenize", '{"tokenizer": "broken", "text": "x"}', 422),
        ("POST", "/api/tokenize", '{"tokenizer": "tok", "text": "a\\u0000b"}', 200),
        ("POST", "/api/merges", '{"tokenizer": "tok", "id": 99999999}', 422),
        ("POST", "/api/merges", '{"tokenizer": "tok", "id": "1"}', 400),
        ("GET", "/api/runs/tok/documents/0", None, 422),
        ("GET", "/api/runs/tok/documents/x", None, 400),
    ],
)
def test_status_codes(server, method, path, body, expected):
    status, headers, _ = request(server, method, path, body)
    assert status == expected
    assert "default-src 'none'" in headers["content-security-policy"]


def test_an_oversized_body_is_cut_short(server):
    body = json.dumps({"tokenizer": "tok", "text": "x" * (17 << 20)})
    status, _, data = request(server, "POST", "/api/tokenize", body)
    assert status == 413
    assert "larger than" in json.loads(data)["error"]


def test_another_host_name_is_not_answered(server):
    status, _, _ = request(server, "GET", "/", headers={"Host": "evil.example"})
    assert status == 421


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_another_site_is_not_answered(server, headers, expected):
    assert (
        request(server, "GET", "/api/runs/run/trace?step=0&batch=1&ranks=1", headers=headers)[0] == expected
    )
    assert request(server, "GET", "/", headers=headers)[0] == 200


@pytest.mark.parametrize(
    "query", ["batch=999999999&ranks=1", "batch=1&ranks=99999999999", "batch=1&ranks=1&length=99999999999"]
)
def test_a_trace_of_impossible_size_is_refused(server, query):
    status, _, body = request(server, "GET", f"/api/runs/run/trace?step=0&{query}")
    assert status == 400
    assert "at most" in json.loads(body)["error"]


def test_a_port_in_use_is_said_in_one_line(served):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        command = [sys.executable, "-m", "tokenmill", "serve", str(served), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tokenmill: cannot listen on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1


def test_a_missing_directory_is_named(tmp_path):
    command = [sys.executable, "-m", "tokenmill", "serve", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "is not a directory" in done.stderr
