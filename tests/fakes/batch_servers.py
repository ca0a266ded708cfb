"""Loopback batch APIs of OpenAI, Anthropic and Google, in their wire formats, with faults."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from aiohttp import web

from tests.fakes import LoopbackServer

Json = dict[str, Any]
# Outcome of one request of a batch.
Fault = Literal["ok", "missing", "twice", "foreign", "malformed", "text", "error", "expired",
                "empty", "swapped"]  # fmt: skip
# Final state of a whole batch.
Ending = Literal["completed", "failed", "expired", "cancelled"]
FOREIGN = "00000000-0000-4000-8000-000000000000"


class Refused(Exception):
    """A call that the provider refuses with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Batch:
    """A batch on the server."""

    id: str
    requests: list[tuple[str, Json]]
    created: datetime
    label: str = ""
    ending: Ending | None = None
    files: list[str] = field(default_factory=list)
    results: list[Json] = field(default_factory=list)


class BatchServer(LoopbackServer):
    """Common part of the batch APIs of all providers.

    Attributes:
        reply: Returns the arguments of the model's tool call for a request's text.
        fault_of: Returns the outcome of a request for its text.
        batches: Batches that were not deleted, by id, oldest first.
        submitted: Number of batches ever created.
        failures: ``(method, part of the path, status, is_done)`` of calls that fail, each once;
            with ``is_done`` the call has its effect nevertheless.
    """

    ENDED_STATUS = 400  # of a cancellation that comes too late

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.reply: Callable[[str], Json] = lambda _words: {"facts": []}
        self.fault_of: Callable[[str], Fault] = lambda _words: "ok"
        self.batches: dict[str, Batch] = {}
        self.submitted = 0
        self.failures: list[tuple[str, str, int, bool]] = []
        self.calls: list[tuple[str, str]] = []
        self._random = random.Random(seed)

    def failure(self, what: str, timeout: float) -> str:
        return f"no {what} within {timeout} s; batches: {list(self.batches)}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def handler(self, function: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        """Wrap a handler that returns a body, so that it fails as ``failures`` demands."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self.calls.append((request.method, request.path))
            for failure in self.failures:
                method, part, status, is_done = failure
                if request.method == method and part in request.path:
                    self.failures.remove(failure)
                    if is_done:
                        await function(request)
                    return web.json_response(self.error(status), status=status)
            try:
                body = await function(request)
            except Refused as refused:
                return web.json_response(self.error(refused.status), status=refused.status)
            self.changes.notify()
            if isinstance(body, str):
                return web.Response(text=body, content_type="application/octet-stream")
            return web.json_response(body)

        return handle

    def find(self, request: web.Request) -> Batch:
        """Return the batch that an address names."""
        batch = self.batches.get(self.id_of(request))
        if batch is None:
            raise Refused(404)
        return batch

    def id_of(self, request: web.Request) -> str:
        """Return the id in an address."""
        return request.match_info["id"]

    def body_of(self, batch: Batch) -> Json:
        """Return a batch in the wire format."""
        raise NotImplementedError

    def newest(self) -> list[Json]:
        """Return all batches in the wire format, newest first."""
        return [self.body_of(batch) for batch in reversed(self.batches.values())]

    async def get(self, request: web.Request) -> Json:
        """Answer with one batch."""
        return self.body_of(self.find(request))

    async def cancel(self, request: web.Request) -> Json:
        """Cancel a batch that runs."""
        batch = self.find(request)
        if batch.ending:
            raise Refused(self.ENDED_STATUS)
        self.finish(batch, "cancelled")
        return self.body_of(batch)

    def error(self, status: int) -> Json:
        """Return the body of an error response."""
        raise NotImplementedError

    def words_of(self, payload: Json) -> str:
        """Return the last message of a request."""
        raise NotImplementedError

    def success(self, custom_id: str, reply: Json | str) -> Json:
        """Return a successful result in the wire format."""
        raise NotImplementedError

    def problem(self, custom_id: str, kind: str) -> Json:
        """Return a failed result in the wire format."""
        raise NotImplementedError

    def add(self, requests: list[tuple[str, Json]], label: str = "") -> Batch:
        """Accept a batch."""
        self.submitted += 1
        batch = Batch(self.new_id(), requests, datetime.now(UTC), label)
        self.batches[batch.id] = batch
        return batch

    def new_id(self) -> str:
        return f"batch_{self.submitted}"

    def finish(self, batch: Batch | None = None, ending: Ending = "completed") -> None:
        """End a batch (by default all running ones) with the results that its faults produce."""
        running = [entry for entry in self.batches.values() if entry.ending is None]
        for entry in [batch] if batch else running:
            done = entry.requests
            if ending in ("expired", "cancelled"):
                done = done[: len(done) // 2]
            results = [] if ending == "failed" else list(self._results(done))
            self._random.shuffle(results)
            entry.results, entry.ending = results, ending
            self.on_finished(entry)

    def on_finished(self, batch: Batch) -> None:
        """Hook for providers that do not keep results with the batch."""

    def holds(self, text: str) -> bool:
        """Return True if anything stored on the server contains a text."""
        stored = [(batch.requests, batch.results) for batch in self.batches.values()]
        return text in json.dumps(stored, ensure_ascii=False)

    def _results(self, requests: list[tuple[str, Json]]) -> Iterator[Json]:
        for custom_id, payload in requests:
            words = self.words_of(payload)
            fault = self.fault_of(words)
            if fault == "missing":
                continue
            if fault in ("error", "expired"):
                yield self.problem(custom_id, fault)
                continue
            if fault == "swapped":  # the answer to another request
                words = self.words_of(requests[0][1])
            garbled = {
                "malformed": '{"facts": [{"text"',
                "empty": "",
                "text": f"Here: {json.dumps(self.reply(words))}",
            }
            reply = garbled[fault] if fault in garbled else self.reply(words)
            yield self.success(custom_id, reply)
            if fault == "twice":
                yield self.success(custom_id, self.reply(words))
            if fault == "foreign":
                yield self.success(FOREIGN, self.reply(words))


class OpenAIBatches(BatchServer):
    """``/files`` and ``/batches``."""

    ENDED_STATUS = 409

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.files: dict[str, tuple[str, str]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self.handler(self._upload)),
            web.get("/v1/files", self.handler(self._list_files)),
            web.get("/v1/files/{id}/content", self.handler(self._content)),
            web.delete("/v1/files/{id}", self.handler(self._delete)),
            web.post("/v1/batches", self.handler(self._create)),
            web.get("/v1/batches", self.handler(self._list)),
            web.get("/v1/batches/{id}", self.handler(self.get)),
            web.post("/v1/batches/{id}/cancel", self.handler(self.cancel)),
        ]

    def error(self, status: int) -> Json:
        return {"error": {"message": f"status {status}", "type": "server_error", "code": None}}

    def words_of(self, payload: Json) -> str:
        return str(payload["body"]["messages"][-1]["content"])

    def success(self, custom_id: str, reply: Json | str) -> Json:
        message: Json = {"role": "assistant", "content": reply}
        if isinstance(reply, dict):
            call = {"name": "ExtractedFacts", "arguments": json.dumps(reply, ensure_ascii=False)}
            message = {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function", "function": call}]}  # fmt: skip
        body = {
            "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4o-mini-2024-07-18",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940,
                      "prompt_tokens_details": {"cached_tokens": 128}},
        }  # fmt: skip
        response = {"status_code": 200, "request_id": "r", "body": body}
        return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}

    def problem(self, custom_id: str, kind: str) -> Json:
        if kind == "expired":
            error = {"code": "batch_expired", "message": "expired"}
            return {"id": "r", "custom_id": custom_id, "response": None, "error": error}
        body = {"error": {"message": "no", "code": "server_error"}}
        response = {"status_code": 500, "request_id": "r", "body": body}
        return {"id": "r", "custom_id": custom_id, "response": response, "error": None}

    def on_finished(self, batch: Batch) -> None:
        good = [
            entry for entry in batch.results if (entry["response"] or {}).get("status_code") == 200
        ]
        bad = [entry for entry in batch.results if entry not in good]
        for kind, entries in (("output", good), ("error", bad)):
            if entries:
                name = f"file-{kind}-{batch.id}"
                lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
                if batch.ending != "completed":
                    lines.append('{"custom_id": "torn')
                self.files[name] = (f"{kind}.jsonl", "\n".join(lines))
        batch.results, batch.requests = [], []

    def holds(self, text: str) -> bool:
        return super().holds(text) or any(
            text in content for _name, content in self.files.values()
        )

    def body_of(self, batch: Batch) -> Json:
        def file(kind: str) -> str | None:
            name = f"file-{kind}-{batch.id}"
            return name if name in self.files else None

        return {
            "id": batch.id, "object": "batch", "endpoint": "/v1/chat/completions",
            "input_file_id": batch.files[0], "completion_window": "24h",
            "status": batch.ending or "in_progress", "created_at": int(batch.created.timestamp()),
            "metadata": json.loads(batch.label or "{}"),
            "output_file_id": file("output"), "error_file_id": file("error"),
        }  # fmt: skip

    async def _upload(self, request: web.Request) -> Json:
        form = await request.post()
        upload = form["file"]
        assert form["purpose"] == "batch" and isinstance(upload, web.FileField)
        name = f"file-{len(self.files) + self.submitted}-{self._random.random()}"
        self.files[name] = (upload.filename, upload.file.read().decode())
        return self._file(name)

    def _file(self, name: str) -> Json:
        filename, content = self.files[name]
        return {"id": name, "object": "file", "bytes": len(content), "created_at": 1,
                "filename": filename, "purpose": "batch", "status": "processed"}  # fmt: skip

    async def _list_files(self, _request: web.Request) -> Json:
        files = [self._file(name) for name in self.files]
        return {"object": "list", "has_more": False, "data": files}

    async def _content(self, request: web.Request) -> str:
        if self.id_of(request) not in self.files:
            raise Refused(404)
        return self.files[self.id_of(request)][1]

    async def _delete(self, request: web.Request) -> Json:
        name = self.id_of(request)
        if self.files.pop(name, None) is None:
            raise Refused(404)
        return {"id": name, "object": "file", "deleted": True}

    async def _create(self, request: web.Request) -> Json:
        body = await request.json()
        assert body["completion_window"] == "24h" and body["endpoint"] == "/v1/chat/completions"
        _name, content = self.files[body["input_file_id"]]
        entries = [json.loads(line) for line in content.split("\n")]
        assert all(entry["method"] == "POST" for entry in entries)
        batch = self.add([(entry["custom_id"], entry) for entry in entries])
        batch.label, batch.files = json.dumps(body.get("metadata") or {}), [body["input_file_id"]]
        return self.body_of(batch)

    async def _list(self, _request: web.Request) -> Json:
        return {"object": "list", "has_more": False, "data": self.newest()}


class AnthropicBatches(BatchServer):
    """``/v1/messages/batches``."""

    def new_id(self) -> str:
        return f"msgbatch_{self.submitted}"

    def routes(self) -> list[web.RouteDef]:
        base = "/v1/messages/batches"
        return [
            web.post(base, self.handler(self._create)),
            web.get(base, self.handler(self._list)),
            web.get(base + "/{id}", self.handler(self.get)),
            web.get(base + "/{id}/results", self.handler(self._get_results)),
            web.post(base + "/{id}/cancel", self.handler(self.cancel)),
            web.delete(base + "/{id}", self.handler(self._delete)),
        ]

    def error(self, status: int) -> Json:
        return {"type": "error", "error": {"type": "api_error", "message": f"status {status}"}}

    def words_of(self, payload: Json) -> str:
        return str(payload["messages"][-1]["content"])

    def success(self, custom_id: str, reply: Json | str) -> Json:
        block: Json = {"type": "text", "text": reply}
        if isinstance(reply, dict):
            block = {"type": "tool_use", "id": "toolu_1", "name": "ExtractedFacts", "input": reply}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
            "content": [block], "stop_reason": "tool_use", "stop_sequence": None,
            "usage": {"input_tokens": 700, "cache_read_input_tokens": 200,
                      "cache_creation_input_tokens": 0, "output_tokens": 40},
        }  # fmt: skip
        return {"custom_id": custom_id, "result": {"type": "succeeded", "message": message}}

    def problem(self, custom_id: str, kind: str) -> Json:
        if kind == "expired":
            return {"custom_id": custom_id, "result": {"type": "expired"}}
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
        return {"custom_id": custom_id, "result": {"type": "errored", "error": error}}

    def body_of(self, batch: Batch) -> Json:
        moment = batch.created.isoformat().replace("+00:00", "Z")
        has_results = bool(batch.ending and batch.ending != "failed")
        return {
            "id": batch.id, "type": "message_batch",
            "processing_status": "ended" if batch.ending else "in_progress",
            "request_counts": {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0,
                               "expired": 0},
            "created_at": moment, "expires_at": moment, "ended_at": None, "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.url}/v1/messages/batches/{batch.id}/results"
            if has_results else None,
        }  # fmt: skip

    async def _create(self, request: web.Request) -> Json:
        entries = (await request.json())["requests"]
        assert all(re.fullmatch(r"[\w-]{1,64}", entry["custom_id"]) for entry in entries)
        return self.body_of(self.add([(entry["custom_id"], entry["params"]) for entry in entries]))

    async def _list(self, _request: web.Request) -> Json:
        return {"data": self.newest(), "has_more": False, "first_id": None, "last_id": None}

    async def _get_results(self, request: web.Request) -> str:
        batch = self.find(request)
        if not batch.ending:
            raise Refused(404)
        return "\n".join(json.dumps(entry, ensure_ascii=False) for entry in batch.results)

    async def _delete(self, request: web.Request) -> Json:
        batch = self.find(request)
        if not batch.ending:
            raise Refused(400)
        del self.batches[batch.id]
        return {"id": batch.id, "type": "message_batch_deleted"}


class GoogleBatches(BatchServer):
    """``:batchGenerateContent`` and ``/v1beta/batches``."""

    ENDINGS: ClassVar = {"completed": "SUCCEEDED", "failed": "FAILED", "expired": "EXPIRED",
               "cancelled": "CANCELLED"}  # fmt: skip

    def new_id(self) -> str:
        return f"batches/b{self.submitted}"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post(
                "/v1beta/models/{model:[^:]+}:batchGenerateContent", self.handler(self._create)
            ),
            web.get("/v1beta/batches", self.handler(self._list)),
            web.get("/v1beta/batches/{id}", self.handler(self.get)),
            web.post("/v1beta/batches/{id}:cancel", self.handler(self.cancel)),
            web.delete("/v1beta/batches/{id}", self.handler(self._delete)),
        ]

    def error(self, status: int) -> Json:
        return {"error": {"code": status, "message": f"status {status}", "status": "UNAVAILABLE"}}

    def words_of(self, payload: Json) -> str:
        return str(payload["contents"][-1]["parts"][0]["text"])

    def success(self, custom_id: str, reply: Json | str) -> Json:
        part: Json = {"text": reply}
        if isinstance(reply, dict):
            part = {"functionCall": {"name": "ExtractedFacts", "args": reply}}
        content = {"role": "model", "parts": [part]}
        response = {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 900, "cachedContentTokenCount": 0,
                              "candidatesTokenCount": 40},
        }  # fmt: skip
        return {"metadata": {"custom_id": custom_id}, "response": response}

    def problem(self, custom_id: str, kind: str) -> Json:
        error = {"code": 4 if kind == "expired" else 13, "message": "no"}
        return {"metadata": {"custom_id": custom_id}, "error": error}

    def body_of(self, batch: Batch) -> Json:
        moment = batch.created.isoformat().replace("+00:00", "Z")
        state = self.ENDINGS[batch.ending] if batch.ending else "RUNNING"
        metadata: Json = {
            "@type": "type.googleapis.com/google.ai.GenerateContentBatch",
            "model": "models/gemini-2.5-flash", "displayName": batch.label, "name": batch.id,
            "createTime": moment, "state": f"BATCH_STATE_{state}",
        }  # fmt: skip
        if batch.results:
            metadata["output"] = {"inlinedResponses": {"inlinedResponses": batch.results}}
        return {"name": batch.id, "metadata": metadata}

    async def _create(self, request: web.Request) -> Json:
        body = (await request.json())["batch"]
        entries = body["inputConfig"]["requests"]["requests"]
        requests = [(entry["metadata"]["custom_id"], entry["request"]) for entry in entries]
        return self.body_of(self.add(requests, body.get("displayName", "")))

    async def _list(self, _request: web.Request) -> Json:
        return {"operations": self.newest()}

    def id_of(self, request: web.Request) -> str:
        return f"batches/{request.match_info['id']}"

    async def cancel(self, request: web.Request) -> Json:
        await super().cancel(request)
        return {}

    async def _delete(self, request: web.Request) -> Json:
        del self.batches[self.find(request).id]
        return {}


SERVERS: dict[str, type[BatchServer]] = {
    "openai": OpenAIBatches, "anthropic": AnthropicBatches, "google": GoogleBatches,
}  # fmt: skip
