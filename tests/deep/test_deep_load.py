"""`serve` under more requests than it has threads, with clients that hardly speak, and over a run that is killed."""

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psutil
import pytest
from harness import DEVELOPER_WORDS, clean_environment
from jobs import JOBS, write_tokenizer

import live_page

pytest.importorskip("starlette", reason="the web extra is not installed")
pytest.importorskip("uvicorn", reason="the web extra is not installed")
MEMORY = 1 << 30
TEXT = "the mill turns the grain, 방앗간 1234 " * 200


class Server(live_page.Server):
    """`tokenmill serve` over the campaign's directory, with what it said."""

    def __init__(self, campaign):
        self.said = campaign.new_place() / "said"
        with self.said.open("wb") as errors:
            super().__init__(campaign.root, stderr=errors, env=clean_environment(**campaign.environment))
        self.place = urlsplit(self.url).netloc

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.place, timeout=120)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def judge(self):
        problems = []
        if self.process.poll() is not None:
            problems.append(("wrong", f"the server ended with exit {self.process.returncode}"))
        elif psutil.Process(self.process.pid).memory_info().rss > MEMORY:
            problems.append(("wrong", f"the server holds more than {MEMORY >> 20} MiB"))
        said = self.said.read_text()
        if any(word in said for word in DEVELOPER_WORDS):
            problems.append(("traceback", said[-300:]))
        return problems


@pytest.fixture
def server(campaign):
    write_tokenizer(campaign, campaign.root)
    made = Server(campaign)
    yield made
    made.stop()


def ask_at_once(server, tally, count):
    body = json.dumps({"tokenizer": "tokenizer", "text": TEXT})
    paths = [("POST", "/api/tokenize", body), ("GET", "/", None), ("GET", "/api/runs", None)]
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda nth: server.ask(*paths[nth % 3]), range(count)))
    expected = {data for status, data in answers[::3] if status == 200}
    broken = []
    for nth, (status, _) in enumerate(answers):
        problems = [("wrong", f"status {status}")] if status != 200 else []
        broken += tally.add(f"request {nth} of {count}", problems)
    assert len(expected) == 1, "the same question had several answers"
    return broken + tally.add(f"the server after {count} requests", server.judge())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.deep)])
def test_requests_at_once(server, tally, count):
    assert not ask_at_once(server, tally(f"{count} requests at once"), count)


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_slow_clients_hold_nobody_up(server, tally):
    """Two hundred clients send a byte now and then; others are answered all the same."""
    host, port = server.place.split(":")
    slow = [socket.create_connection((host, int(port))) for _ in range(200)]
    head = b"POST /api/tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{"
    figures, broken = tally("requests with 200 slow clients"), []
    for at in range(20):
        for client in slow:
            client.send(head[at * 4 : at * 4 + 4])
        status, _ = server.ask(
            "POST", "/api/tokenize", json.dumps({"tokenizer": "tokenizer", "text": "the mill"})
        )
        broken += figures.add(f"request {at}", [("wrong", f"status {status}")] if status != 200 else [])
    for client in slow:
        client.close()
    assert not broken + figures.add("the server afterwards", server.judge())


def watch_killed_run(campaign, server, tally, kills):
    """A run is watched while it is killed and started again; every answer is a whole one."""
    made = campaign.prepared(JOBS["prepare-filters"])
    place = campaign.new_place()
    name = str((place / "out").relative_to(campaign.root))
    broken = []
    with ThreadPoolExecutor(1) as pool:
        for kill in range(kills + 1):
            moment = None if kill == kills else made.seconds * (kill % 10 + 1) / 10
            running = pool.submit(campaign.run, made.job.argv(made.inputs, place / "out"), kill_after=moment)
            while not running.done():
                for path in ("/api/runs", f"/api/runs/{name}/documents/0", f"/runs/{name}/report"):
                    status, data = server.ask("GET", path)
                    problems = [("wrong", f"status {status}: {data[:200]!r}")] if status >= 500 else []
                    broken += tally.add(f"{path} while run {kill} was killed", problems)
                time.sleep(0.01)
            running.result()
    status, data = server.ask("GET", "/api/runs")
    states = {run["name"] if "name" in run else run.get("id"): run for run in json.loads(data)["runs"]}
    assert any("done" in json.dumps(run) for run in states.values())
    return broken + tally.add("the server afterwards", server.judge())


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.deep)])
def test_a_run_is_watched_while_it_is_killed(campaign, server, tally, kills):
    assert not watch_killed_run(
        campaign, server, tally(f"watching a run that is killed {kills} times"), kills
    )
