"""A reply field is declared once; parser, schema, instructions, docs and page texts are generated from it."""

import inspect
import json

import pytest
from factories import states
from factories.documentation import blocks, read
from factories.replies import parse_reply, reply_schema
from factories.scans import as_scene, room
from msgspec import structs

from render_agent.dialogue import reply, wording
from render_agent.dialogue.moves import apply_action
from render_agent.dialogue.parsing import replies
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import FIELDS, Action, Malformed, ReplyForm, describe_action
from render_agent.dialogue.reply_protocol import ReplyProtocol, read_fields
from render_agent.dialogue.tools_protocol import ToolsProtocol, _tools
from render_agent.dialogue.wording import GENERAL_FILE, general, load_wording
from render_agent.environments.trl import _method
from render_agent.options import VIEW_TYPES
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace

STRIDE = reply._amount(
    "stride_meters",
    "forward",
    "stride",
    reply.Amount(3, "m", "stride", "ahead", "backwards"),
    "move",
)


@pytest.fixture
def new_field(tmp_path, monkeypatch):
    """Declare an additional field, with its sentence in the general wording."""
    file = tmp_path / "wording.yaml"
    text = GENERAL_FILE.read_text()
    file.write_text(
        text.replace("\nfields:\n", "\nfields:\n  stride: one stride of at most {limit}.\n")
    )
    monkeypatch.setattr(wording, "GENERAL_FILE", file)
    monkeypatch.setattr(reply, "FIELDS", (*FIELDS[:3], STRIDE, *FIELDS[3:]))
    general.cache_clear()
    yield
    monkeypatch.undo()
    general.cache_clear()
    _tools.cache_clear()


def test_each_action_attribute_has_one_declaration():
    attributes = [field.attribute for field in FIELDS]
    assert len(set(attributes)) == len(attributes) == len({field.name for field in FIELDS})
    assert {*attributes, "answer_text", "notes", "repaired"} == {*Action.__struct_fields__}


def test_moves_are_clamped_to_the_declared_limits():
    space, here = FreeSpace.of(as_scene(*room(size=(20, 20, 20)))), Camera((10.0, 10.0, 10.0))
    for field in FIELDS:
        if field.amount is not None:
            action = Action(**{field.attribute: field.amount.limit + 1})
            assert apply_action(action, here, space)[1].limits == (field.name,)


def test_new_field_is_parsed_requested_explained_and_described(new_field):
    assert parse_reply('{"stride_meters": "-1.5 m"}') == Action(forward=-1.5)
    assert "stride_meters" in parse_reply('{"stride_meters": "far"}').reason
    assert reply_schema()["properties"]["stride_meters"]["maximum"] == 3
    assert "stride_meters" not in reply_schema(())["properties"]
    instructions = Prompt(9, 75.0).instructions
    assert '"pitch_degrees": 0, "stride_meters": 0,\n "forward_meters": 0' in instructions
    assert "\n- stride_meters: one stride of at most 3.\n" in instructions
    assert "stride_meters" not in Prompt(9, 75.0, ()).instructions
    assert "stride 1.5 m backwards" in describe_action(Action(forward=-1.5))


@pytest.mark.parametrize("field", [*(f for f in FIELDS if f.moves), STRIDE], ids=lambda f: f.name)
def test_moving_field_is_a_move_and_a_parameter(new_field, monkeypatch, field):
    fields = FIELDS if field in FIELDS else (*FIELDS[:3], field, *FIELDS[3:])
    monkeypatch.setattr(reply, "FIELDS", fields)
    monkeypatch.setattr(replies, "_NAMES", frozenset(field.name for field in fields))
    value = [1, 2, 3] if field.name == "look_at" else 1
    _tools.cache_clear()
    action = parse_reply(json.dumps({field.name: value}))
    assert action.requests_move
    two = f'{{"view": "top"}} {json.dumps({field.name: value})}'
    assert len(parse_reply(two).notes) == 1
    tools = {
        tool["function"]["name"]: tool["function"]["parameters"]["properties"]
        for tool in ToolsProtocol().tools(ReplyForm(), None)
    }
    for tool in field.tools:
        assert field.name in tools[tool]
        method = _method(tool)
        assert field.name in inspect.signature(method).parameters
        assert f"    {field.name}: " in method.__doc__


def test_empty_sentence_removes_the_field(tmp_path):
    (tmp_path / "wording.yaml").write_text('fields:\n  view: ""\n  move: ""\n')
    prompt = Prompt(9, 75.0, wording=load_wording(tmp_path / "wording.yaml"))
    removed = {"view", "forward_meters", "left_meters", "z_delta_meters"}
    assert prompt.schema()["properties"].keys() == reply_schema()["properties"].keys() - removed
    assert not [name for name in removed if f'"{name}"' in prompt.instructions]
    assert '"look_at": null, ' in prompt.instructions
    assert '"answer": null, ' in prompt.instructions
    malformed = prompt.parse_reply('{"view": "top", "forward_meters": "far"}', states.question())
    assert "requests nothing" in malformed.reason


@pytest.mark.parametrize(
    ("action", "clauses"),
    [
        (Action(), []),
        (Action(rotation=-45, pitch=10), ["turn 45° right", "tilt 10° up"]),
        (Action(forward=0.5, left=-1, up=-0.25), ["move 0.5 m forward", "move 1 m to the right", "move 0.25 m down"]),
        (Action(forward=1, look_at=(1, 2.5, 0)), ["look at (1, 2.5, 0)", "move 1 m forward"]),
        (Action(view="top"), ["show a map"]),
        (Action(view="ego"), ["show ego"]),
        (Action(view=0), ["show view 0 again"]),
        (Action(measure=(reply.Place(1, 2), reply.Place(5, 6, view=0))),
         ["measure at (1, 2), pixel (5, 6) of view 0"]),
        (Action(answer="B", answer_text="(B)"), ["answer so far: B"]),
        (Action(answer="B", done=True), ["answer: B", "done"]),
        (Malformed("it is empty"), ["unreadable reply: it is empty"]),
        (Action(answer_text="maybe", done=True), ["unreadable answer: maybe", "done"]),
    ],
)  # fmt: skip
def test_describe_action_in_order_of_execution(action, clauses):
    assert describe_action(action) == clauses


def test_docs_have_every_field():
    page = "reference/reply-protocol.md"
    assert "<!-- generated: fields -->" in read(page)
    example = blocks(page, "json")[0]
    assert isinstance(parse_reply(example), Action)
    form = ReplyForm(image_size=(9, 9), asks_confidence=True)
    explained = [f.name for fields, _ in form.meanings() for f in fields]
    assert explained == [field.name for field in FIELDS if field.name != "reasoning"]
    assert all(name in read(page) for name in json.loads(example))


class Lines(ReplyProtocol):
    """Requests lines such as `view: top`."""

    def instructions(self, form):
        return "\n".join(f"{field.name}: …" for field in form.requested_fields)

    def read(self, text, question, form):
        pairs = [line.partition(": ") for line in text.splitlines()]
        return read_fields({name: value for name, _, value in pairs}, question, form)


def test_custom_reply_protocol_replaces_json():
    prompt = Prompt(9, 75.0, protocol=Lines())
    assert prompt.schema() is None
    assert "\nforward_meters: …\nleft_meters: …\n" in prompt.instructions
    assert "JSON" not in prompt.instructions
    choice = states.question(answer_form="letter", options=("A. left", "B. right"))
    action = prompt.parse_reply("forward_meters: 2 m\nview: top\nanswer: (B)", choice)
    assert action == Action(forward=2, view="top", answer="B", answer_text="(B)")
    malformed = prompt.parse_reply("view: kitchen", choice)
    assert isinstance(malformed, Malformed)
    assert ", ".join(VIEW_TYPES) in malformed.reason


def test_example_reply_equals_the_default_action():
    """Sending back the example requests the default view and nothing else."""
    form = ReplyForm(image_size=(640, 480))
    example = {field.name: field.example(form) for field in form.requested_fields}
    action = parse_reply(json.dumps(example), measures=True)
    assert structs.replace(action, reasoning="") == Action(view=VIEW_TYPES[0])
