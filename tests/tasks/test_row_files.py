"""Question files in jsonl, json, parquet and tsv; errors name the row."""

import csv
import json
import resource

import numpy as np
import pytest
from conftest import test_data

from render_agent.errors import QuestionsError, SetupError
from render_agent.tasks.question_types import BUILT_IN, TYPES
from render_agent.tasks.row_files import load_questions, read_rows

CHOICE = {
    "id": 7, "dataset": "scannet", "scene_name": "scene0011_00", "question_type": "object_rel_distance",
    "question": 'Which is closest to the "sofa"?\tTab', "options": ["A. bed", "B. it's a \"lamp\""],
    "ground_truth": "B",
}  # fmt: skip
NUMBER = {
    "id": 8, "dataset": "scannetpp", "scene_name": "5942004064", "question_type": "object_counting",
    "question": "How many\nchair(s)?", "options": None, "ground_truth": "2.0",
}  # fmt: skip


def write(folder, rows, name="test.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_tsv(path, rows):
    """Write rows as pandas does: lists as Python literals, None as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return path


def by_vlmevalkit(rows):
    """Return rows with the columns of VLMEvalKit's own conversion."""
    return [
        {
            "id": row["id"], "prefix": row["dataset"], "video": row["scene_name"],
            "type": row["question_type"], "question": row["question"], "answer": row["ground_truth"],
            "candidates": row["options"], "index": index,
        }
        for index, row in enumerate(rows)
    ]  # fmt: skip


def by_easi(rows):
    """Return rows with the columns of VLMEvalKit's newer tsv files, which do not number the rows."""
    return [
        {
            "index": row["id"], "video": f"{row['dataset']}/{row['scene_name']}.mp4",
            "question_type": row["question_type"], "question": row["question"],
            "candidates": row["options"], "answer": row["ground_truth"],
        }
        for row in rows
    ]  # fmt: skip


def without_pruned(questions):
    return [
        (q.id, q.dataset, q.scene, q.type, q.text, q.answer_form, q.options, q.ground_truth)
        for q in questions
    ]


@pytest.fixture(scope="module")
def official():
    path = test_data("vsibench", "test.jsonl")
    return read_rows(path), load_questions(path, "vsibench")


def test_json_has_the_same_questions(official, tmp_path):
    rows, questions = official
    path = tmp_path / "test.json"
    path.write_text(json.dumps(rows, indent=1))
    assert load_questions(path, "vsibench") == questions
    assert len(questions) == 5130


@pytest.mark.parametrize("rename_columns", [by_vlmevalkit, by_easi])
def test_tsv_has_the_same_questions(official, tmp_path, rename_columns):
    rows, questions = official
    loaded = load_questions(write_tsv(tmp_path / "VSI-Bench.tsv", rename_columns(rows)), "vsibench")
    assert without_pruned(loaded) == without_pruned(questions)


def test_parquet_has_the_same_questions(official, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    rows, questions = official
    path = tmp_path / "test-00000-of-00001.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert load_questions(path, "vsibench") == questions


@pytest.mark.parametrize("damage", [b"", b"PAR1 without data", b"{}"])
def test_broken_parquet_file_is_named(tmp_path, damage):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "x.parquet"
    path.write_bytes(damage)
    with pytest.raises(QuestionsError, match=r"cannot read the questions in .*x\.parquet"):
        read_rows(path)


def test_parquet_bomb_is_rejected_within_the_memory_limit(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr("render_agent.tasks.row_files.MAX_PARQUET_BYTES", 100 << 20)
    path, rows = tmp_path / "x.parquet", 300_000
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0), rows), ["a" * 9000]
    )
    parquet.write_table(pyarrow.table({"question": column}), path, store_schema=False)
    assert path.stat().st_size < 100_000
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(QuestionsError, match=r"x\.parquet: .*memory"):
        read_rows(path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_missing_pyarrow_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    path = tmp_path / "x.parquet"
    path.touch()
    with pytest.raises(SetupError, match=r"pyarrow.*\[parquet\]"):
        read_rows(path)


def test_texts_are_kept_verbatim_in_every_format(tmp_path):
    rows = [CHOICE, NUMBER]
    json_file = tmp_path / "x.json"
    json_file.write_text(json.dumps(rows))
    paths = [write(tmp_path, rows), json_file, write_tsv(tmp_path / "x.tsv", by_vlmevalkit(rows))]
    for path in paths:
        choice, number = load_questions(path, "vsibench")
        assert (choice.text, choice.options, choice.ground_truth) == (
            CHOICE["question"], tuple(CHOICE["options"]), "B",
        )  # fmt: skip
        assert (number.id, number.scene, number.text, number.options, number.ground_truth) == (
            "8", "5942004064", NUMBER["question"], (), "2.0",
        )  # fmt: skip


def test_unicode_line_separators_do_not_end_a_row(tmp_path):
    odd = NUMBER | {"question": "one\u2028two\u0085three"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(odd, ensure_ascii=False) + "\n", "utf-8")
    assert load_questions(path, "x")[0].text == odd["question"]


@pytest.mark.parametrize("number", [7, "7"])
def test_ids_are_strings(tmp_path, number):
    [question] = load_questions(write(tmp_path, [CHOICE | {"id": number}]), "vsibench")
    assert question.id == "7"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question_type": None}, "question_type"),
        ({"question": " "}, "question"),
        ({"question": ["Which?"]}, "question"),
        ({"id": ""}, "id"),
        ({"id": True}, "id"),
        ({"scene_name": {}}, "scene_name"),
        ({"id": "8"}, "id 8"),
        ({"id": "8\x1fturn 1"}, "id"),
        ({"question_type": "object_smell"}, "object_smell"),
        ({"question_type": "object_counting", "ground_truth": "2"}, "options"),
        ({"options": None}, "options"),
        ({"options": ["A. bed", "C. lamp"]}, "options"),
        ({"options": "A. bed"}, "options"),
        ({"options": "['A. bed'"}, "options"),
        ({"options": "['A. bed' 'B. lamp' ...]"}, "options"),
        ({"options": "['A. bed''B. lamp']"}, "options"),
        ({"options": "['A. bed' nan]"}, "options"),
        ({"options": r"['\N' 'B. lamp']"}, "options.*unicode"),
        ({"options": ["A. bed", "lamp"]}, "options.*lamp"),
        ({"options": ["bed", "bed"]}, "'bed'"),
        ({"options": ["bed"]}, "option"),
        ({"options": ["bed", ""]}, "option"),
        ({"options": ["B", "A"], "ground_truth": "A"}, "ambiguous"),
        ({"ground_truth": "C"}, "'C'"),
        ({"options": None, "question_type": "room_size_estimation"}, "'B'"),
    ],
)
def test_invalid_value_error_names_the_row(tmp_path, row, message):
    path = write(tmp_path, [NUMBER, CHOICE | row])
    with pytest.raises(QuestionsError, match=message) as error:
        load_questions(path, "vsibench")
    assert str(error.value).startswith(f"{path}, row 2: ")
    assert "\n" not in str(error.value)


TEXTS = [
    "A. it's",
    'B. a "big" one',
    "C. both ' and \"",
    "D. line\nbreak, tab\t",
    "E. back\\slash é ✓",
]


@pytest.mark.parametrize("print_array", [str, repr])
@pytest.mark.parametrize(
    "options", [TEXTS, [f"{letter}. {'words ' * 30}" for letter in "ABCD"], ["A. one", "B. two"]]
)
@pytest.mark.parametrize("dtype", [object, str])
def test_options_printed_by_numpy_are_read(tmp_path, print_array, options, dtype):
    """A table saved by pandas has arrays in this form if it was read from parquet."""
    array = np.array(options, dtype=dtype)
    path = write_tsv(tmp_path / "x.tsv", [CHOICE | {"options": print_array(array)}])
    assert load_questions(path, "x")[0].options == tuple(options)


def test_options_printed_by_pandas_are_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = [CHOICE, NUMBER | {"ground_truth": "2"}]
    pandas.DataFrame(rows).to_parquet(tmp_path / "x.parquet")
    table = pandas.read_parquet(tmp_path / "x.parquet")
    expected = load_questions(write(tmp_path, rows), "x")
    for name in ("", "nan", "<NA>"):
        table.to_csv(tmp_path / "x.tsv", sep="\t", index=False, na_rep=name)
        assert load_questions(tmp_path / "x.tsv", "x") == expected
    table.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    assert load_questions(tmp_path / "x.jsonl", "x") == expected


def test_shared_sample_of_numpy_options():
    sample = test_data("..", "cases", "numpy_options.tsv")
    options, none = (question.options for question in load_questions(sample, "x"))
    assert options == ("A. chair", "B. lamp", "C. door", "D. table")
    assert none == ()


@pytest.mark.parametrize("truth", ["B", "lamp", "B. lamp", "Lamp "])
@pytest.mark.parametrize("options", [["bed", "lamp"], ["A. bed", "B. lamp"]])
def test_options_get_letters_and_the_ground_truth_may_be_a_text(tmp_path, options, truth):
    (question,) = load_questions(
        write(tmp_path, [CHOICE | {"options": options, "ground_truth": truth}]), "x"
    )
    assert question.options == ("A. bed", "B. lamp")
    assert question.ground_truth == "B"


def test_faults_are_reported_together_with_their_rows(tmp_path):
    faulty = [NUMBER | {"id": n, "ground_truth": "two"} for n in range(30)]
    with pytest.raises(QuestionsError) as error:
        load_questions(write(tmp_path, [CHOICE, *faulty]), "x")
    faults = str(error.value).removeprefix(f"{tmp_path / 'test.jsonl'}, ").split("\n")
    assert [fault.split(":")[0] for fault in faults] == [f"row {n}" for n in range(2, 22)]
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id"\n\n{}\n{"b": }\n')
    with pytest.raises(QuestionsError, match=r"line 1 (.|\n)*line 4 "):
        read_rows(broken)


def test_data_set_is_optional_except_for_vsibench(tmp_path):
    path = write(tmp_path, [{name: CHOICE[name] for name in CHOICE if name != "dataset"}])
    assert load_questions(path, "x")[0].dataset
    with pytest.raises(QuestionsError, match="'dataset'"):
        load_questions(path, "vsibench")


@pytest.mark.parametrize("name", TYPES)
def test_question_types_may_have_the_names_that_tables_print(tmp_path, name):
    letter = BUILT_IN[name].answer_form == "letter"
    for printed in (
        name,
        BUILT_IN[name].label,
        BUILT_IN[name].label.capitalize(),
        name.replace("_", " "),
    ):
        path = write(tmp_path, [(CHOICE if letter else NUMBER) | {"question_type": printed}])
        assert load_questions(path, "x")[0].type == name


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "null", "1" + "0" * 400,
                                   *(f'"{text}"' for text in ("nan", "NaN", "inf", "-Infinity", "1e400", "1" * 400, "two"))])  # fmt: skip
def test_ground_truth_must_be_finite(tmp_path, value):
    path = write(tmp_path, [CHOICE, NUMBER | {"ground_truth": "TRUTH"}])
    path.write_text(path.read_text().replace('"TRUTH"', value))
    with pytest.raises(QuestionsError, match=r"ground.truth") as error:
        load_questions(path, "vsibench")
    assert str(error.value).startswith(f"{path}, row 2: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["NaN", "1e400", '["red", null]', '["red", NaN]', "null"])
def test_ground_truth_of_a_text_question_is_no_missing_number(tmp_path, value):
    row = CHOICE | {"options": None, "metric": "exact-match", "ground_truth": "TRUTH"}
    path = write(tmp_path, [row])
    assert load_questions(path, "x")[0].ground_truth == "TRUTH"
    path.write_text(path.read_text().replace('"TRUTH"', value))
    with pytest.raises(QuestionsError, match=r"ground.truth"):
        load_questions(path, "x")


@pytest.mark.parametrize(
    ("name", "content", "location"),
    [
        ("x.jsonl", "", ""),
        ("x.jsonl", "[1]", "row 1"),
        ("x.jsonl", '{"id": 1}\n{', "line 2"),
        ("x.jsonl", b"\xff\xfe\x00", ""),
        ("x.json", "{}", ""),
        ("x.jsonl", '{"id": 1, "id": 2}', "'id'"),
        ("x.tsv", "id\tid\n1\t2\n", "name"),
        ("x.csv", "id,question\n1,2\n", "csv"),
        ("x.tsv", "id\tquestion\n", ""),
        ("x.tsv", "id\tquestion\n1\t2\t3\n", "row 1"),
        ("x.tsv", 'id\tquestion\n1\t"open', "line"),
    ],
)
def test_malformed_file_error_names_the_location(tmp_path, name, content, location):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(QuestionsError) as error:
        read_rows(path)
    assert str(path) in str(error.value)
    assert location in str(error.value)


def test_row_without_an_id_does_not_make_another_one_a_duplicate(tmp_path):
    row = {"scene_name": "s", "question_type": "object_counting", "question": "?"}
    rows = [row | {"ground_truth": "1"}, row | {"id": 1, "ground_truth": "2"}]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    with pytest.raises(QuestionsError) as error:
        load_questions(path, "mine")
    assert "row 1: column 'id'" in str(error.value)
    assert "row 2" not in str(error.value)
