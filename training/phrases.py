"""Recurring text in dialogues: fixed prompt texts, and the pieces of replies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import FIELDS
from render_agent.dialogue.wording import placeholders
from render_agent.options import VIEW_TYPES
from render_agent_lab.room_generator.furniture.catalogue import CATALOGUE
from render_agent_lab.room_generator.questions.directions import EASY, HARD, MEDIUM, QUADRANTS
from render_agent_lab.room_generator.questions.routes import FILL, TEXT, TURNS
from training.wording import small_wording

LABELS = tuple(sorted({kind.label for kind in CATALOGUE.values()}))  # object labels

MAX_PHRASE_CHARS = (
    600  # maximum characters per phrase; the grammar guide rejects tokens of 1,024 bytes
)

MIN_PHRASE_CHARS = 12  # minimum characters per phrase; shorter ones are left to the merges

HOLE = "\0"  # placeholder for text that varies between dialogues

PLACEHOLDER_NUMBERS = (
    987654,
    456789,
)  # turns and field of view in degrees that occur in no fixed text

# Question texts with holes.
QUESTIONS = (
    "How many \0(s) are in this room?",
    "What is the length of the longest dimension (length, width, or height) of the \0, measured in"
    " centimeters?",
    "What is the size of this room (in square meters)? \nIf multiple rooms are shown, estimate the"
    " size of the combined space.",
    "Measuring from the closest point of each object, what is the distance between the \0 and the \0"
    " (in meters)?",
    "Measuring from the closest point of each object, which of these objects (\0) is the closest to"
    " the \0?",
    *(text.format(HOLE, HOLE, HOLE) for text in (EASY, MEDIUM, HARD)),
    TEXT.format(start=HOLE, facing=HOLE, goal=HOLE, actions=HOLE),
)

# Errors in replies: keys of texts that appear whole in dialogues, and parts of other texts.
ERROR_TEXTS = (
    "feedback.unreadable",
    "feedback.cut_off",
    "it asks for nothing: give a move, look_at, view, answer or done",
    "reply.no_object",
    "reply.cut_off",
    "its JSON object cannot be read",
    "feedback.done_without_answer",
    "feedback.done_without_moves",
    "feedback.all_shown",
    "feedback.nothing_shown",
    "feedback.no_such_view",
    'The view "\0" is not to be had: ask for ',
)

# The most frequent parts of move feedback. Keep in sync with the small model's wording.
MOVE_FEEDBACK = (
    "Turned to the point (",
    "; then turned to the point again from there",
    "Rotation and pitch were left out, as look_at was given",
    "pitch stays within ±60°",
    ", so the point is above the middle of the picture",
    ", so the point is below the middle of the picture",
    "; the camera stands at that very point",
    "could not move forward",
    ": a wall is ahead",
    ": furniture is ahead",
    ": a wall is in the way",
    ": furniture is in the way",
    ": the end of the scan is ahead",
    "was limited to ",
)

AMOUNT_FIELDS = [field.name for field in FIELDS if field.amount is not None]


def phrases() -> list[str]:
    """Return the fixed texts that become one token each, in a fixed order.

    None of them is part of a reply.
    """
    unique: dict[str, None] = {}
    for text in _blocks(_instructions()):
        unique.update(dict.fromkeys(_cut(text)))
    for text in (*QUESTIONS, *dialogue_texts(), ". Go forward until the "):
        unique.update(dict.fromkeys(text.split(HOLE)))
    return [text for text in unique if len(text) >= MIN_PHRASE_CHARS]


def whole_pieces() -> list[str]:
    """Return the texts that no merge may split, longest first: the skeleton of replies, and short prompt texts."""
    skeleton = [
        '{"reasoning": "',
        *(f'{before}, "{name}": ' for name in AMOUNT_FIELDS for before in ('"', "")),
        *(f'{before}, "look_at": [' for before in ('"', "")),
        *(f'{before}, "view": "' for before in ('"', "", "]")),
        *(f'{before}, "answer": null, "done": false}}' for before in ('"', "", "]")),
        *(f'{before}, "answer": "' for before in ('"', "", "]")),
        *(f'{before}, "done": {truth}}}' for before in ('"', "") for truth in ("true", "false")),
        '", "answer": ',
        ', "view": ',
        '"}',
    ]
    short = [", ", "; ", ": ", ". ", " x ", " ?", "(s)", "\n\n", FILL, "° left", "° right"]
    short += [
        "system",
        "user",
        "assistant",
        "Tilted ",
        "tilted ",
        "° up",
        "° down",
        ", pitch is now ",
    ]
    short += [f"View {HOLE} ({kind})".split(HOLE)[1] for kind in VIEW_TYPES]
    short += ["View ", "Turn ", "Turned ", "], yaw ", ", pitch ", "\n\nTurn ", " of ", " and the "]
    short += ["How many ", ", is the ", "\nOptions:\n"]
    short += ["moved ", " m forward", " m back", " m to the left", " m to the right", " m up"]
    sides = [*QUADRANTS, *TURNS]
    return sorted({*skeleton, *short, *sides}, key=lambda text: (-len(text), text))


def numbers() -> list[str]:
    """Return the parts of numbers in replies that become tokens: metres before and after the point, and bearings."""
    metres = [f" {whole}.0" for whole in ("-0", "-1", *range(25))]
    tenths = [f"0.{tenth}" for tenth in range(10)]
    return [*metres, *tenths, *(f" {bearing}," for bearing in range(0, 360, 5))]


def texts() -> Iterator[tuple[str, int]]:
    """Yield the texts to learn merges from, each with its count."""
    for piece in whole_pieces():
        yield piece, 100
    for number in numbers():
        yield number, 100
    for label in LABELS:
        yield label, 100
        yield f" {label}", 100
    words = "left right back front seen apart size room facing ego top around forward A B C D"
    for word in words.split():
        yield word, 100
        yield f" {word}", 100
    for text in _instructions():
        yield text.replace(HOLE, " "), 1
    for text in (*QUESTIONS, *dialogue_texts()):
        yield text.replace(HOLE, " "), 6


def dialogue_texts() -> list[str]:
    """Return the texts of a dialogue other than instructions and questions, with holes."""
    wording = small_wording()

    def text_with_holes(key: str, **values: str) -> str:
        holes = dict.fromkeys(placeholders(wording.templates[key]), HOLE)
        return wording(key, **holes | values)

    letter_sets = (("A", "B"), ("A", "B", "C"), ("A", "B", "C", "D"))
    forms = [answer_form("letter", letters, wording) for letters in letter_sets]
    return [
        *("\n" + text_with_holes("question.answer", form=form) for form in forms),
        "\n" + text_with_holes("question.answer_number", form=text_with_holes("question.number")),
        "\n" + text_with_holes("question.answer", form=text_with_holes("question.text")),
        ". You stand at [",
        ", in place of ",
        text_with_holes("turn.last"),
        "The camera did not move.",
        *(text_with_holes(text) if text in wording.templates else text for text in ERROR_TEXTS),
        *MOVE_FEEDBACK,
    ]


def _instructions() -> list[str]:
    """Return the instructions of every kind of run, with holes for the number of turns and the field of view."""
    (turns, field), wording = PLACEHOLDER_NUMBERS, small_wording()
    ordered = [order for count in (1, 2, 3) for order in permutations(VIEW_TYPES, count)]
    unique: dict[str, None] = {}
    for max_turns in (turns, 1):
        prompts = [Prompt(max_turns, field, (), wording=wording)]
        prompts += [
            Prompt(max_turns, field, kinds, num_shown, wording=wording)
            for kinds in ordered
            for num_shown in (0, 1, 4)
        ]
        for prompt in prompts:
            text = prompt.instructions.replace(str(turns), HOLE).replace(f"{field:g}", HOLE)
            unique[text] = None
    return list(unique)


def _blocks(texts: list[str]) -> list[str]:
    """Split the texts into runs of lines that always occur together, with line breaks.

    A line break that does not always follow a line is not part of its run.
    """
    lines = [text.splitlines(keepends=True) for text in texts]
    after: dict[str, set[str]] = {}
    before: dict[str, set[str]] = {}
    for text in lines:
        for line, next_line in zip(["", *text], [*text, ""], strict=True):
            after.setdefault(line, set()).add(next_line)
            before.setdefault(next_line, set()).add(line)
    unique: dict[str, None] = {}
    for text in lines:
        run = ""
        for line, next_line in zip(text, [*text[1:], ""], strict=True):
            run += line
            is_inseparable = after[line] == {next_line} and before[next_line] == {line}
            if not is_inseparable or len(run) + len(next_line) > MAX_PHRASE_CHARS:
                unique[run.strip("\n")] = None
                run = ""
    return list(unique)


def _cut(text: str) -> list[str]:
    return [part for part in text.split(HOLE) if part.strip()]
