"""Small measurements in addition to whole runs: what a task costs, how long a dead worker is missed, what a store is asked."""

import logging
import math
import os
import signal
import statistics
import tempfile
import threading
import time
import urllib.request

TASKS = 500
READ_PART, WRITE_PART = 8 << 20, 16 << 20  # a ranged read, a part of an upload


def probe_cluster(address):
    """Seconds of the driver for each of many tasks that do nothing, and until a killed worker is replaced."""
    from types import SimpleNamespace

    from tokenmill.pipeline.executors import Control, RayExecutor, connect

    executor = RayExecutor(address)
    ray = connect(address)

    def seconds(count):
        tasks = [SimpleNamespace(name=str(number), source="-") for number in range(count)]
        started = time.perf_counter()
        assert sum(1 for _ in executor.run(_nothing, None, tasks, count, Control())) == count
        return time.perf_counter() - started

    seconds(8)  # the workers start
    each = [seconds(TASKS) / TASKS for _ in range(3)]
    missed = [_missed(ray) for _ in range(3)]
    ray.shutdown()
    return {
        "task_seconds": round(statistics.median(each), 5),
        "worker_lost_seconds": round(statistics.median(missed), 3),
    }


def _nothing(_job, _task, _control):
    return None


def _process():
    return os.getpid()


def _missed(ray):
    """A worker is killed; until another has its node's place, with our modules imported."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.nodes()[0]["NodeID"]
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    pid = ray.get(ray.remote(num_cpus=1, scheduling_strategy=there)(_process).remote())
    started = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    ray.get(ray.remote(num_cpus=1, scheduling_strategy=there, max_retries=3)(_process).remote())
    return time.perf_counter() - started


class Counter:
    """A WSGI server that counts and times what passes through it."""

    def __init__(self, app):
        self.app, self.lock, self.seen = app, threading.Lock(), []

    def __call__(self, environ, start_response):
        started = time.perf_counter()
        answer = list(self.app(environ, start_response))
        with self.lock:
            self.seen.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], time.perf_counter() - started))
        return answer


def probe_store(path, tokenizer, unit_bytes):
    """Requests by kind that a job makes for each unit, when it reads from a store and writes to one."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    import tokenmill
    from tokenmill.datasets.store import ObjectStore

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    counter = Counter(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, counter, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "TOKENMILL_CACHE": cache,
        }
        urllib.request.urlopen(urllib.request.Request(f"{address}/measure", method="PUT")).close()
        ObjectStore("s3://measure/in").upload(path.name, path)
        counter.seen.clear()
        dataset = tokenmill.prepare(
            inputs=["s3://measure/in/*.jsonl"],
            tokenizer=tokenizer,
            output="s3://measure/out",
            unit_bytes=unit_bytes,
            threads=2,
            show_progress=False,
            verbose_level="ERROR",
            parity_check=False,
            report=False,
        )
    server.shutdown()
    return told(counter.seen, dataset.manifest, unit_bytes)


def told(seen, manifest, unit_bytes):
    """Return the requests of a unit apart from the parts of its input and of its tokens, and those of the whole job."""
    units = len(manifest.shards)
    own = ("/in/", "/shards/", "/receipts/")
    reads = [entry for entry in seen if entry[0] in {"GET", "HEAD"}]
    writes = [entry for entry in seen if entry[0] in {"PUT", "POST"}]
    unit_reads = sum(any(part in path for part in own) for _, path, _ in reads)
    unit_writes = sum(any(part in path for part in own) for _, path, _ in writes)
    parts_in = units * math.ceil(unit_bytes / READ_PART)
    parts_out = sum(math.ceil(shard.file("tokens").bytes / WRITE_PART) for shard in manifest.shards)
    return {
        "units": units,
        "reads_per_unit": round(max(0, unit_reads - parts_in) / units, 2),
        "writes_per_unit": round(max(0, unit_writes - parts_out) / units, 2),
        "reads_per_job": len(reads) - unit_reads,
        "writes_per_job": len(writes) - unit_writes,
        "read_seconds": round(statistics.median(entry[2] for entry in reads), 5),
        "write_seconds": round(statistics.median(entry[2] for entry in writes), 5),
    }
