"""Verifier training states whose best move is known: the queried object is left or right, high or low."""

import numpy as np

from render_agent.dialogue.reply import Action
from render_agent_lab.learned_verifier.history import Histories, encode_history, stack
from render_agent_lab.learned_verifier.shape import Features, VerifierShape
from render_agent_lab.verifier_training.examples import Example

SMALL = VerifierShape(
    rows=2,
    columns=2,
    text=3,
    features=16,
    width=16,
    heads=2,
    blocks=1,
    history=3,
    layers=1,
    inner=32,
)

# The move towards each image patch, by row and column.
MOVES = {
    (0, 0): Action(rotation=40, pitch=20),
    (0, 1): Action(rotation=-40, pitch=20),
    (1, 0): Action(rotation=40, pitch=-20),
    (1, 1): Action(rotation=-40, pitch=-20),
}


def choice_examples(count, seed, shape=SMALL):
    """Return states with four shuffled candidates, one of them good, after up to two moves."""
    rng = np.random.default_rng(seed)
    names = np.random.default_rng(0).standard_normal((6, shape.features))
    found = []
    for _ in range(count):
        name = rng.integers(len(names))
        where = (int(rng.integers(shape.rows)), int(rng.integers(shape.columns)))
        patches = rng.standard_normal((shape.rows, shape.columns, shape.features))
        patches[where] = 2 * names[name] + 0.2 * rng.standard_normal(shape.features)
        text = names[name] + 0.1 * rng.standard_normal((shape.text, shape.features))
        past = [Action(forward=float(rng.uniform(-1, 1))) for _ in range(rng.integers(3))]
        order = [list(MOVES)[place] for place in rng.permutation(len(MOVES))]
        histories = stack(
            [encode_history([*past, MOVES[at]], length=shape.history) for at in order]
        )
        features = Features(
            patches.reshape(-1, shape.features).astype(np.float32), text.astype(np.float32)
        )
        found.append(Example(features, histories, np.array([at == where for at in order])))
    return found


def random_features(shape, seed):
    """Return random features."""
    rng = np.random.default_rng(seed)
    sizes = ((shape.patches, shape.features), (shape.text, shape.features))
    return Features(*(rng.standard_normal(size).astype(np.float32) for size in sizes))


def random_histories(shape, count, seed, shared=0, empty=True):
    """Return random histories of different lengths that agree in the first `shared` entries."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((count, shape.history, shape.action)).astype(np.float32)
    first = rng.integers(shape.history if empty else 1, size=count)
    if shared:
        first[:] = first.min()
        values[:, :shared] = values[0, :shared]
    known = np.arange(shape.history) >= first[:, None]
    values[~known] = 0
    return Histories(values, known)
