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


@pytest.fixture
def bucket(s3_endpoint, monkeypatch, tmp_path):
    """A fresh bucket, as `s3://name`, with this process's environment pointing at the server."""
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ALLOW_HTTP": "true",
        "TOKENMILL_CACHE": str(tmp_path / "cache"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    name = f"test-{uuid.uuid4().hex[:12]}"
    request = urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
    return f"s3://{name}"
