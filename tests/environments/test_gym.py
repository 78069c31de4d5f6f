"""The Gymnasium interface, with Gymnasium's own checks."""

import pytest

gymnasium = pytest.importorskip("gymnasium")

import render_agent  # noqa: E402
import render_agent.environments.gym  # noqa: E402


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Benchmark", {"benchmark": "rooms", "limit": 3}),
        (
            "Question",
            {"scan": render_agent.bundled_rooms()["room00"], "question": "How many chairs?"},
        ),
    ],
)
def test_gymnasium_accepts_the_environments(name, options):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(f"render_agent/{name}-v0", image_size="64x48", max_turns=2, **options)
    check_env(env.unwrapped)
    observation, info = env.reset(seed=5)
    assert observation in env.observation_space
    assert info["conversation"][-1]["role"] == "user"
    assert env.render().shape == (48, 64, 3)
    env.close()
