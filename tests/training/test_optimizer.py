"""Optimizer steps on float32 masters: an interrupted training resumes exactly."""

import math
from collections import OrderedDict
from itertools import pairwise

import pytest

from training.optimizer import MAX_GRADIENT_NORM, MUON_RATE_FACTOR, MasterWeights, rate_at, save

torch = pytest.importorskip("torch")


INNER = "visual.blocks.weight"


@pytest.fixture(autouse=True)
def one_thread():
    """Sums are reproducible only with a fixed number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_masters(**options):
    """Return two small bfloat16 networks with fixed weights, one of them slow, and their masters."""
    torch.manual_seed(1)
    parts = {
        "blocks": torch.nn.Linear(12, 24),
        "act": torch.nn.GELU(),
        "norm": torch.nn.LayerNorm(24),
    }
    first = torch.nn.Sequential(OrderedDict(parts))
    modules = {
        "visual": first.to(torch.bfloat16),
        "text": torch.nn.Linear(24, 5).to(torch.bfloat16),
    }
    return modules, MasterWeights(modules, decay=0.02, slow=("visual",), factor=0.3, **options)


def train(modules, masters, steps):
    """Take some steps, each on its own examples; return the gradient norms."""
    norms = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(16, 12, generator=generator).to(torch.bfloat16)
        targets = torch.randint(5, (16,), generator=generator)
        logits = modules["text"](modules["visual"](inputs)).float()
        torch.nn.functional.cross_entropy(logits, targets).backward()
        norms.append(masters.step(rate_at(step, 4, 0.01, warm_up=2)))
    return norms


def test_resumed_training_gives_identical_weights(tmp_path):
    modules, masters = make_masters()
    expected_norms = train(modules, masters, range(4))
    first_modules, first_masters = make_masters()
    norms = train(first_modules, first_masters, range(2))
    checkpoint = tmp_path / "checkpoint.pt"
    save(checkpoint, 2, 0.5, first_masters.state())
    saved = torch.load(checkpoint)
    assert (saved["step"], saved["hours"]) == (2, 0.5)

    torch.manual_seed(9)
    new_modules, resumed = make_masters()
    with torch.no_grad():
        for weight in (*new_modules["visual"].parameters(), *new_modules["text"].parameters()):
            weight.zero_()  # only the saved state is left
    resumed.restore(saved["masters"])
    norms += train(new_modules, resumed, range(2, 4))
    assert norms == expected_norms
    for name, copy in masters.copies.items():
        assert torch.equal(copy, resumed.copies[name]), name
        assert torch.equal(masters.named[name], resumed.named[name]), name
    for name, optimizer in masters.optimizers.items():
        expected, actual = optimizer.state_dict(), resumed.optimizers[name].state_dict()
        assert expected["state"].keys() == actual["state"].keys()
        for number, values in expected["state"].items():
            assert all(torch.equal(values[key], actual["state"][number][key]) for key in values)
    save(checkpoint, 4, 1.0, resumed.state())
    assert torch.load(checkpoint)["step"] == 4
    assert [*tmp_path.iterdir()] == [checkpoint]  # no partial files


def test_model_holds_rounded_copies_of_precise_masters():
    modules, masters = make_masters()
    before = {name: copy.clone() for name, copy in masters.copies.items()}
    for step in range(3):
        train(modules, masters, [step])
        for name, weight in masters.named.items():
            assert weight.grad is None
            assert torch.equal(weight, masters.copies[name].to(torch.bfloat16))
    rounded = [(copy != copy.to(torch.bfloat16).float()).any() for copy in masters.copies.values()]
    assert all(rounded)
    assert all((copy != before[name]).any() for name, copy in masters.copies.items())


def test_step_size_and_decay_depend_on_the_kind_of_weight():
    _, masters = make_masters()
    before = {name: copy.clone() for name, copy in masters.copies.items()}
    for weight in masters.named.values():
        weight.grad = torch.full_like(weight, 1e-3)
    masters.step(1e-3)
    for name, copy in masters.copies.items():
        rate = 1e-3 * (0.3 if name.startswith("visual.") else 1.0)
        decay = 0.02 if copy.ndim > 1 else 0.0
        if name == INNER:
            # rank-one gradient: the step has the norm of a matrix with one singular value of about 1
            length = (copy - before[name] * (1 - MUON_RATE_FACTOR * rate * decay)).norm()
            assert length == pytest.approx(MUON_RATE_FACTOR * rate * 0.2 * math.sqrt(24), rel=0.35)
            continue
        # the first step of Adam has the size of the rate for any gradient
        torch.testing.assert_close(
            copy, before[name] * (1 - rate * decay) - rate, atol=2e-8, rtol=1e-4
        )


def test_gradients_are_clipped_by_their_global_norm():
    _, masters = make_masters()
    for weight in masters.named.values():
        weight.grad = torch.full_like(weight, 8.0)
    norm = masters.step(0.0)
    count = sum(copy.numel() for copy in masters.copies.values())
    assert norm == pytest.approx(8 * math.sqrt(count), rel=1e-5)
    squares = sum(float((copy.grad**2).sum()) for copy in masters.copies.values())
    assert math.sqrt(squares) == pytest.approx(MAX_GRADIENT_NORM, rel=1e-4)


def test_rate_warms_up_linearly_and_follows_a_cosine():
    rates = [rate_at(step, 1000, 2.0) for step in range(1000)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[49] == pytest.approx(1.0)
    assert rates[99] == rates[100] == pytest.approx(2.0)
    assert rates[550] == pytest.approx(2.0 * (1 + 0.05) / 2)
    assert max(rates) == pytest.approx(2.0)
    assert all(a < b for a, b in pairwise(rates[:100]))
    assert all(a > b for a, b in pairwise(rates[100:]))
    assert rate_at(1000, 1000, 2.0) == rate_at(5000, 1000, 2.0) == pytest.approx(0.1)
    assert rate_at(3, 4, 2.0) == pytest.approx(0.08)  # shorter than the warm-up
