"""Training arrays contain exactly the tokens an engine feeds, and the images as the model sees them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from factories.models import random_image
from factories.runs import make_questions, play
from PIL import Image

from render_agent.cli.main import cli
from render_agent.dialogue.chat import assistant
from render_agent.engines.engine import Request
from render_agent.engines.families.images import QwenImages
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.engines.transformers.model.inputs import PromptBuilder
from render_agent.render.png import encode_png as png
from render_agent.runs.read import RunData
from training.dialogue_file import DIALOGUES_FILE, IMAGES_FILE, load_dialogues
from training.encode import Encoder, encode_files
from training.image_file import BYTES, ImageFile, decode_image, load_images
from training.processor import HEIGHT, IMAGE_TOKENS, WIDTH, small_processor
from training.tokenizer import small_tokenizer

STEP = json.dumps({"reasoning": "box ?", "rotation_angle_degrees": 40, "forward_meters": 0.3})
ANSWER = json.dumps({"reasoning": "box 1.2 3.4. 1 seen", "answer": "B", "done": True})
REPLIES = {
    "0": [STEP, "<think>Three, I think.</think>\n" + json.dumps({"answer": 3, "done": True})],
    "1": [STEP, "no JSON: <|im_end|> <|image_pad|> is no token here", "", "é – 漢", ANSWER],
    "2": [json.dumps({"view": "around"}), json.dumps({"view": 0}), STEP, ANSWER.replace("B", "3")],
    "3": [ANSWER],
}


def is_readable(reply):
    """Return True if a reply is readable; unreadable ones are not learned."""
    return "{" in reply


@pytest.fixture(scope="module")
def processor():
    return small_processor(small_tokenizer())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    engine = ScriptedEngine(ReplayPolicy(REPLIES), 64)
    path, _ = play(folder, make_questions(folder, 4), engine, image_size=(320, 240))
    return path


@pytest.fixture(scope="module")
def messages(run):
    file = run.parent / "messages.jsonl"
    arguments = ["export", str(run), "--format", "messages", "--to", str(file)]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    return file


@pytest.fixture(scope="module")
def encoded(messages, processor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoded")
    encode_files(folder, [messages], processor)
    return folder


@pytest.fixture(scope="module")
def states(run):
    return RunData(run).states


def tokens_of(dialogues, number):
    start, end = dialogues.offsets[number : number + 2]
    return dialogues.ids[start:end].tolist(), dialogues.learned[start:end].tolist()


def image_loader(run):
    return lambda file: Image.open(run / file).convert("RGB")


def test_tokens_match_those_of_the_engine(run, encoded, states, processor):
    """The encoded dialogue begins with every prompt of the engine and its reply."""
    dialogues = load_dialogues(encoded / DIALOGUES_FILE)
    builder = PromptBuilder(processor, "qwen3_vl")
    end = processor.tokenizer.eos_token_id
    assert [len(state.turns) for state in states] == [2, 5, 4, 1]
    for number, state in enumerate(states):
        ids, learned = tokens_of(dialogues, number)
        expected_mask = []
        messages = []
        for turn in state.turns:
            messages += turn.messages
            request = Request(state.id, turn.number, messages, image_loader(run))
            prompt = list(builder.prepare(request).ids)
            reply = assistant(turn.reply)
            messages.append(reply)
            reply_ids = processor.tokenizer(reply["content"][0]["text"])["input_ids"]
            assert ids[: len(prompt) + len(reply_ids) + 1] == [*prompt, *reply_ids, end]
            expected_mask += [False] * (len(prompt) - len(expected_mask))
            expected_mask += [is_readable(turn.reply)] * (len(reply_ids) + 1)
        assert learned == expected_mask + [False] * (len(ids) - len(expected_mask))
        assert processor.tokenizer.decode(ids[len(expected_mask) :]) == "\n"


def test_tokens_match_those_of_the_processor(run, encoded, states, processor):
    dialogues = load_dialogues(encoded / DIALOGUES_FILE)
    for number, state in enumerate(states):
        messages = [
            {
                **entry,
                "content": [
                    {"type": "image", "image": image_loader(run)(piece["image"])}
                    if "image" in piece
                    else piece
                    for piece in entry["content"]
                ],
            }
            for entry in state.dialogue
        ]
        processed = processor.apply_chat_template(messages, tokenize=True, return_dict=True)
        (ids,) = processed["input_ids"]
        assert tokens_of(dialogues, number)[0] == list(ids)


def test_images_match_the_turns_and_are_deduplicated(run, encoded, states, processor):
    dialogues = load_dialogues(encoded / DIALOGUES_FILE)
    stored = load_images(encoded / IMAGES_FILE)
    resize = QwenImages(processor, {}).resize
    for number, state in enumerate(states):
        start, end = dialogues.picture_offsets[number : number + 2]
        rows = dialogues.pictures[start:end]
        files = [
            piece["image"]
            for entry in state.dialogue
            for piece in entry["content"]
            if "image" in piece
        ]
        assert len(rows) == len(files) > 0
        for row, file in zip(rows, files, strict=True):
            assert np.array_equal(stored[row], np.asarray(resize(image_loader(run)(file))))
        ids, _ = tokens_of(dialogues, number)
        placeholder = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        assert ids.count(placeholder) == IMAGE_TOKENS * len(files)
    contents = {picture.tobytes() for picture in stored}
    assert len(contents) == len(stored) == len(dialogues.hashes) < len(dialogues.pictures)


def test_dialogues_have_metadata(encoded):
    dialogues = load_dialogues(encoded / DIALOGUES_FILE)
    assert dialogues.questions.tolist() == ["0", "1", "2", "3"]
    assert set(dialogues.views) == {"free"}
    assert set(dialogues.shown) == {"real"}
    assert dialogues.types[1] == "object_rel_direction_easy"
    assert dialogues.scores.tolist()[:2] == [1.0, 1.0]


def test_new_files_are_added_and_encoded_ones_skipped(messages, encoded, processor, tmp_path):
    lines = messages.read_text("utf-8").splitlines(keepends=True)
    parts = []
    for name, part in ("a", lines[:2]), ("b", lines[2:]):
        parts.append(messages.with_name(f"{name}.jsonl"))
        parts[-1].write_text("".join(part), "utf-8")
    encode_files(tmp_path, parts[:1], processor)
    # Leftovers of an interrupted run after the last image are overwritten.
    with (tmp_path / IMAGES_FILE).open("ab") as stream:
        stream.write(bytes(BYTES + 7))
    encode_files(tmp_path, parts, processor)
    encode_files(tmp_path, parts[1:], processor)
    merged, expected = (load_dialogues(folder / DIALOGUES_FILE) for folder in (tmp_path, encoded))
    for name in ("ids", "learned", "offsets", "pictures", "picture_offsets", "hashes", "questions"):
        assert np.array_equal(getattr(merged, name), getattr(expected, name)), name
    assert (tmp_path / IMAGES_FILE).read_bytes() == (encoded / IMAGES_FILE).read_bytes()


def test_resizing_matches_the_processor(processor):
    picture = random_image(320, 240)
    ours = decode_image(png(np.asarray(picture))).astype(float)
    processed = processor.image_processor(images=[picture], return_tensors="np")["pixel_values"]
    rows, columns = HEIGHT // 32, WIDTH // 32
    patches = processed.reshape(rows, columns, 2, 2, 3, 2, 16, 16)[:, :, :, :, :, 0]
    theirs = patches.transpose(0, 2, 5, 1, 3, 6, 4).reshape(HEIGHT, WIDTH, 3) * 127.5 + 127.5
    assert np.abs(theirs - ours).max() < 1.001


def test_images_with_another_aspect_ratio_are_rejected():
    with pytest.raises(ValueError, match="320 x 320"):
        decode_image(png(np.zeros((320, 320, 3), np.uint8)))


def test_image_file_can_be_appended_to(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (12, HEIGHT, WIDTH, 3), np.uint8)
    with ImageFile(tmp_path / "p.npy") as file:
        assert [file.append(picture) for picture in pictures[:2]] == [0, 1]
    with ImageFile(tmp_path / "p.npy", 2) as file:
        assert [file.append(picture) for picture in pictures[2:]] == list(range(2, 12))
    assert np.array_equal(np.load(tmp_path / "p.npy"), pictures)
    assert np.array_equal(load_images(tmp_path / "p.npy"), pictures)


def test_only_listed_messages_are_learned(processor):
    question = {"role": "user", "content": [{"type": "text", "text": "How far?"}]}
    replies = [assistant(json.dumps({"answer": answer, "done": True})) for answer in "1234"]
    dialogue = [entry for reply in replies for entry in (question, reply)]
    encoded = Encoder(processor).encode([dialogue, dialogue], learned_messages=[[3, 7], None])
    decode = processor.tokenizer.decode
    texts = [entry["content"][0]["text"] + "<|im_end|>" for entry in replies]
    assert [decode(ids[learned]) for ids, learned in encoded] == [
        texts[1] + texts[3],
        "".join(texts),
    ]


def test_prefix_of_a_reply_is_not_learned(processor):
    prefix = '{"reasoning": "sofa 1.2 3.4; clock 3.0 0.1'
    completion = '. apart 3.8", "answer": "3.5", "done": true}'
    question = {"role": "user", "content": [{"type": "text", "text": "How far?"}]}
    ((ids, learned),) = Encoder(processor).encode(
        [[question, assistant(prefix + completion)]], [prefix]
    )
    decode = processor.tokenizer.decode
    assert decode(ids[learned]) == f"{completion}<|im_end|>"
    assert decode(ids[~learned]).endswith(f"assistant\n{prefix}\n")
