"""A real S3 server on loopback, started and stopped by a fixture; the real client speaks to it."""

import urllib.request
import uuid

import pytest

pytest.importorskip("obstore")
server = pytest.importorskip("moto.server")


@pytest.fixture(scope="session")
def s3_endpoint():
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


def point_at(address, monkeypatch, cache, **keys):
    """Set the variables that lead this process to the server, and create a bucket there; return its URL."""
    settings = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1"}
    settings |= {"REGION": "us-east-1", "ENDPOINT_URL": address, "ALLOW_HTTP": "true", **keys}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("TOKENMILL_CACHE", str(cache))
    name = f"test-{uuid.uuid4().hex[:12]}"
    with urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT")) as answer:
        assert answer.status == 200
    return f"s3://{name}"


@pytest.fixture
def bucket(s3_endpoint, monkeypatch, tmp_path):
    """A fresh bucket, as `s3://name`, with this process's environment pointing at the server."""
    return point_at(s3_endpoint, monkeypatch, tmp_path / "cache")
