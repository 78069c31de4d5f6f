"""Wire formats of the native APIs without a server: tool results, opaque blocks, errors and delays."""

import json
from types import SimpleNamespace

import pytest
from factories import states
from factories.models import load_random_image
from factories.native_apis import adapter
from factories.replies import reply_schema

from render_agent.dialogue import chat
from render_agent.dialogue.events import CONTENT_FILTER
from render_agent.dialogue.reply import ReplyForm
from render_agent.dialogue.tools_protocol import ToolsProtocol, call_id
from render_agent.engines.anthropic.messages_api import AnthropicOptions, MessagesApi
from render_agent.engines.engine import Reply, Request, limit_reply, merge_samples
from render_agent.engines.gemini.generate_content import GeminiOptions, GenerateContent
from render_agent.engines.openai.chat_completions import ChatCompletions, OpenAIOptions
from render_agent.engines.openai.responses import Responses
from render_agent.engines.remote.api_error import ApiError
from render_agent.engines.remote.endpoints import parse_endpoint
from render_agent.engines.remote.phrases import Fault
from render_agent.engines.remote.quirks import adapt, find_adaptation, system_in_user
from render_agent.engines.transformers.constrained_decoding import build_grammar
from render_agent.options import VIEW_TYPES
from render_agent.util.coroutines import run_in_thread

APIS = {
    "anthropic": MessagesApi("made", AnthropicOptions()),
    "gemini": GenerateContent("made", GeminiOptions()),
    "responses": Responses("made", OpenAIOptions()),
}
CALLS = {  # two calls, of which the reply parser reads one
    "anthropic": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
    ],
    "gemini": [
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "look", "args": {}}},
    ],
    "responses": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
    ],
}


def dialogue(blocks=(), *, with_call=True):
    first = {"id": call_id(0, 0), "type": "function"}
    call = {**first, "function": {"name": "look", "arguments": {"view": "top"}}}
    result = {"tool_call_id": call["id"], "name": "look"}
    reply = chat.message("assistant", chat.text("I look."))
    view = chat.message("user", chat.text("View 1:"), chat.image_piece("32x32-1.png"))
    return [
        chat.message("system", chat.text("Rules.")),
        chat.message("user", chat.text("Which?"), chat.image_piece("32x32-0.png")),
        {**reply, **({"tool_calls": [call]} if with_call else {}), "blocks": list(blocks)},
        *([{**chat.message("tool", chat.text("Done.")), **result}] if with_call else []),
        view,
    ]


def wire(name, messages):
    return APIS[name].messages(
        Request("q", 1, messages, load_random_image), lambda file: f"<{file}>"
    )


def tool_results(name, sent):
    """Return the results of calls in a request."""
    if name == "anthropic":
        return [b for b in sent[-1]["content"] if b["type"] == "tool_result"]
    if name == "gemini":
        return [p["function_response"] for p in sent[-1]["parts"] if "function_response" in p]
    return [item for item in sent if item.get("type") == "function_call_output"]


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("name", APIS)
def test_images_are_inside_the_tool_result(name, blocks):
    sent = wire(name, dialogue(CALLS[name] if blocks else ()))
    results = tool_results(name, sent)
    assert len(results) == (2 if blocks else 1), "every call needs a result"
    assert all(words in json.dumps(results[0]) for words in ("Done.", "View 1:", "<32x32-1.png>"))
    assert json.dumps(sent).count("32x32-1.png") == 1
    assert json.dumps(sent).count("View 1:") == 1


@pytest.mark.parametrize("name", APIS)
def test_unreadable_call_still_gets_its_result(name):
    sent = wire(name, dialogue(CALLS[name], with_call=False))
    results = tool_results(name, sent)
    assert len(results) == 2
    assert "<32x32-1.png>" in json.dumps(results[0])


@pytest.mark.parametrize("name", APIS)
def test_instructions_move_into_the_first_message(name):
    request = system_in_user(Request("q", 0, dialogue()[:2], load_random_image))
    (sent,) = APIS[name].messages(request, lambda file: f"<{file}>")
    assert "Rules." not in json.dumps(APIS[name].fields(request, 1, 0, None))
    assert all(words in json.dumps(sent) for words in ("Rules.", "Which?", "<32x32-0.png>"))


@pytest.mark.parametrize("name", APIS)
def test_blocks_are_sent_back_unchanged(name):
    text = json.dumps(wire(name, dialogue(CALLS[name])))
    assert all(json.dumps(block) in text for block in CALLS[name])


def test_images_follow_the_results_if_a_gemini_model_takes_none_inside():
    api = GenerateContent("made", GeminiOptions(result_images=False))
    messages = dialogue(CALLS["gemini"])
    sent = api.messages(Request("q", 1, messages, load_random_image), lambda file: f"<{file}>")
    kinds = [key for part in sent[-1]["parts"] for key in part]
    assert kinds == ["function_response", "function_response", "inline_data"]


@pytest.mark.parametrize(
    ("blocks", "sent"),
    [
        ([{"type": "thinking", "thinking": "cut", "signature": ""}], ["text"]),
        ([{"type": "redacted_thinking", "data": "x"}], ["redacted_thinking", "text"]),
        ([{"type": "text", "text": " "}, {"type": "text", "text": "a"}], ["text"]),
    ],
    ids=["cut off", "redacted", "empty text"],
)
def test_content_that_anthropic_rejects_is_not_sent(blocks, sent):
    reply = wire("anthropic", dialogue(blocks, with_call=False))[1]
    assert [block["type"] for block in reply["content"]] == sent


COMPLETE = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    ("blocks", "kinds"),
    [
        ([THOUGHT, {"type": "message", "content": []}], [None]),
        ([{"type": "message", "content": []}, THOUGHT, COMPLETE], ["reasoning", "function_call"]),
        ([THOUGHT, {**COMPLETE, "arguments": '{"view": '}], [None]),
        ([{**COMPLETE, "arguments": ""}], [None]),
        ([{**COMPLETE, "arguments": "[1]"}, COMPLETE], ["function_call"]),
    ],
    ids=["empty message", "before a call", "cut arguments", "no arguments", "list"],
)
def test_items_that_responses_rejects_are_not_sent(blocks, kinds):
    """An assistant message, which has no type, stands in for a reply of which nothing is left."""
    sent = wire("responses", dialogue(blocks, with_call=False))[1:]
    replies = [item for item in sent if item.get("role") != "user"]
    assert [i.get("type") for i in replies if i.get("type") != "function_call_output"] == kinds
    results = [item for item in sent if item.get("type") == "function_call_output"]
    assert len(results) == kinds.count("function_call")


def constrained(form):
    """Return a request with the schema of a question whose answer has this form."""
    options = ("A. left", "B. right", "C. back") if form == "letter" else ()
    schema = reply_schema(question=states.question(answer_form=form, options=options))
    return Request("q", 0, dialogue()[:2], load_random_image, schema=schema)


ADAPTERS = {**APIS, "chat": ChatCompletions("made", OpenAIOptions())}
FIELDS = {  # where each API has the schema, and the names from there to it
    "anthropic": ("output_config", "format", "schema"),
    "chat": ("response_format", "json_schema", "schema"),
    "gemini": ("response_json_schema",),
    "responses": ("text", "format", "schema"),
}
ANSWERS = {
    "letter": {"type": "string", "enum": ["A", "B", "C"]},
    "number": {"type": "number"},
    "text": {"type": "string"},
}


# According to the description of `response_json_schema` in Google's SDK; `enum` is "for strings and numbers".
GEMINI_KEYWORDS = set(
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf"
    " oneOf properties additionalProperties required propertyOrdering".split()
)


def check_gemini_schema(schema):
    """Check that a schema has only keywords and values that Gemini supports."""
    assert schema.keys() <= GEMINI_KEYWORDS
    assert all(isinstance(value, str | int | float) for value in schema.get("enum", ()))
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for part in [*inner, *([schema["items"]] if "items" in schema else [])]:
        check_gemini_schema(part)


def check_types(name, fields):
    """Validate a field with the schema against the types of the API's SDK."""
    if name == "anthropic":
        from anthropic import transform_schema
        from anthropic.types import OutputConfigParam

        adapter(OutputConfigParam).validate_python(fields["output_config"])
        # The SDK writes into a description what the API does not support.
        assert "description" not in json.dumps(
            transform_schema(fields["output_config"]["format"]["schema"])
        )
    elif name == "gemini":
        from google.genai.types import GenerateContentConfig

        GenerateContentConfig.model_validate(fields)
        check_gemini_schema(fields["response_json_schema"])
    elif name == "responses":
        from openai.types.responses import ResponseTextConfigParam

        adapter(ResponseTextConfigParam).validate_python(fields["text"])
        assert fields["text"]["format"]["strict"] is False
    else:
        from openai.types.shared_params import ResponseFormatJSONSchema

        adapter(ResponseFormatJSONSchema).validate_python(fields["response_format"])
        assert "strict" not in fields["response_format"]["json_schema"]


@pytest.mark.parametrize("form", ANSWERS)
@pytest.mark.parametrize("name", ADAPTERS)
def test_schema_permits_only_answers_to_the_question(name, form):
    fields = ADAPTERS[name].fields(
        constrained(form), 1, 0, parse_endpoint("http://localhost", None)
    )
    check_types(name, fields)
    schema = fields
    for key in FIELDS[name]:
        schema = schema[key]
    assert schema["properties"]["answer"] == {"anyOf": [ANSWERS[form], {"type": "null"}]}


def test_parameters_of_tools_have_only_what_gemini_supports():
    form = ReplyForm("free", VIEW_TYPES, None)
    tools = ToolsProtocol().tools(form, states.question(answer_form="number", options=()))
    request = Request("q", 0, dialogue()[:2], load_random_image, tools=tools)
    (sent,) = APIS["gemini"].fields(request, 1, 0, None)["tools"]
    for declaration in sent["function_declarations"]:
        check_gemini_schema(declaration["parameters_json_schema"])


@pytest.mark.parametrize(
    "words",
    [
        "unsupported keyword enum",
        "schema type 'null' is not allowed",
        'Unknown name "additionalProperties": Cannot find field.',
    ],
)
@pytest.mark.parametrize("name", ADAPTERS)
def test_rejected_schema_is_left_out_and_recorded(name, words):
    request, api = constrained("letter"), ADAPTERS[name]
    fields = api.fields(request, 1, 0, parse_endpoint("http://localhost", None))
    event = find_adaptation({"error": {"message": words}}, fields, request, api)
    assert event == f"omitted:{FIELDS[name][0]}"
    adapted, events = adapt([event], fields)
    assert events == [event]
    assert fields.keys() - adapted.keys() == {FIELDS[name][0]}


@pytest.mark.parametrize("form", ANSWERS)
def test_grammar_of_local_engines_permits_only_answers_to_the_question(form):
    """vLLM and transformers compile the same grammar."""
    from llguidance import LLMatcher, LLTokenizer

    tokenizer = LLTokenizer("byte")
    grammar = build_grammar(constrained(form).schema)
    accepted = []
    for answer in ("null", '"B"', '"D"', "2.5"):
        matcher = LLMatcher(tokenizer, grammar)
        text = f'{{"reasoning": "", "answer": {answer}, "done": true}}'
        if matcher.try_consume_tokens(tokenizer.tokenize_str(text)) == len(text):
            accepted.append(answer)
    permitted = {"letter": ['"B"'], "number": ["2.5"], "text": ['"B"', '"D"']}
    assert accepted == ["null", *permitted[form]]


def test_cache_breakpoints_follow_the_instructions_and_the_last_message():
    request = Request("q", 1, dialogue(CALLS["anthropic"]), load_random_image)
    sent = APIS["anthropic"].messages(request, lambda file: file)
    fields = APIS["anthropic"].fields(request, 1, 0, None)
    marked = [b for m in sent for b in m["content"] if "cache_control" in b]
    assert marked == [sent[-1]["content"][-1]]
    assert "cache_control" in fields["system"][-1]


@pytest.mark.parametrize(
    ("mode", "budget", "thinking"),
    [
        ("auto", None, None),
        ("on", None, {"type": "adaptive"}),
        ("on", 2048, {"type": "enabled", "budget_tokens": 2048}),
        ("auto", 2048, {"type": "enabled", "budget_tokens": 2048}),
        ("off", None, {"type": "disabled"}),
    ],
)
def test_thinking_mode_and_budget_are_sent_to_anthropic(mode, budget, thinking):
    api = MessagesApi("made", AnthropicOptions(), mode)
    request = Request("q", 0, dialogue(), load_random_image, thinking_budget=budget)
    fields = api.fields(request, 1, 0, None)
    assert fields.get("thinking") == thinking
    assert fields["max_tokens"] > (budget or 0)


def test_paused_reply_is_continued():
    pieces = iter([("pause_turn", "a"), ("pause_turn", "b"), ("end_turn", "c")])
    received = []

    async def create(messages, **_):
        received.append(messages)
        reason, text = next(pieces)
        content = [{"type": "text", "text": text}]
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 2}
        body = {"type": "message", "content": content, "stop_reason": reason, "usage": usage}
        return SimpleNamespace(http_response=SimpleNamespace(text=json.dumps(body)))

    raw = SimpleNamespace(with_raw_response=SimpleNamespace(create=create))
    sent = APIS["anthropic"].send(
        SimpleNamespace(messages=raw), [{"role": "user"}], {"max_tokens": 9}
    )
    reply = APIS["anthropic"].read(
        json.loads(run_in_thread(sent)), Request("q", 0, [], load_random_image)
    )
    assert reply.text == "abc"
    assert (reply.tokens.prompt, reply.tokens.cached, reply.tokens.reply) == (45, 15, 6)
    assert [len(messages) for messages in received] == [1, 2, 2]
    assert [block["text"] for block in received[-1][-1]["content"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "text", "event"),
    [
        ({"candidates": [{"finishReason": "PROHIBITED_CONTENT"}]}, "", CONTENT_FILTER),
        (
            {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "look("}]},
            "look(",
            None,
        ),
    ],
    ids=["reply", "malformed call"],
)
def test_gemini_reply_without_content_gives_its_text_and_event(body, text, event):
    body["usageMetadata"] = {"promptTokenCount": 3}
    reply = APIS["gemini"].read(body, Request("q", 0, [], load_random_image))
    assert (reply.text, reply.events) == (text, (event,) if event else ())


def test_prompt_that_gemini_blocks_is_no_reply():
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    with pytest.raises(ApiError) as caught:
        APIS["gemini"].read(body, Request("q", 0, [], load_random_image))
    assert caught.value.fault is Fault.FILTERED


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("anthropic", {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "pause_turn"}),
        ("anthropic", {"type": "message", "content": [], "stop_reason": "tool_use"}),
        ("gemini", {"candidates": [{"finishReason": "MISSING_THOUGHT_SIGNATURE"}]}),
        ("responses", {"output": [], "status": "queued"}),
    ],
)  # fmt: skip
def test_reply_that_the_server_did_not_complete_is_none(name, body):
    assert APIS[name].read(body, Request("q", 0, [], load_random_image)) is None


@pytest.mark.parametrize(
    "body", [None, [], 3, "x", {}, {"content": 3}, {"candidates": [3]}], ids=str
)
@pytest.mark.parametrize("name", APIS)
def test_body_of_another_form_is_not_a_reply(name, body):
    assert APIS[name].read(body, Request("q", 0, [], load_random_image)) is None


DAILY = "Quota exceeded for quotaId GenerateRequestsPerDayPerProjectPerModel. Please retry in 20s"
MINUTE = "You exceeded your current quota, please check your plan and billing details. Please retry in 34.5s."


@pytest.mark.parametrize(
    ("status", "text", "headers", "fault"),
    [
        (429, "slow down", {}, Fault.RATE_LIMITED),
        (429, MINUTE, {}, Fault.RATE_LIMITED),
        (429, MINUTE.partition(" Please")[0], {}, Fault.EXHAUSTED),
        (429, DAILY, {}, Fault.EXHAUSTED),
        (429, '{"error": {"code": "insufficient_quota"}}', {"retry-after": "1"}, Fault.EXHAUSTED),
        (429, "slow down", {"retry-after": "86400"}, Fault.EXHAUSTED),
        (402, "pay", {}, Fault.EXHAUSTED),
        (400, "Your credit balance is too low", {}, Fault.EXHAUSTED),
        (503, "busy", {}, Fault.OVERLOADED),
        (529, "overloaded_error", {}, Fault.OVERLOADED),
        (500, "oops", {}, Fault.TEMPORARY),
        (500, "oops", {"x-should-retry": "false"}, Fault.REQUEST),
        (401, "invalid x-api-key", {}, Fault.REJECTED),
        (404, "model: made", {}, Fault.REJECTED),
        (400, "GenerateContentRequest.model: unexpected model name format", {}, Fault.REJECTED),
        (400, "the image was not found", {}, Fault.REQUEST),
        (400, "invalid model output", {}, Fault.REQUEST),
        (400, "prompt is too long", {}, Fault.TOO_LONG),
        (400, "max_tokens is too large: 32768", {}, Fault.REQUEST),
        (413, "request_too_large", {}, Fault.TOO_LONG),
        (429, "Request too large for gpt on tokens per min (TPM)", {}, Fault.TOO_LONG),
        (429, "Too many input tokens per minute: reduce the prompt length", {}, Fault.RATE_LIMITED),
        (429, "Please try again in 2h", {}, Fault.EXHAUSTED),
        (400, "blocked by content filter", {}, Fault.FILTERED),
    ],
    ids=str,
)
def test_errors_are_classified(status, text, headers, fault):
    assert ApiError("", status, text, headers).fault is fault


@pytest.mark.parametrize(
    ("text", "headers", "seconds"),
    [
        ("", {}, None),
        ("", {"retry-after": "7"}, 7),
        ("", {"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ("", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ("", {"retry-after": "soon"}, None),
        ("", {"retry-after": "inf"}, None),
        ('{"retryDelay": "34s"}', {}, 34),
        (MINUTE, {}, 34.5),
        ("Please try again in 7.66s.", {}, 7.66),
        ("Please try again in 120ms.", {}, 0.12),
        ("Rate limit reached. Please try again in 1h2m3.5s", {}, 3723.5),
        ("try again in 2 minutes", {}, 120),
        ("try again in a while", {}, None),
    ],
)
def test_delay_is_read_from_headers_or_text(text, headers, seconds):
    assert ApiError("", 429, text, headers).retry_after == seconds


def test_error_about_images_in_results_names_the_option():
    text = "Unable to submit request because `function_response.parts` is not supported for this model."
    error = ApiError("", 400, text)
    assert error.fault is Fault.REJECTED
    assert "result_images=false" in error.describe(parse_endpoint("http://localhost", None))


def test_blocks_belong_to_their_samples():
    request = Request("q", 0, [], load_random_image, num_samples=4, temperature=1.0)
    parts = [
        Reply(samples=("a",), blocks=(({"n": 1},),)),
        Reply(samples=("b", "c")),
        Reply(samples=("d",), blocks=(({"n": 2},),)),
    ]
    merged = merge_samples(request, parts, 1.0)
    assert merged.blocks == (({"n": 1},), (), (), ({"n": 2},))


def test_api_keys_in_blocks_are_redacted(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    reply = Reply(samples=("x",), blocks=(({"text": "key sk-ant-0123456789"},),))
    limited = limit_reply(reply, Request("q", 0, [], load_random_image))
    assert limited.blocks == (({"text": "key [key]"},),)
