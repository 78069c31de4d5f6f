"""Questions, turns and states without a scene, for tests of dialogues."""

from render_agent.dialogue.chat import View, message, text
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.scans.camera import Camera

HERE = Camera((1.0, 2.0, 1.6))


def question(**more):
    given = {
        "id": "7",
        "benchmark": "b",
        "dataset": "d",
        "scene": "s",
        "type": "t",
        "text": "?",
        "answer_form": "text",
        "scan": "s.ply",
    }
    return Question(**given | more)


def turn(number, action, camera_before=HERE, camera=HERE):
    return Turn(
        question_id="7",
        number=number,
        phase="batched",
        views=(View(number, "ego", f"{number}.png", HERE),),
        messages=(message("user", text(f"turn {number}")),),
        reply=f"reply {number}",
        action=action,
        feedback="",
        camera_before=camera_before,
        camera=camera,
    )


def state(*actions, max_turns=3, **more):
    made = QuestionState(question(**more), scenes=None, max_turns=max_turns)
    for number, action in enumerate(actions):
        made.take(turn(number, action))
    return made
