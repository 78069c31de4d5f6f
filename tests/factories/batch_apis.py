"""Stub servers of the batch APIs, validated against the SDKs' types like their direct ones."""

from __future__ import annotations

import hashlib
import json
import random
import re

from factories.native_apis import (
    AnthropicStub,
    GeminiStub,
    NativeServer,
    ResponsesStub,
    adapter,
)

# Faults of single requests.
EXPIRED, CANCELED = "expired", "canceled"
BROKEN, NO_TEMPERATURE = "invalid image", "temperature is not supported with this model"


class ChatStub:
    """Chat completions."""

    path = "/v1/chat/completions"

    def validate(self, body):
        from openai.types.chat.completion_create_params import (
            CompletionCreateParamsBase,
            CompletionCreateParamsNonStreaming,
        )

        assert body.keys() <= CompletionCreateParamsBase.__annotations__.keys()
        adapter(CompletionCreateParamsNonStreaming).validate_python(body)

    def reply(self, body, digest):
        return self.say(json.dumps({"rotation_angle_degrees": int(digest[:6], 16) % 90 + 1}))

    def say(self, text):
        from openai.types.chat import ChatCompletion

        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = {"prompt_tokens": 14, "completion_tokens": 9, "total_tokens": 23}
        head = {"id": "c", "object": "chat.completion", "created": 1, "model": "made"}
        body = {**head, "choices": [choice], "usage": usage}
        ChatCompletion.model_validate(body)
        return body


class OpenAIJobs:
    """`/v1/files` and `/v1/batches`."""

    def submitted(self, method, path, body, server):
        from openai.types.batch_create_params import BatchCreateParams

        if path == "/v1/files":
            assert b'name="purpose"\r\n\r\nbatch' in body, body[:300]
            content = max(re.split(rb"\r\n--|\r\n\r\n", body), key=len)
            name = server.store(content.decode())
            head = {"id": name, "bytes": len(content), "created_at": 1, "filename": "f.jsonl"}
            return {**head, "object": "file", "purpose": "batch", "status": "processed"}
        created = json.loads(body)
        adapter(BatchCreateParams).validate_python(created)
        assert created["endpoint"] == server.stub.path
        lines = list(map(json.loads, server.files[created["input_file_id"]].splitlines()))
        assert {(line["method"], line["url"]) for line in lines} == {("POST", server.stub.path)}
        return self.shown(
            server.create({line["custom_id"]: line["body"] for line in lines}), server
        )

    def shown(self, job, server):
        from openai.types import Batch

        body = {"id": job.name, "completion_window": "24h", "created_at": 1, "object": "batch"}
        body |= {"endpoint": server.stub.path, "input_file_id": "f", "status": "in_progress"}
        if job.is_done and job.failure:
            errors = [{"code": "token_limit_exceeded", "message": job.failure}]
            body |= {"status": "failed", "errors": {"object": "list", "data": errors}}
        elif job.is_done:
            ok = [line for line in job.lines(self.line) if line["error"] is None]
            bad = [line for line in job.lines(self.line) if line["error"] is not None]
            body["status"] = "expired" if bad else "completed"
            body["output_file_id"] = server.store("\n".join(map(json.dumps, ok)))
            body["error_file_id"] = server.store("\n".join(map(json.dumps, bad))) if bad else None
        Batch.model_validate(body)
        return body

    def line(self, key, status, answer):
        response = {"status_code": status, "request_id": "r", "body": answer}
        head = {"id": f"batch_req_{key[:5]}", "custom_id": key}
        if status in (EXPIRED, CANCELED):
            kind = {EXPIRED: "batch_expired", CANCELED: "batch_cancelled"}[status]
            return {**head, "response": None, "error": {"code": kind, "message": kind}}
        return {**head, "response": response, "error": None}

    def job_of(self, path):
        return path.removeprefix("/v1/batches/")

    def file_of(self, path):
        return path.removeprefix("/v1/files/").removesuffix("/content")


class AnthropicJobs:
    """`/v1/messages/batches`."""

    def submitted(self, method, path, body, server):
        from anthropic.types.messages.batch_create_params import BatchCreateParams

        requests = json.loads(body)["requests"]
        body = {"requests": [{**r, "params": {**r["params"]}} for r in requests]}
        adapter(BatchCreateParams).validate_python(body)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", r["custom_id"]) for r in requests)
        job = server.create({request["custom_id"]: request["params"] for request in requests})
        return self.shown(job, server)

    def shown(self, job, server):
        from anthropic.types.messages import MessageBatch

        counts = dict.fromkeys(("canceled", "errored", "expired", "processing", "succeeded"), 0)
        body = {"id": job.name, "type": "message_batch", "request_counts": counts}
        body |= {"created_at": "2026-11-27T00:00:00Z", "expires_at": "2026-11-28T00:00:00Z"}
        body["processing_status"] = "ended" if job.is_done else "in_progress"
        if job.is_done:
            name = server.store("\n".join(map(json.dumps, job.lines(self.line))))
            body["results_url"] = f"http://127.0.0.1:{server.port}/results/{name}"
        MessageBatch.model_validate(body)
        return body

    def line(self, key, status, answer):
        from anthropic.types.messages import MessageBatchIndividualResponse

        if status in (EXPIRED, CANCELED):
            result = {"type": status}
        elif status == 200:
            result = {"type": "succeeded", "message": answer}
        else:
            error = {"type": "invalid_request_error", "message": answer["error"]["message"]}
            result = {"type": "errored", "error": {"type": "error", "error": error}}
            result["error"]["request_id"] = "r"
        line = {"custom_id": key, "result": result}
        MessageBatchIndividualResponse.model_validate(line)
        return line

    def job_of(self, path):
        return path.removeprefix("/v1/messages/batches/")

    def file_of(self, path):
        return path.removeprefix("/results/")


class GeminiJobs:
    """Resumable uploads, `:batchGenerateContent` and `batches/`."""

    def submitted(self, method, path, body, server):
        if re.fullmatch("/upload/v1(beta)?/files", path):
            return {"x-goog-upload-url": f"http://127.0.0.1:{server.port}/put"}, {}
        if path == "/put":
            server.uploaded += body
            if "finalize" not in server.headers[-1]["x-goog-upload-command"]:
                return {"x-goog-upload-status": "active"}, {}
            name = server.store(server.uploaded.decode())
            server.uploaded = b""
            return {"x-goog-upload-status": "final"}, {"file": {"name": name}}
        assert re.fullmatch("/v1(beta)?/models/made:batchGenerateContent", path), path
        name = json.loads(body)["batch"]["inputConfig"]["fileName"]
        lines = list(map(json.loads, server.files[name].splitlines()))
        return self.shown(server.create({line["key"]: line["request"] for line in lines}), server)

    def shown(self, job, server):
        body = {"name": job.name, "metadata": {"state": "BATCH_STATE_RUNNING"}}
        if job.is_done and job.failure:
            body["metadata"]["state"] = "BATCH_STATE_FAILED"
        elif job.is_done:
            name = server.store("\n".join(map(json.dumps, job.lines(self.line))))
            body["metadata"] = {"state": "BATCH_STATE_SUCCEEDED", "output": {"responsesFile": name}}
        return body

    def line(self, key, status, answer):
        if status == 200:
            return {"key": key, "response": answer}
        faults = {EXPIRED: (4, "Deadline expired"), CANCELED: (1, "CANCELLED")}
        code, message = faults.get(status) or (3, f"Invalid: {answer['error']['message']}")
        return {"key": key, "error": {"code": code, "message": message}}

    def job_of(self, path):
        return re.sub("^/v1(beta)?/", "", path)

    def file_of(self, path):
        return re.sub("^/v1(beta)?/|:download$", "", path)


class AnyGeminiStub(GeminiStub):
    """Gemini, with requests in the form of the SDK or of input files; replies depend on their meaning only."""

    def canonical(self, body):
        from google.genai import types

        kinds = {"contents": types.Content, "tools": types.Tool}
        config = body.get("generationConfig", body.get("generation_config"))
        system = body.get("systemInstruction", body.get("system_instruction"))
        found = {
            "config": types.GenerationConfig.model_validate(config),
            "system": types.Content.model_validate({"role": "user", **system}),
        } | {
            name: [kind.model_validate(each) for each in body.get(name, ())]
            for name, kind in kinds.items()
        }
        return adapter(dict).dump_json(found, exclude_none=True)

    def validate(self, body):
        known = {"contents", "system_instruction", "generation_config", "tools"}
        if "generationConfig" not in body:
            assert body.keys() <= known, body.keys()
            body = {"contents": body["contents"], "generationConfig": {}}
        super().validate(body)

    def reply(self, body, digest):
        return super().reply(body, hashlib.sha256(self.canonical(body)).hexdigest())


JOBS = {
    "chat": (OpenAIJobs, ChatStub, "batch_{}", "file-{}"),
    "responses": (OpenAIJobs, ResponsesStub, "batch_{}", "file-{}"),
    "anthropic": (AnthropicJobs, AnthropicStub, "msgbatch_{}", "{}"),
    "gemini": (GeminiJobs, AnyGeminiStub, "batches/{}", "files/{}"),
}


class Job:
    """A submitted job; it is done after some polls."""

    def __init__(self, name, answers, polls, failure):
        self.name, self.answers, self.polls, self.failure = name, answers, polls, failure

    @property
    def is_done(self):
        return self.polls <= 0

    def lines(self, line):
        """Return the lines of the results in another order than the requests."""
        lines = [line(key, *answer) for key, answer in self.answers.items()]
        return random.Random(0).sample(lines, len(lines))


class BatchServer(NativeServer):
    """A direct API with its batch API."""

    def __init__(self, name, script=()):
        self.jobs_api, self.jobs, self.files, self.uploaded = JOBS[name][0](), {}, {}, b""
        self.paid, self.submissions = (
            [],
            [],
        )  # every request answered, as JSON; request counts of jobs
        self.faults = []  # for each further request in a job: EXPIRED, CANCELED, BROKEN or None
        self.failures = []  # for each further job: why it fails as a whole, or None
        self.polls = 2  # polls before a further job is done
        self.polled, self.has_jobs = 0, True
        self.job_name, self.file_name = JOBS[name][2:]
        super().__init__("responses" if name == "chat" else name, script)
        self.stub = JOBS[name][1]()
        self.base_url = self.url if name in ("chat", "responses") else self.url.removesuffix("/v1")

    def store(self, text):
        name = self.file_name.format(len(self.files))
        self.files[name] = text
        return name

    def create(self, requests):
        """Create a job that answers the requests."""
        with self.lock:
            failure = self.failures.pop(0) if self.failures else None
            answers = {}
            for key, request in requests.items():
                fault = self.faults.pop(0) if self.faults else None
                answers[key] = self.answer_of(request, fault, failure)
            name = self.job_name.format(len(self.jobs))
            self.jobs[name] = Job(name, {} if failure else answers, self.polls, failure)
            self.submissions.append(len(requests))
        return self.jobs[name]

    def answer_of(self, request, fault, failure):
        self.stub.validate(request)
        text = json.dumps(request, sort_keys=True)
        if fault in (BROKEN, NO_TEMPERATURE):
            return 400, {"error": {"message": fault, "type": "invalid_request_error"}}
        if fault is not None or failure is not None:
            return fault, None
        self.paid.append(text)
        return 200, self.stub.reply(request, hashlib.sha256(text.encode()).hexdigest())

    def handle(self, handler, body):
        with self._lock:
            self.headers.append({k.lower(): value for k, value in handler.headers.items()})
        path = handler.path.partition("?")[0]
        if "batch" in path or "files" in path or path == "/put" or path.startswith("/results"):
            try:
                handler.respond(*self.serve_jobs(handler.command, path, body))
            except Exception as error:  # noqa: BLE001 - reported by the test
                self.problems.append(error)
                handler.respond(400, {}, json.dumps({"error": {"message": repr(error)}}).encode())
        else:
            super().handle(handler, body)

    def serve_jobs(self, method, path, body):
        if not self.has_jobs:
            return 404, {}, b'{"detail": "Not Found"}'
        if method == "POST":
            answer = self.jobs_api.submitted(method, path, body, self)
            headers, answer = answer if isinstance(answer, tuple) else ({}, answer)
            return 200, headers, json.dumps(answer).encode()
        if (name := self.jobs_api.file_of(path)) in self.files:
            return 200, {}, self.files[name].encode()
        job = self.jobs.get(self.jobs_api.job_of(path))
        if job is None:
            return 404, {}, b'{"error": {"message": "there is no such batch"}}'
        self.polled += 1
        job.polls -= 1
        return 200, {}, json.dumps(self.jobs_api.shown(job, self)).encode()

    def serve(self, method, path, body):
        status, headers, content = super().serve(method, path, body)
        if method == "POST" and status == 200:
            self.paid.append(json.dumps(json.loads(body), sort_keys=True))
        return status, headers, content
