"""Regular expressions that meet text from outside take linear time on their worst inputs."""

import re
import time

import pytest
from factories import states
from factories.replies import parse_reply

from render_agent.dialogue.chat import escape_special_tokens, without_thinking
from render_agent.dialogue.parsing.replies import strip_fence
from render_agent.dialogue.parsing.tool_calls import split_calls
from render_agent.engines.sight_check import states_code
from render_agent.parts.counterfactual.wordings import Names
from render_agent.scans.formats import axis_alignment
from render_agent.scans.formats.clouds import las, text_columns
from render_agent.scans.formats.declared import Declared, unit_of_comments, up_of_comments
from render_agent.scans.formats.ply.header import read_header
from render_agent.scans.formats.ply.surface import TEXTURE_COMMENT
from render_agent.scans.formats.textured import mtl, obj_file, wavefront
from render_agent.scans.formats.textured.image_files import Siblings
from render_agent.score import lmms_eval, metrics, vlmevalkit
from render_agent.tasks.question_types import named_categories
from render_agent.util.sanitize import escape_name, make_public
from render_agent_lab.expert import derive

SIZE = 6_000  # characters of the shorter text; the longer one has GROWTH times as many
GROWTH = 8
MIN_SECONDS = 2e-4  # shorter times are not compared


def read_ply_comments(path, text):
    start = f"ply\nformat ascii 1.0\ncomment {text}\nend_header\n".encode()
    read_header(path, start, len(start)).comment(TEXTURE_COMMENT)


def read_libraries(path, text):
    path.write_text(text)
    for line in obj_file.parse_obj(path, Declared()).libraries:
        wavefront._read_libraries(Siblings(path.parent), line)


def read_alignment(path, text):
    axis_alignment.alignment_file(path).write_text(text)
    axis_alignment.read_alignment(path)


def columns_of_header(text):
    text_columns._columns_of_header([text.encode()], 3, decimal_comma=False)


def question(kind, text):
    return states.question(type=kind, text=text, options=("A. a", "B. b"))


def categories(kind):
    return lambda text: named_categories(question(kind, text))


# function -> texts as (beginning, repeated part, end)
CASES = {
    "reply": (
        lambda text: parse_reply(text, "letter", ("A. left", "B. right")),
        [("", "{ ", ""), ("", "{a", ""), ('{"answer": "', '\\"', ""), ("", "<think>", ""), ("", "</think>", ""),
         ("", "<a>", ""), ("", "<|a", ""), ("", "```json\n", ""), ("", "</think>look(", ")"), ("", "[A", "")],
    ),
    "fence": (strip_fence, [("```", "\n", "x"), ("```", "\n ", "```"), ("```\n", " \n", "")]),
    "calls": (
        split_calls,
        [("<|tool_call>call:a{", "a", "}<tool_call|>"), ("<|tool_call>call:a{", "} ", ""), ("</think>", "look() ", "."),
         ('<|tool_call>call:a{"', '\\"', "}<tool_call|>"), ("[TOOL_CALLS]", " ", ""), ("<tool_call>", "<arg_key>", "</tool_call>"),
         ("<tool_call>a", " ", "</tool_call>"), ("", "[TOOL_CALLS]a [CALL_ID]", "")],
    ),
    "thinking": (without_thinking, [("", "<", ""), ("", "<think", "")]),
    "tokens": (escape_special_tokens, [("", "<a", ""), ("", "<|", ""), ("", "[IMG", "")]),
    "sight": (lambda text: states_code(text, "5470"), [("5", " ", "4"), ("", "5 ", "")]),
    "public": (make_public, [("", "/a", "/"), ("", "/", ""), ("C:\\", "a\\", "!"), ("", "file:", "")]),
    "names": (escape_name, [("", "\0", "")]),
    "letter": (
        vlmevalkit.letter,
        [("", "<answer>A", ""), ("", "<answer", ">"), ("<answer>", " ", ""), ("", "<answer> ", ""), ("answer", " ", "x"),
         ("A", " ", "X"), ("*", " ", "X"), ("A", "*", "X"), ("final", " ", "x"), ("", "option ", ""), ("", "< ", "")],
    ),
    "number": (
        vlmevalkit.tagged_number,
        [("", "<answer>1", ""), ("", "<answer", ""), ("<answer>", "1", ""), ("<answer>1", "x<", ""), ("", "1.", "")],
    ),
    "lmms-eval": (lmms_eval.first_number, [("", "hundred ", ""), ("", "1", "."), ("", "-", "")]),
    "metrics": (metrics.clean, [("", "a", ""), ("o'", " ", ""), ("", "a ", ""), ("", "the ", "")]),
    "counting": (categories("object_counting"), [("", "How many ", ""), ("How many ", "(s)", "")]),
    "size": (categories("object_size_estimation"), [("", "dimension (length, width, or height) of the ", "")]),
    "distance": (categories("object_abs_distance"), [("", "the distance between the ", ""), ("", "the distance between the a and the ", "")]),
    "closest": (
        categories("object_rel_distance"),
        [("", "of these objects (", ""), ("", "of these objects (a) is the closest to the ", "")],
    ),
    "direction": (
        categories("object_rel_direction_hard"),
        [("", "standing by the a and facing the a, is the a ", ""), ("standing by the a", " and facing the a", ", is the a")],
    ),
    "order": (categories("obj_appearance_order"), [("", "following categories in the video: ", "")]),
    "route": (categories("route_planning"), [("", "facing the ", "\n."), ("facing the ", " ", "\n.")]),
    "renaming": (
        lambda text: Names().reword(question("object_rel_distance", text), 0),
        [("", "of these objects (", "")],
    ),
    "legs": (lambda text: re.findall(derive.LEG_PATTERN, text), [("", "1. Go forward until the ", "\n."), ("1. Go forward until the", " 1", "\n.")]),
    "unit": (lambda text: unit_of_comments([text]), [("unit", " ", "1"), ("file", " ", "1"), ("units in", " ", "1")]),
    "up axis": (lambda text: up_of_comments([text]), [("up", " ", "1"), ("up axis", " ", "1")]),
    "table header": (columns_of_header, [("x y z", " ", "a"), ("x y z", " (", "")]),
    "WKT": (las.WKT_UNIT.search, [("", 'UNIT["', ""), ("UNIT", " ", ""), ('UNIT["a",', "1", "")]),
    "MTL": (
        mtl.parse_mtl,
        [("newmtl a\nmap_Kd ", "a ", "a"), ("newmtl a\nmap_Kd ", "a", ""), ("newmtl a\nmap_Kd -s ", "1 ", "a"),
         ("newmtl a\nmap_Kd ", "-s ", "a"), ("newmtl a\n", "x" * 20 + "\n", ""), ("newmtl a\nmap_Kd a ", "# ", "a")],
    ),
    "OBJ comments": (obj_file.COMMENT.findall, [("#", " ", ""), ("", "#", ""), ("", "# \n", "")]),
    "OBJ faces": (
        lambda text: obj_file.TRAILING_SLASH.sub(b"", obj_file.TRAILING_COMMENT.sub(b"", text.encode())),
        [("f 1", "/", "a"), ("f ", "1", ""), ("", "f 1\n", "")],
    ),
}  # fmt: skip
FILES = {
    "PLY header": (read_ply_comments, "a.ply", [("", " ", ""), ("texturefile", " ", ""), ("texturefile ", "a ", ""), ("", "a ", "")]),
    "OBJ libraries": (read_libraries, "a.obj", [("", "mtllib\t", ""), ("#", "mtllib ", ""), ("mtllib", " ", "")]),
    "alignment": (read_alignment, "scene0000_00_vh_clean_2.ply", [("", "\n", ""), ("", " ", ""), ("axisAlignment", " ", "")]),
}  # fmt: skip


def seconds(function, text):
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        function(text)
        best = min(best, time.thread_time() - start)
    return best


def check_growth(function, texts):
    """Quadratic time would make the factor 64."""
    for begin, part, end in texts:
        short, long = (begin + part * (n * SIZE // len(part)) + end for n in (1, GROWTH))
        factor = seconds(function, long) / max(seconds(function, short), MIN_SECONDS)
        assert factor < 3 * GROWTH, (begin, part, end)


@pytest.mark.parametrize("name", CASES)
def test_text_takes_linear_time(name):
    check_growth(*CASES[name])


@pytest.mark.parametrize("name", FILES)
def test_files_take_linear_time(name, tmp_path):
    function, file, texts = FILES[name]
    check_growth(lambda text: function(tmp_path / file, text), texts)
