"""A person reaches a target view in the browser."""

from factories.human_runs import human_run
from factories.views import ROWS, SIZE, view_questions
from playwright.sync_api import expect


def test_a_person_reaches_the_target(tmp_path, page):
    questions = view_questions(tmp_path, {"translation": ROWS["translation"]})
    with human_run(tmp_path, questions, image_size=SIZE, view_types=("ego",)) as human:
        page.goto(human.engine.address)
        expect(page.locator("body")).to_contain_text("View 0, the target image")
        expect(page.locator("#answer, [name=answer]")).to_have_count(0)
        for _ in range(3):
            page.get_by_role("button", name="half a metre ahead").click()
        expect(page.locator("#preview")).to_contain_text('"forward_meters":1.5')
        page.locator("#send").click()
        expect(page.locator(".feedback")).to_contain_text("1.5 m forward")
        page.get_by_label("I am done: this is the view").check()
        expect(page.locator("#preview")).to_have_text('{"done":true}')
        page.locator("#send").click()
        expect(page.locator("h1")).to_have_text("Session over")
    errors = human.lines()[-1]["target_errors"]
    assert errors[-1]["position"] < 0.01
    assert human.results["questions"][0]["score"] == 1.0
