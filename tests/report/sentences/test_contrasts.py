"""Statements about answers with low scores give the same share of the others, and are made only if the two differ."""

import random

import pytest

from render_agent.report.beliefs.diagnosis import BeliefDiagnosis
from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.report.sentences.contrasts import contrast_sentence, contrasts, traits
from render_agent.report.sentences.findings import shared_trait
from render_agent.score.intervals import SIGNIFICANT

SCENES = 10


def planted_diagnoses(wrong, right, number=20, scenes=SCENES):
    """Return diagnoses in which the given shares of wrong and of right answers came too early, and their scenes.

    Both shares are the same in every scene, up to two questions.
    """
    diagnoses, places = {}, {}
    for cause, share in ((Cause.STOPPED_EARLY, wrong), (Cause.RIGHT, right)):
        for scene in range(scenes):
            for n in range(number):
                name = f"{cause} {scene} {n}"
                early = n < round(share * number + (0.6 if scene % 2 else -0.6))
                kind = Cause.MISJUDGED if cause in WRONGS and not early else cause
                diagnoses[name] = Diagnosis(
                    name, kind, (), (), (), {}, saw_all=not early, premature=early
                )
                places[name] = scene
    return diagnoses, places


WRONGS = (Cause.STOPPED_EARLY, Cause.MISJUDGED)


def finding(diagnoses, places):
    return shared_trait(contrasts(diagnoses.values(), places), diagnoses, places)


def test_no_contrast_if_high_scores_have_it_as_often():
    """Regression test: "Of 57 wrong answers, 47 …" was reported although 86 of 103 right ones did the same."""
    diagnoses, places = planted_diagnoses(wrong=0.82, right=0.83)
    (row,) = contrasts(diagnoses.values(), places)
    assert row["wrong"][0] > 0.75 * row["wrong"][1]
    assert row["p_holm"] > SIGNIFICANT
    assert "no difference shown" in contrast_sentence(row)
    assert finding(diagnoses, places) is None


@pytest.mark.parametrize("right", [0.2, 0.6])
def test_difference_is_reported_with_both_figures(right):
    diagnoses, places = planted_diagnoses(wrong=0.85, right=right)
    (row,) = contrasts(diagnoses.values(), places)
    contrast = finding(diagnoses, places)
    (num_missed, wrong), (early, num_right) = row["wrong"], row["right"]
    assert f"Of {wrong} answers with a score below 50 %, {num_missed} " in contrast.sentence
    assert f"(at least 50 %: {early} of {num_right}; p" in contrast.sentence
    assert contrast.link == "#cause=stopped+early"


def test_no_contrast_if_right_answers_have_it_more_often():
    assert finding(*planted_diagnoses(wrong=0.7, right=1)) is None


def test_no_contrast_for_a_minority():
    assert finding(*planted_diagnoses(wrong=0.4, right=0.05)) is None


def test_no_contrast_with_too_few_scenes():
    diagnoses, places = planted_diagnoses(wrong=1, right=0, scenes=5)
    (row,) = contrasts(diagnoses.values(), places)
    assert row["p"] is None
    assert "too few scenes" in contrast_sentence(row)
    assert finding(diagnoses, places) is None


def test_no_contrast_without_right_answers():
    diagnoses, places = planted_diagnoses(wrong=1, right=0)
    wrong = {name: d for name, d in diagnoses.items() if d.cause in WRONGS}
    (row,) = contrasts(wrong.values(), places)
    assert (row["p"], row["right"]) == (None, [0, 0])
    assert finding(wrong, places) is None


def test_traits_of_beliefs_are_compared_like_the_others():
    diagnoses, places = {}, {}
    for n in range(200):
        right = n % 2 == 0
        belief = BeliefDiagnosis((), "A", 1.0, follows=right if n % 20 else not right)
        cause = Cause.RIGHT if right else Cause.REASONING
        diagnoses[str(n)] = Diagnosis(str(n), cause, (), (), (), {}, parts={"beliefs": belief})
        places[str(n)] = n // 2 % SCENES
    (row,) = contrasts(diagnoses.values(), places)
    assert row["trait"] == "contradiction"
    assert row["wrong"] == [100, 100]
    assert row["right"] == [10, 100]
    assert "contradicted the last map" in finding(diagnoses, places).sentence


def test_every_trait_is_unknown_or_false_of_a_plain_right_answer():
    plain = Diagnosis("0", Cause.RIGHT, (), (), (), {})
    assert not any(trait.holds(plain) for trait in traits().values())


@pytest.mark.parametrize("scenes", [6, 8, 20])
def test_rate_of_false_positives(scenes):
    """Plant independent answers and traits that depend on the scene: 5 % of the tests may be significant."""
    chance, significant, tests = random.Random(scenes), 0, 400
    for _ in range(tests):
        diagnoses, places = [], {}
        for scene in range(scenes):
            share_wrong, share_early = chance.uniform(0.2, 0.8), chance.uniform(0.3, 1)
            for n in range(10):
                early, is_wrong = chance.random() < share_early, chance.random() < share_wrong
                cause = Cause.STOPPED_EARLY if early else Cause.MISJUDGED
                name = f"{scene} {n}"
                places[name] = scene
                diagnoses.append(
                    Diagnosis(
                        name,
                        cause if is_wrong else Cause.RIGHT,
                        (), (), (), {}, saw_all=not early, premature=early,
                    )
                )  # fmt: skip
        rows = contrasts(diagnoses, places)
        significant += bool(rows) and rows[0]["p"] <= SIGNIFICANT
    assert significant / tests < 0.09
