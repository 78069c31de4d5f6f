"""Measures how much of a benchmark can be answered blind: from answer frequencies, or by a random forest on the text.

Like the "test-set stress tests" (TsT, arXiv 2511.04655), text-only models are fitted on the benchmark itself with k-fold
cross-validation over scenes. A question that they answer correctly in a held-out scene did not need an image.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.extras import require
from render_agent.score.chance import FALLBACK_ANSWERS, format_answer, most_frequent_answer
from render_agent.score.intervals import Estimate, add_holm, macro_estimate
from render_agent.score.means import AnswerScore, tally_scores
from render_agent.score.questions import is_scorable, metric_of, score_answer
from render_agent.tasks.question_types import named_categories

FOLDS, TREES = 5, 100

# Minimum number of questions about the same categories before their most frequent answer is used.
MIN_SIMILAR_QUESTIONS = 3

SIGNIFICANCE = 0.05  # Holm-corrected p-value (over all methods, types and the mean) below which a type is answerable blind

MIN_SCENES = 2

MAX_ROUNDS = 20  # limit on prune-and-refit rounds per question type


class Guess(NamedTuple):
    """An answer given without looking: its score (0 to 1) and the confidence of its method in the correct answer."""

    score: float
    confidence: float


Guesses = Mapping[str, Guess]  # guesses by question id

# fits on the first questions and answers the second; all have the same type
Method = Callable[[Sequence[Question], Sequence[Question]], Guesses]


def audit(
    questions: Sequence[Question],
    folds: int = FOLDS,
    seed: int = 0,
    trees: int = TREES,  # trees per forest
) -> dict[str, Any]:
    """Measure how much of a benchmark can be answered without looking, and find the questions that cause it.

    Chance is uniform over the options of a choice; for numbers and texts it is the most frequent answer of the other
    scenes. Questions are pruned until no method is significantly above chance in their type.

    `types` (by question type) and `overall` (mean over types) have `n`, `chance` in percent, and per method `score`,
    `interval`, `gain` over chance, `gain_interval`, `p` (1 if the gain is not positive) and `p_holm`, corrected over all
    methods, types and the mean. `falling` lists the pruned ids in order; `questions` the score (0 to 1) of every method.
    """
    require("render-agent audit", "sklearn")
    scorable = [question for question in questions if is_scorable(question)]
    scenes = sorted({(q.dataset, q.scene) for q in scorable})
    if len(scenes) < MIN_SCENES:
        raise QuestionsError(
            f"the audit needs at least {MIN_SCENES} scenes with known answers, but found {len(scenes)}."
            " Select more questions."
        )
    order = np.random.default_rng(seed).permutation(len(scenes))
    fold_of = {scenes[scene]: index % folds for index, scene in enumerate(order)}
    methods: dict[str, Method] = {
        "frequency": _answer_by_frequency,
        "category": _answer_by_category,
        "text": partial(_answer_by_forest, seed=seed, trees=trees),
    }
    by_type: dict[str, list[Question]] = defaultdict(list)
    for question in scorable:
        by_type[question.type].append(question)
    answer = partial(_cross_validate, fold_of=fold_of, folds=folds, methods=methods)
    guesses: dict[str, dict[str, Guess]] = {name: {} for name in methods}
    for group in by_type.values():
        for name, answers in answer(group).items():
            guesses[name].update(answers)
    chance = _chance_scores(scorable, guesses)
    types = {name: _summarize(group, guesses, chance) for name, group in sorted(by_type.items())}
    overall = _summarize(scorable, guesses, chance)
    rows = [*types.values(), overall]
    add_holm([entry for row in rows for entry in row["methods"].values()])
    falling = [
        entry
        for name, group in by_type.items()
        for entry in _prune(group, types[name], guesses, answer)
    ]
    return {
        "n": len(scorable),
        "scenes": len(scenes),
        "folds": folds,
        "seed": seed,
        "overall": overall,
        "types": types,
        "falling": [question_id for *_, question_id in sorted(falling)],
        "questions": [
            {"question_id": q.id, "type": q.type, "scene": q.scene, "chance": chance[q.id]}
            | {name: answers[q.id].score for name, answers in guesses.items()}
            for q in scorable
        ],
    }


def compare_exclusions(
    audit_result: Mapping[str, Any], other_ids: Collection[str]
) -> dict[str, Any]:
    """Compare the pruned questions with another list of excluded questions.

    `both` counts questions on both lists, `expected_overlap` as many as random draws of the same size by type would share, and
    `ratio` is their quotient. `precision` is the share of our list on the other, `recall` the reverse. `text_left_out` and
    `text_kept` are mean scores of the `text` method, in percent, on questions that the other list excludes and keeps.
    """
    rows, falling = audit_result["questions"], audit_result["falling"]
    types = {row["question_id"]: row["type"] for row in rows}
    ours = Counter(types[name] for name in falling)
    theirs = Counter(types[name] for name in other_ids if name in types)
    total = Counter(types.values())
    num_both = len(set(other_ids).intersection(falling))
    sides: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        sides[row["question_id"] in other_ids].append(100 * row["text"])
    expected_overlap = sum(number * theirs[name] / total[name] for name, number in ours.items())
    return {
        "ours": len(falling),
        "theirs": sum(theirs.values()),
        "both": num_both,
        "expected": expected_overlap,
        "ratio": num_both / expected_overlap if expected_overlap else None,
        "precision": num_both / len(falling) if falling else None,
        "recall": num_both / sum(theirs.values()) if theirs else None,
        **{
            name: float(np.mean(scores)) if scores else None
            for name, scores in (("text_left_out", sides[True]), ("text_kept", sides[False]))
        },
    }


def _summarize(
    questions: Sequence[Question], guesses: Mapping[str, Guesses], chance: Mapping[str, float]
) -> dict[str, Any]:
    """Return the score of each method on these questions and its gain over chance, in percent.

    Only gains above 0 are tested. Methods fitted on other scenes fall below chance for no reason, because an answer
    that is frequent elsewhere is less frequent here.
    """
    methods = {}
    for name, answers in guesses.items():
        score = _estimate(questions, {q.id: answers[q.id].score for q in questions})
        gain = _estimate(questions, {q.id: answers[q.id].score - chance[q.id] for q in questions})
        gain_interval, p = gain.interval_and_p()
        methods[name] = {
            "score": 100 * float(score.mean),
            "interval": score.interval(share=True),
            "gain": 100 * float(gain.mean),
            "gain_interval": gain_interval,
            "p": p if p is None or gain.mean > 0 else 1.0,
        }
    level = float(_estimate(questions, chance).mean)
    return {"n": len(questions), "chance": 100 * level, "methods": methods}


def _estimate(questions: Sequence[Question], values: Mapping[str, float]) -> Estimate:
    """Return the mean over question types of a per-question value, with its standard error over scenes."""
    scores = (AnswerScore(q.type, q.dataset, q.scene, values[q.id]) for q in questions)
    return macro_estimate(tally_scores(scores))


def _cross_validate(
    questions: Sequence[Question],
    *,
    fold_of: Mapping[tuple[str, str], int],
    folds: int,
    methods: Mapping[str, Method],
) -> dict[str, dict[str, Guess]]:
    """Answer questions of one type with each method, fitted on the scenes of the other folds."""
    guesses: dict[str, dict[str, Guess]] = {name: {} for name in methods}
    for fold in range(folds):
        held_out = [q for q in questions if fold_of[q.dataset, q.scene] == fold]
        training = [q for q in questions if fold_of[q.dataset, q.scene] != fold]
        for name, method in methods.items():
            guesses[name].update(
                method(training, held_out) if training and held_out else _fallback_answers(held_out)
            )
    return guesses


def _chance_scores(
    questions: Sequence[Question], guesses: Mapping[str, Guesses]
) -> dict[str, float]:
    """Return the chance score of each question by id."""
    usual = guesses["frequency"]
    return {
        q.id: 1 / len(q.options) if metric_of(q).form == "letter" else usual[q.id].score
        for q in questions
    }


def _prune(
    questions: Sequence[Question],
    figures: Mapping[str, Any],
    guesses: Mapping[str, Guesses],
    answer: Callable[[Sequence[Question]], Mapping[str, Guesses]],
) -> list[tuple[int, float, str]]:
    """Return the pruned questions of a type as (round, negative confidence, id).

    Each round drops the questions that the best method answers most confidently until it is at chance on the rest, then
    refits all methods. It ends when no method is significantly above chance.
    """
    falling: list[tuple[int, float, str]] = []
    for number in range(MAX_ROUNDS):
        significant_gains = {
            name: entry["gain"]
            for name, entry in figures["methods"].items()
            if entry["p_holm"] is not None and entry["p_holm"] <= SIGNIFICANCE and entry["gain"] > 0
        }
        if not significant_gains:
            break
        answers = guesses[max(significant_gains, key=lambda name: significant_gains[name])]
        chance = _chance_scores(questions, guesses)
        above = sum(answers[q.id].score - chance[q.id] for q in questions)
        pruned_ids = set()
        for question in sorted(questions, key=lambda q: (*answers[q.id], q.id), reverse=True):
            if above <= 0:
                break
            above -= answers[question.id].score - chance[question.id]
            pruned_ids.add(question.id)
            falling.append((number, -answers[question.id].confidence, question.id))
        questions = [question for question in questions if question.id not in pruned_ids]
        if not questions:
            break
        guesses = answer(questions)
        figures = _summarize(questions, guesses, _chance_scores(questions, guesses))
        add_holm(list(figures["methods"].values()))
    return falling


def _fallback_answers(held_out: Sequence[Question]) -> Guesses:
    """Return the fallback answers, for types without questions in other scenes."""
    return {q.id: _make_guess(q, FALLBACK_ANSWERS[q.answer_form]) for q in held_out}


def _make_guess(question: Question, answer: str) -> Guess:
    score = score_answer(question, answer)
    return Guess(score, score)


def _answer_by_frequency(training: Sequence[Question], held_out: Sequence[Question]) -> Guesses:
    """Answer with the most frequent answer of the other scenes."""
    answer = most_frequent_answer(training)
    return {q.id: _make_guess(q, format_answer(q, answer)) for q in held_out}


def _answer_by_category(training: Sequence[Question], held_out: Sequence[Question]) -> Guesses:
    """Answer with the most frequent answer for the categories named in the question, or otherwise for its type."""
    by_categories: dict[tuple[str, ...], list[Question]] = defaultdict(list)
    for question in training:
        by_categories[named_categories(question)].append(question)
    answer_by_categories = {
        names: most_frequent_answer(group)
        for names, group in by_categories.items()
        if len(group) >= MIN_SIMILAR_QUESTIONS
    }
    usual = most_frequent_answer(training)
    return {
        q.id: _make_guess(q, format_answer(q, answer_by_categories.get(named_categories(q), usual)))
        for q in held_out
    }


def _answer_by_forest(
    training: Sequence[Question], held_out: Sequence[Question], *, seed: int, trees: int
) -> Guesses:
    """Answer with a random forest on the words of the questions and, for choices, of each option."""
    if held_out[0].answer_form == "letter":
        return _answer_choices(training, held_out, seed, trees)
    return _answer_by_similarity(training, held_out, seed, trees)


def _answer_choices(
    training: Sequence[Question], held_out: Sequence[Question], seed: int, trees: int
) -> Guesses:
    """Answer with the option that a forest considers most likely to be correct."""
    from sklearn.ensemble import RandomForestClassifier

    texts = [_option_texts(question) for question in (*training, *held_out)]
    words = _fit_bag_of_words(
        [text for option_texts in texts[: len(training)] for text in option_texts]
    )
    train = np.concatenate(
        [_option_features(option_texts, words) for option_texts in texts[: len(training)]]
    )
    right = np.array(
        [
            letter == (q.ground_truth or "").upper()
            for q in training
            for letter in options_by_letter(q.options)
        ]
    )
    if right.all() or not right.any():
        return _fallback_answers(held_out)
    forest = RandomForestClassifier(
        trees, min_samples_leaf=2, max_features=0.3, random_state=seed, n_jobs=1
    ).fit(train, right)
    features = [_option_features(option_texts, words) for option_texts in texts[len(training) :]]
    chances = forest.predict_proba(np.concatenate(features))[:, 1]
    ends = np.cumsum([len(option_texts) for option_texts in features])
    choices = {}
    for question, probabilities in zip(held_out, np.split(chances, ends[:-1]), strict=True):
        names = list(options_by_letter(question.options))
        right_one = (question.ground_truth or "").upper()
        confidence = (
            float(probabilities[names.index(right_one)] / max(probabilities.sum(), 1e-12))
            if right_one in names
            else 0.0
        )
        choices[question.id] = Guess(
            score_answer(question, names[int(probabilities.argmax())]), confidence
        )
    return choices


def _answer_by_similarity(
    training: Sequence[Question], held_out: Sequence[Question], seed: int, trees: int
) -> Guesses:
    """Answer numbers and texts with the answer that maximises the expected score over similar questions.

    The similarity of two questions is the share of trees that put them in the same leaf.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    words = _fit_bag_of_words([question.text for question in training])
    train, test = (words.features([q.text for q in group]) for group in (training, held_out))
    if held_out[0].answer_form == "number":
        target = np.log1p(np.abs([float(question.ground_truth or 0) for question in training]))
        forest: Any = RandomForestRegressor(
            trees, min_samples_leaf=5, max_features=0.3, random_state=seed, n_jobs=1
        )
    else:
        target = np.array([question.ground_truth for question in training])
        forest = RandomForestClassifier(
            trees, min_samples_leaf=2, max_features=0.3, random_state=seed, n_jobs=1
        )
    forest.fit(train, target)
    test_leaves, training_leaves = forest.apply(test), forest.apply(train)
    similarity = np.zeros((len(held_out), len(training)))
    for tree in range(trees):
        in_same_leaf = test_leaves[:, tree, None] == training_leaves[None, :, tree]
        similarity += in_same_leaf / np.maximum(in_same_leaf.sum(axis=1, keepdims=True), 1)
    answers = sorted({question.ground_truth or "" for question in training})
    truths = {(question.ground_truth, question.answers): question for question in training}
    rows = {key: place for place, key in enumerate(truths)}
    score_table = np.array(
        [[score_answer(q, answer) for answer in answers] for q in truths.values()]
    )
    row_indices = [rows[question.ground_truth, question.answers] for question in training]
    best_columns = (similarity @ score_table[row_indices]).argmax(axis=1)
    return {
        q.id: _make_guess(q, answers[place])
        for q, place in zip(held_out, best_columns, strict=True)
    }


class _BagOfWords(NamedTuple):
    """Bag of words and word pairs, one binary column each; the last column is the length of the text."""

    columns: Mapping[str, int]

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (texts, columns)."""
        features = np.zeros((len(texts), len(self.columns) + 1), np.float32)
        for row, text in enumerate(texts):
            features[row, -1] = len(text)
            present = [self.columns[term] for term in _split_terms(text) if term in self.columns]
            features[row, present] = 1
        return features


MAX_COLUMNS = 400


def _fit_bag_of_words(texts: Sequence[str]) -> _BagOfWords:
    """Return the most frequent words and word pairs that do not occur in every text."""
    counts = Counter(term for text in texts for term in set(_split_terms(text)))
    telling = [(term, n) for term, n in counts.items() if 1 < n < len(texts)]
    ranking = sorted(telling, key=lambda item: (-item[1], item[0]))[:MAX_COLUMNS]
    return _BagOfWords({term: column for column, (term, _) in enumerate(ranking)})


def _split_terms(text: str) -> list[str]:
    words = text.lower().replace("(", " ").replace(")", " ").replace(",", " ").split()
    words = [word.strip(".?;:'\"") for word in words]
    return [*words, *map(" ".join, pairwise(words))]


def _option_texts(question: Question) -> list[str]:
    """Return one text per option: its words, then the words of the question with a prefix."""
    words = " ".join(f"q:{word}" for word in question.text.split())
    return [f"{option} {words}" for option in options_by_letter(question.options).values()]


def _option_features(texts: Sequence[str], words: _BagOfWords) -> NDArray[np.float32]:
    """Return the features of every option of a question: words, position, and length relative to the others."""
    bag = words.features(texts)
    lengths = bag[:, -1:]
    places = np.eye(26, dtype=np.float32)[: len(texts), :6]
    return np.hstack([bag, lengths - lengths.mean(), lengths == lengths.max(), places])
