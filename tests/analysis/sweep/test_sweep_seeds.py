"""Rows of a sweep over several seeds, and what is said of their cost against the baseline."""

import json
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_questions

from render_agent.analysis.report.plots.vector_plot import short_names
from render_agent.analysis.sweep.output import plot
from render_agent.analysis.sweep.plan import read_sweep
from render_agent.cli.main import cli
from render_agent.errors import UsageError
from render_agent.runs.log.folder import RunFolder, list_runs
from render_agent.score.comparison import Side, compare

EXAMPLE = TREE / "examples" / "choose.yaml"

RUNS = [
    {"label": "by chance", "agent": "lookahead:2", "verifier": "random"},
    {"label": "as many turns", "agent": "single", "equal": "tokens"},
    {
        "label": "as many pictures",
        "agent": "single",
        "max_turns": 5,
        "equal": ["renders", "tokens"],
    },
]


def sweep(*words):
    """Run the command; return what it printed on standard output as JSON."""
    done = CliRunner().invoke(cli, ["sweep", *map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished sweep over two seeds: what it told, where its runs lie, and its file."""
    folder = tmp_path_factory.mktemp("seeds")
    options = {
        "benchmark": str(make_questions(folder, 6)),
        "engine": "scripted",
        "model": "wanderer",
        "temperature": 1,
        "image_size": "96x72",
        "max_turns": 3,
    }
    file = folder / "sweep.yaml"
    given = {"name": "small", "options": options, "seeds": [3, 5], "runs": RUNS}
    file.write_text(yaml.safe_dump(given, sort_keys=False))
    return sweep(file, "--output", folder), folder / "sweep_small", file


def runs_of(place, label, told):
    """Return the runs behind a row, by seed."""
    row = next(row for row in told["cells"] if row["label"] == label)
    folders = [RunFolder(place / name) for name in row["run"].split()]
    return {folder.config.seed: folder.results() for folder in folders}, row


def test_a_row_is_the_mean_over_its_seeds(done):
    told, place, _ = done
    assert [row["label"] for row in told["cells"]] == [run["label"] for run in RUNS]
    assert len(list_runs(place)) == 6
    for run in RUNS:
        found, row = runs_of(place, run["label"], told)
        assert found.keys() == {3, 5}
        mean = sum(results["official"] for results in found.values()) / 2
        assert row["official"] == pytest.approx(mean)
        assert (row["questions"], row["scored"], row["status"]) == (12, 12, "complete")
        for name in ("turns", "renders", "tokens_in", "tokens_out"):
            rows = [line[name] for results in found.values() for line in results["questions"]]
            assert row[f"{name}_per_question"] == pytest.approx(sum(rows) / 12)


def test_differences_are_paired_seed_by_seed(done):
    told, place, _ = done
    base, _ = runs_of(place, "by chance", told)
    ours, row = runs_of(place, "as many turns", told)
    paired = [
        compare(Side("a", base[seed], {}), Side("b", ours[seed], {}))["differences"]["official"]
        for seed in (3, 5)
    ]
    assert row["difference"] == pytest.approx(sum(one["difference"] for one in paired) / 2)
    assert told["baseline"] == "by chance"


def test_it_is_said_whether_a_row_costs_what_was_meant(done):
    told, place, _ = done
    base, few, many = told["cells"]
    assert (base["renders_of_baseline"], base["tokens_of_baseline"]) == (1, 1)
    assert few["renders_of_baseline"] == (
        few["renders_per_question"] / base["renders_per_question"]
    )
    read = [row["tokens_in_per_question"] + row["tokens_out_per_question"] for row in (base, few)]
    assert few["tokens_of_baseline"] == read[1] / read[0] < 0.7
    assert many["renders_of_baseline"] == pytest.approx(1, abs=0.1)
    ratios = [f"{row['tokens_of_baseline']:.2f} times" for row in (few, many)]
    renders = f"{many['renders_of_baseline']:.2f} times"
    assert told["notes"]["as many turns"][-1] == (
        f"NOT EQUAL to the baseline in tokens read and written: {ratios[0]}"
    )
    said = told["notes"]["as many pictures"]
    assert f"equal to the baseline in pictures drawn: {renders}" in said
    assert any(note.endswith(f"in tokens read and written: {ratios[1]}") for note in said)
    words = (place / "table.md").read_text("utf-8")
    assert "A row has 2 runs, each with its own seed" in words
    assert "(as many turns)" in words.split("NOT EQUAL")[1].splitlines()[0]


def test_each_row_has_its_own_name_in_the_plot(done):
    _, place, _ = done
    drawn = ElementTree.parse(place / "plot.svg")
    texts = {"".join(entry.itertext()).strip() for entry in drawn.iter() if "text" in entry.tag}
    assert {run["label"] for run in RUNS} <= texts
    assert {f"{cost}, on average" for cost in COSTS} <= texts


def test_long_labels_are_shortened_in_the_plot(done, tmp_path):
    _, place, _ = done
    rows = json.loads((place / "table.json").read_text("utf-8"))["cells"]
    ends = ["first", "second"] * len(rows)
    labels = [f"{row['label']} {'of a long name ' * 5}{end}" for row, end in zip(rows, ends)]  # noqa: B905
    named = [row | {"label": label} for row, label in zip(rows, labels, strict=True)]
    assert plot(named, ("label", labels), "long", "label", tmp_path / "plot.svg")
    drawn = ElementTree.parse(tmp_path / "plot.svg")
    texts = ["".join(entry.itertext()).strip() for entry in drawn.iter() if "text" in entry.tag]
    assert max(map(len, texts)) < len(min(labels, key=len))
    assert {text for text in texts if "…" in text} == set(short_names(labels))
    assert len(set(short_names(labels))) == len(labels)


COSTS = ("pictures drawn for a question", "tokens read for a question")


def test_a_row_of_which_a_seed_is_not_begun_is_unfinished(done, tmp_path):
    told, place, file = done
    given = yaml.safe_load(file.read_text())
    more = tmp_path / "sweep.yaml"
    more.write_text(yaml.safe_dump({**given, "seeds": [3, 5, 8]}, sort_keys=False))
    from render_agent.analysis.sweep.grid import find_cells
    from render_agent.analysis.sweep.table import sweep_rows

    asked = read_sweep(more, {}, place.parent)
    rows, _ = sweep_rows(asked, find_cells(asked))
    assert {row["status"] for row in rows} == {"unfinished"}
    assert [row["official"] for row in rows] == [row["official"] for row in told["cells"]]
    with pytest.raises(UsageError, match=r"sweep.yaml: --seed is set here \(by chance\)"):
        read_sweep(more, {"seed": 1}, place.parent)


def test_the_controls_of_choosing_are_asked_for(tmp_path):
    asked = read_sweep(EXAMPLE, {}, tmp_path)
    assert {len(cells) for cells in asked.rows} == {3}
    agents = {cells[0].config.agent for cells in asked.rows}
    assert agents == {"single", "vote:4", "lookahead:4", "show:4", "show:3"}
    verifiers = [cells[0].config.verifiers for cells in asked.rows]
    labels = {plan.label for plans in verifiers for plan in plans}
    assert labels >= {"random", "geometry"}
    assert asked.baseline.config.verifiers[0].name == "random"


@pytest.mark.slow
def test_the_controls_of_choosing_run(tmp_path):
    few = tmp_path / "choose.yaml"
    given = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    given["seeds"] = [0]
    given["options"] |= {"model": "wanderer", "image_size": "64x48", "max_turns": 2}
    few.write_text(yaml.safe_dump(given, sort_keys=False))
    told = sweep(few, "--output", tmp_path, "--scene", "room07", "--limit", 1)
    assert {row["status"] for row in told["cells"]} == {"complete"}
    assert len(told["cells"]) == len(given["runs"])
