"""The part of Kubernetes' API that Spark uses, for pods that are processes of this machine.

A kubelet starts containers; this one starts what the entry point of Spark's own image starts in a container of an
executor, with the environment of its pod. So there is neither an image nor a network between pods.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.processes import end_with_parent
from tests.standalone_clusters import HOME

ADDRESS = "127.0.0.1"


class KubernetesApi:
    """A running server at ``url``; ``calls`` are the methods and paths of all requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[tuple[str, str]] = []
        self.pods: dict[str, dict[str, Any]] = {}
        self.maps: dict[str, dict[str, Any]] = {}
        self.watchers: list[Queue[dict[str, Any] | None]] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # A process that ends with its parent ends with the thread that has started it.
        self._kubelet = ThreadPoolExecutor(1)
        self._versions = itertools.count(1)
        self._server = ThreadingHTTPServer((ADDRESS, 0), type("Handler", (_Handler,), {"api": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self._server.server_port}"

    @property
    def running(self) -> list[str]:
        """The names of the pods whose process runs."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def stop(self) -> None:
        """End the server and all pods."""
        for watcher in self.watchers:
            watcher.put(None)
        for name in list(self._processes):
            self.delete(name)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._kubelet.shutdown()

    def create(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Keep an object, and start the process of a pod."""
        name = body["metadata"]["name"]
        body["metadata"] |= {
            "uid": f"uid-{name}",
            "resourceVersion": str(next(self._versions)),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        if kind == "pods":
            self.pods[name] = body
        else:
            self.maps[name] = body
        # A pod waits for its maps, which Spark makes after it.
        for pod, wanted in list(self.pods.items()):
            if pod not in self._processes and all(each in self.maps for each in _maps_of(wanted)):
                self._processes[pod] = self._kubelet.submit(self._start, wanted).result()
                for watcher in self.watchers:
                    watcher.put({"type": "MODIFIED", "object": wanted | {"status": self._status(pod)}})
        return body

    def delete(self, name: str) -> None:
        """End the process of a pod."""
        process = self._processes.get(name)
        if process is not None:
            process.kill()
            process.wait()

    def listed(self) -> list[dict[str, Any]]:
        """Return the pods with their state."""
        return [pod | {"status": self._status(name)} for name, pod in list(self.pods.items())]

    def _status(self, name: str) -> dict[str, Any]:
        process = self._processes.get(name)
        if process is None:
            return {"phase": "Pending"}
        code = process.poll()
        phase = "Running" if code is None else "Succeeded" if code == 0 else "Failed"
        return {"phase": phase, "podIP": ADDRESS}

    def _start(self, pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        (container,) = pod["spec"]["containers"]
        assert container["args"] == ["executor"]
        given = {each["name"]: _value(each, pod) for each in container["env"]}
        options = [
            given[f"SPARK_JAVA_OPT_{n}"]
            for n in itertools.takewhile(lambda n: f"SPARK_JAVA_OPT_{n}" in given, itertools.count())
        ]
        memory = given["SPARK_EXECUTOR_MEMORY"]
        folder = self.folder / pod["metadata"]["name"]
        folder.mkdir(parents=True)
        for path, text in self._mounted(pod).items():
            (folder / path).write_text(text)
        command = [
            *("java", *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", f"{folder}:{HOME}/jars/*"),
            "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
            *("--driver-url", given["SPARK_DRIVER_URL"], "--executor-id", given["SPARK_EXECUTOR_ID"]),
            *("--cores", given["SPARK_EXECUTOR_CORES"], "--app-id", given["SPARK_APPLICATION_ID"]),
            *("--hostname", given["SPARK_EXECUTOR_POD_IP"]),
            *("--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"]),
            *("--podName", given["SPARK_EXECUTOR_POD_NAME"]),
        ]
        # A container has the variables of its image and of its pod, and no others.
        image = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=folder,
                env=image | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_DIRS": str(folder)} | given,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )

    def _mounted(self, pod: Mapping[str, Any]) -> dict[str, str]:
        return {path: text for name in _maps_of(pod) for path, text in self.maps[name].get("data", {}).items()}


def _maps_of(pod: Mapping[str, Any]) -> list[str]:
    return [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]


def _value(variable: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return the value of a variable, which may be a field of the pod."""
    field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    if field is None:
        return str(variable.get("value", ""))
    return {"status.podIP": ADDRESS, "metadata.name": str(pod["metadata"]["name"])}[field]


class _Handler(BaseHTTPRequestHandler):
    api: KubernetesApi
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, body: Mapping[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _note(self) -> tuple[str, str | None, dict[str, list[str]], dict[str, Any]]:
        url = urlsplit(self.path)
        self.api.calls.append((self.command, self.path))
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        parts = url.path.removeprefix("/api/v1/namespaces/").split("/")
        kind = parts[1] if len(parts) > 1 else ""
        return kind, parts[2] if len(parts) > 2 else None, parse_qs(url.query), body

    def do_GET(self) -> None:
        """Answer with the pods."""
        _, name, query, _ = self._note()
        if "watch" in query:
            return self._watch()
        if name is not None:
            return self._answer(next(each for each in self.api.listed() if each["metadata"]["name"] == name))
        return self._answer(
            {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": self.api.listed()}
        )

    def _watch(self) -> None:
        """Answer with events until the server ends. There is no WebSocket, which Spark asks for first."""
        if "Upgrade" in self.headers:
            self._answer({"kind": "Status", "status": "Failure", "code": 503}, 503)
            return
        events: Queue[dict[str, Any] | None] = Queue()
        self.api.watchers.append(events)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (event := events.get()) is not None:
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self) -> None:
        """Create an object."""
        kind, _, _, body = self._note()
        self._answer(self.api.create(kind, body), 201)

    def do_PATCH(self) -> None:
        """Change nothing."""
        _, name, _, _ = self._note()
        self._answer(self.api.pods.get(name or "", {}))

    def do_DELETE(self) -> None:
        """Delete a pod, or all."""
        kind, name, _, _ = self._note()
        for each in list(self.api.pods) if name is None else [name]:
            if kind == "pods":
                self.api.delete(each)
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})


@contextmanager
def running_kubernetes(folder: Path) -> Iterator[KubernetesApi]:
    """Yield a running server."""
    api = KubernetesApi(folder)
    try:
        yield api
    finally:
        api.stop()
