"""Steps on float32 masters: a training that was cut off goes on as if it had not been."""

import math
from collections import OrderedDict
from itertools import pairwise

import pytest

from training.optimizer import BOLDER, CLIP, Masters, rate_at, save

torch = pytest.importorskip("torch")


INNER = "visual.blocks.weight"


@pytest.fixture(autouse=True)
def one_thread():
    """Sums come out the same only with the same number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made(**options):
    """Return two small bfloat16 networks, always the same, and their masters; one of the two is slow."""
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
    return modules, Masters(modules, decay=0.02, slow=("visual",), factor=0.3, **options)


def trained(modules, masters, steps):
    """Make some steps, each on examples of its own; return the norms of their gradients."""
    norms = []
    for step in steps:
        chance = torch.Generator().manual_seed(step)
        given = torch.randn(16, 12, generator=chance).to(torch.bfloat16)
        wanted = torch.randint(5, (16,), generator=chance)
        scores = modules["text"](modules["visual"](given)).float()
        torch.nn.functional.cross_entropy(scores, wanted).backward()
        norms.append(masters.step(rate_at(step, 4, 0.01, warm=2)))
    return norms


def test_saved_and_restored_between_two_steps_the_weights_are_the_same_bits(tmp_path):
    modules, masters = made()
    whole = trained(modules, masters, range(4))
    begun, first = made()
    norms = trained(begun, first, range(2))
    checkpoint = tmp_path / "some.pt"
    save(checkpoint, 2, 0.5, first.state())
    kept = torch.load(checkpoint)
    assert (kept["step"], kept["hours"]) == (2, 0.5)

    torch.manual_seed(9)
    again, second = made()
    with torch.no_grad():
        for weight in (*again["visual"].parameters(), *again["text"].parameters()):
            weight.zero_()  # nothing is left but what was saved
    second.restore(kept["masters"])
    norms += trained(again, second, range(2, 4))
    assert norms == whole
    for name, copy in masters.copies.items():
        assert torch.equal(copy, second.copies[name]), name
        assert torch.equal(masters.named[name], second.named[name]), name
    for name, optimizer in masters.optimizers.items():
        one, other = optimizer.state_dict(), second.optimizers[name].state_dict()
        assert one["state"].keys() == other["state"].keys()
        for number, values in one["state"].items():
            assert all(torch.equal(values[key], other["state"][number][key]) for key in values)
    save(checkpoint, 4, 1.0, second.state())
    assert torch.load(checkpoint)["step"] == 4
    assert [*tmp_path.iterdir()] == [checkpoint]  # nothing half written beside it


def test_the_model_holds_the_rounded_masters_which_keep_what_rounding_would_lose():
    modules, masters = made()
    before = {name: copy.clone() for name, copy in masters.copies.items()}
    for step in range(3):
        trained(modules, masters, [step])
        for name, weight in masters.named.items():
            assert weight.grad is None
            assert torch.equal(weight, masters.copies[name].to(torch.bfloat16))
    rounded = [(copy != copy.to(torch.bfloat16).float()).any() for copy in masters.copies.values()]
    assert all(rounded)
    assert all((copy != before[name]).any() for name, copy in masters.copies.items())


def test_slow_weights_take_shorter_steps_inner_ones_bolder_and_only_matrices_decay():
    _, masters = made()
    before = {name: copy.clone() for name, copy in masters.copies.items()}
    for weight in masters.named.values():
        weight.grad = torch.full_like(weight, 1e-3)
    masters.step(1e-3)
    for name, copy in masters.copies.items():
        rate = 1e-3 * (0.3 if name.startswith("visual.") else 1.0)
        decay = 0.02 if copy.ndim > 1 else 0.0
        if name == INNER:
            # a gradient of one direction: the step is as long as a matrix of one singular value, about 1
            length = (copy - before[name] * (1 - BOLDER * rate * decay)).norm()
            assert length == pytest.approx(BOLDER * rate * 0.2 * math.sqrt(24), rel=0.35)
            continue
        # the first step of Adam is one rate long, whatever the gradient
        torch.testing.assert_close(
            copy, before[name] * (1 - rate * decay) - rate, atol=2e-8, rtol=1e-4
        )


def test_long_gradients_are_shortened_together():
    _, masters = made()
    for weight in masters.named.values():
        weight.grad = torch.full_like(weight, 8.0)
    norm = masters.step(0.0)
    count = sum(copy.numel() for copy in masters.copies.values())
    assert norm == pytest.approx(8 * math.sqrt(count), rel=1e-5)
    left = sum(float((copy.grad**2).sum()) for copy in masters.copies.values())
    assert math.sqrt(left) == pytest.approx(CLIP, rel=1e-4)


def test_the_rate_rises_in_a_line_and_falls_along_half_a_cosine():
    rates = [rate_at(step, 1000, 2.0) for step in range(1000)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[49] == pytest.approx(1.0)
    assert rates[99] == rates[100] == pytest.approx(2.0)
    assert rates[550] == pytest.approx(2.0 * (1 + 0.05) / 2)
    assert max(rates) == pytest.approx(2.0)
    assert all(a < b for a, b in pairwise(rates[:100]))
    assert all(a > b for a, b in pairwise(rates[100:]))
    assert rate_at(1000, 1000, 2.0) == rate_at(5000, 1000, 2.0) == pytest.approx(0.1)
    assert rate_at(3, 4, 2.0) == pytest.approx(0.08)  # a training shorter than its rise
