"""What the words of servers mean: one table each for statuses, errors and finish reasons.

A new phrase is a new row. What is in no table reaches the user as the server's own sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

MAX_ERROR_CHARS = 10_000  # beginning of an error that is searched for phrases


class Fault(Enum):
    """What an error means."""

    RATE_LIMITED = "rate limit"
    OVERLOADED = "overloaded"
    TEMPORARY = "temporary fault"
    EXHAUSTED = "quota exhausted"
    REJECTED = "server unusable"  # wrong key, wrong address, no images: no request can succeed
    FILTERED = "content filter"  # the filter rejected the prompt
    TOO_LONG = "prompt too long"  # for the model's context window, or too many images
    REQUEST = "request rejected"  # another fault of this request alone

    @property
    def is_temporary(self) -> bool:
        """True if the same request may succeed later."""
        return self in (Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.TEMPORARY)

    @property
    def is_final(self) -> bool:
        """True if no other request to the server can succeed."""
        return self in (Fault.EXHAUSTED, Fault.REJECTED)


# Where the SDKs of OpenAI and Anthropic raise a class of their own, its name follows.
STATUSES: Mapping[int, Fault] = {
    400: Fault.REQUEST,  # BadRequestError
    401: Fault.REJECTED,  # AuthenticationError
    402: Fault.EXHAUSTED,
    403: Fault.REJECTED,  # PermissionDeniedError
    404: Fault.REJECTED,  # NotFoundError
    408: Fault.TEMPORARY,
    409: Fault.TEMPORARY,  # ConflictError
    413: Fault.TOO_LONG,  # RequestTooLargeError
    422: Fault.REQUEST,  # UnprocessableEntityError
    424: Fault.TEMPORARY,  # Hugging Face: the model behind the server failed
    425: Fault.TEMPORARY,
    429: Fault.RATE_LIMITED,  # RateLimitError
    498: Fault.TEMPORARY,  # Groq: capacity exceeded
    499: Fault.TEMPORARY,
    500: Fault.TEMPORARY,  # InternalServerError
    503: Fault.OVERLOADED,  # ServiceUnavailableError
    529: Fault.OVERLOADED,  # OverloadedError
}


def fault_of_status(status: int) -> Fault:
    """Return what a status means without the words of the error."""
    if status >= 500:
        return STATUSES.get(status, Fault.TEMPORARY)
    return STATUSES.get(status, Fault.REJECTED if status < 400 else Fault.REQUEST)


NOT = r"(?:not|n't|un)[ -]?"
CANNOT = rf"(?:in \w+ )?(?:is |are )?{NOT}(?:currently |yet )?(?:support|enabled|available|allowed|accepted)"
IMAGES = r"(?:images?|image[_ ]urls?|vision|multi-?modal)"


class Meaning(Enum):
    """What an error says: the fault, the advice, and patterns of the phrases. The first row that matches counts."""

    FILTERED = (
        Fault.FILTERED,
        "",
        "content.?filter",
        "content management policy",
        "ResponsibleAIPolicy",
        "data_inspection_failed",
        "moderation",
        "invalid_prompt",
        "blocked (?:by|due to)",
        "safety (?:system|settings|policy)",
    )
    NO_IMAGES = (
        Fault.REJECTED,
        "choose a --model that accepts images",
        rf"\b{IMAGES}\W{{0,3}}(?:inputs?|contents?|urls?|parts?|blocks?)?\W{{0,3}}{CANNOT}",
        rf"(?:not|n't) (?:support|accept|handle|process|read|take)\w* (?:\w+ ){{0,2}}\W?{IMAGES}",
        rf"{IMAGES} (?:is|are) only supported (?:by|in|with) (?:certain|some|other)",
        r"only (?:support|accept|handle)s? (?:plain )?text(?: inputs?| messages?| content)?\b(?!,| or| and| up)",
        "is a text.only model",
        r"unknown variant \W{0,2}image",  # DeepSeek
        r"content\W{1,5}(?:value )?must be a string",  # Groq
        "no endpoints? found that support image",  # OpenRouter
        "unsupported content type.{0,20}image_url",
        "not an? (?:multi-?modal|vision)",
        "at most 0 (?:image|multi)",  # vLLM
        "missing data required for image input",  # Ollama
    )
    NO_TOOLS = (
        Fault.REJECTED,
        "pass --reply-protocol json",
        "(?:not|n't) support (?:the )?(?:use of )?(?:tool|function)",
        "support tool use",  # OpenRouter: no endpoints found that
        "tools param requires",  # llama.cpp
        "enable-auto-tool-choice",  # vLLM
        rf"(?:tool|function)s?[ _]?(?:use|choice|calling|calls?)?\W{{1,3}}(?:param\w* )?{CANNOT}",
    )
    THOUGHT_MISSING = (  # thinking has to be sent back with tool calls in another form
        Fault.REJECTED,
        "pass --reply-protocol json",
        r"missing (?:an? )?\W?(?:thought_?signature|reasoning_content)",
        r"reasoning_content\b.{0,60}(?:missing|passed back|required)",
    )
    NO_RESULT_IMAGES = (  # models before Gemini 3
        Fault.REJECTED,
        "pass --engine-option result_images=false",
        r"function_?response\.parts\W+is not supported",
    )
    NO_MODEL = (
        Fault.REJECTED,
        "check --model",
        r"\bmodels?\W{1,3}(?:\S{1,100} )?(?:(?:does not|doesn't|not) exist|(?:is )?not found)",
        "not a valid model",
        "unexpected model name",
        r"(?:invalid|unknown|no such) model(?: name\b| id\b|[:\"'.]|$)",
    )
    REQUEST_TOO_LARGE = (Fault.TOO_LONG, "", "request.?too.?large")
    TOO_LONG = (
        Fault.TOO_LONG,
        "",
        "context.?(?:length|window|size|limit)",
        "context the overflows",  # LM Studio
        "(?:model|prompt|input|max(?:imum)?) length",
        r"(?:prompt|input|request|content|entity|messages?|payload|body)\b[\w ()]{0,40}\btoo (?:long|large)\b",
        "input token count",
        r"maximum (?:allowed )?number of (?:input )?tokens",
        "reduce the (?:length|size)",
        r"`?inputs`? (?:tokens )?.{0,30}must (?:be|have) (?:<=|less)",  # TGI
        "too many (?:input |prompt )?tokens",
        r"exceed\w* (?:the )?(?:model'?s? |input |prompt )?token limit",  # Moonshot
        r"(?:payload|request|prompt|input|body)\b[\w ]{0,20} exceed\w* (?:the )?[\w ]{0,20}(?:limit|size|maximum)",
        "too many images?",
        "at most [1-9]\\d* (?:image|multi)",
        r"\bimages?\b[^.]{0,30} exceed",
        r"maximum (?:number )?of (?:\d+ )?(?:images|multi-?modal)",
    )
    WRONG_KEY = (
        Fault.REJECTED,
        "",
        "api.?key.{0,10}(?:not valid|invalid|expired)",
        "(?:invalid|incorrect).?api.?key",
    )
    EXHAUSTED = (  # no request can be paid for, or the quota of the day is used up
        Fault.EXHAUSTED,
        "",
        "insufficient_quota",
        "billing_(?:hard_limit|not_active)",
        "credit balance",
        "spend(?:ing)? (?:limit|cap)",
        "PerDay",  # Gemini
        "insufficient (?:credit|balance|fund)",
        "payment required",
    )
    EXHAUSTED_UNLESS_TIMED = (  # also said of rate limits, which state when to send the request again
        Fault.EXHAUSTED,
        "",
        "exceeded your (?:current )?quota",
        "check your .{0,12}billing",
    )
    NO_SYSTEM_ROLE = (
        Fault.REQUEST,
        "",
        r"system (?:role|message|prompt|instruction)s?\b[\w '\"]{0,40}(?:not|n't|un)[ -]?(?:supported?|allowed|enabled)",
        "developer instruction is not enabled",
        "(?:not|n't) support (?:the )?[\"'`]?system",
        "conversation roles must alternate",
        "roles must alternate user",
        r"(?:invalid|unsupported|unknown) (?:value|role|variant)\W{1,4}system\b",
    )

    def __init__(self, fault: Fault, advice: str, *patterns: str) -> None:
        self.fault, self.advice, self.pattern = fault, advice, "|".join(patterns)

    def is_in(self, text: str) -> bool:
        """True if the beginning of a text has one of the phrases."""
        return finds(self.pattern, text)


def finds(pattern: str, text: str) -> bool:
    """True if the beginning of a text matches; bounded, because no text may take long."""
    return re.search(pattern, text[:MAX_ERROR_CHARS], re.IGNORECASE) is not None


# Errors that repeat with every request, although some servers give them the status of a temporary fault.
LASTING = (Meaning.NO_IMAGES, Meaning.NO_SYSTEM_ROLE, Meaning.NO_TOOLS, Meaning.TOO_LONG)

# Start (a pattern) and end of a model's reply that an error quotes because the server could not parse it.
QUOTES = (
    ("error parsing tool call: raw='", "', err="),  # Ollama
    (r"\Afailed to parse input at pos \d{1,9}: ", ""),  # llama.cpp
)

# Status of an error without a numeric code, by words in its code, status, type or message.
STATUS_WORDS = (
    (429, "rate.?limit|too.?many.?requests|resource.?exhausted|throttl"),
    (400, Meaning.TOO_LONG.pattern),
    (529, "overloaded_error"),
    (503, "overloaded|unavailable|capacity"),
    (401, "unauthenticated|authentication|unauthorized|invalid.?api.?key|incorrect.?api.?key"),
    (403, "permission|forbidden"),
    (404, "not.?found|no endpoints? found"),
    (408, "deadline.?exceeded|timed?.?out"),
    (400, "invalid|unsupported|not supported|bad.?request|context.?length|content.?filter"),
)


def status_in_words(text: str) -> int | None:
    """Return the status that the beginning of a text means; None if it has none of the words."""
    return next((status for status, words in STATUS_WORDS if finds(words, text)), None)


class End(Enum):
    """How a reply ended."""

    LENGTH = "token limit"
    CONTEXT = "end of the context window"
    FILTER = "content filter"
    FAULT = "the server could not complete the reply"
    FAULT_IF_EMPTY = "the same, unless the reply has text"


# Finish reasons in lower case; "" for none. Any other ends a reply that is complete.
FINISH_REASONS: Mapping[str, End] = {
    reason: end
    for end, reasons in {
        End.LENGTH: "length max_tokens max_output_tokens max_length",
        End.CONTEXT: "model_length model_context_window_exceeded context_window_exceeded context_length_exceeded",
        End.FILTER: "content_filter content_filtered safety recitation prohibited_content blocklist spii image_safety"
        " image_recitation image_prohibited_content model_armor refusal sensitive guardrail_intervened",
        End.FAULT: "error abort aborted cancelled canceled failed network_error server_error timeout"
        " insufficient_system_resource pause_turn missing_thought_signature",
        # The last ones announce calls that the server did not parse; Ollama sends `load` and `unload`.
        End.FAULT_IF_EMPTY: "other unknown finish_reason_unspecified incomplete in_progress queued load unload"
        " tool_calls function_call tool_use",
    }.items()
    for reason in reasons.split()
} | {"": End.FAULT_IF_EMPTY}
CUT_OFF = "aborted"  # finish reason of event streams that end early
