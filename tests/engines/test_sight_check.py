"""The sight check: its images, and how replies are judged."""

from __future__ import annotations

import pytest

from render_agent.engines.sight_check import code_image, draw_codes, judge_sight, read_code


def test_codes_differ_and_have_four_digits_without_a_leading_zero():
    pairs = [draw_codes() for _ in range(200)]
    assert all(first != second for first, second in pairs)
    assert all(str(int(code)) == code and len(code) == 4 for pair in pairs for code in pair)
    assert len({code for pair in pairs for code in pair}) > 200


@pytest.mark.parametrize("size", [(640, 480), (320, 240), (1024, 256), (200, 900), (32, 32)])
def test_code_fills_the_image_and_is_not_cut_off(size):
    image = code_image("4821", size)
    assert image.size == size
    left, top, right, bottom = image.convert("L").point(lambda value: 255 * (value < 128)).getbbox()
    assert min(left, top) > 0
    assert right < size[0]
    assert bottom < size[1]
    assert right - left > size[0] / 2 or bottom - top > size[1] / 3


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("4821", "4821"),
        ("The code is 4821.", "4821"),
        ('{"code": 4821, "done": true}', "4821"),
        ("**4821** (four digits: 4 8 2 1)", "4821"),
        ("4-8-2-1", "4821"),
        ("<think>1234 or 9999?</think>\n4821", "4821"),
        ("<think>it shows 4821", None),
        ("4821 or 4827", None),
        ("48213", None),
        ("1 4821 2", "4821"),
        ("I see no image.", None),
        ("", None),
    ],
)
def test_code_is_the_only_four_digit_number_of_a_reply(reply, code):
    assert read_code(reply) == code


@pytest.mark.parametrize(
    ("replies", "finding"),
    [
        (["1111", "2222"], "sighted"),
        (["1111", "1111"], "stale"),
        (["2222", "2222"], "blind"),
        (["1111", "no image"], "blind"),
        (["3333", "3333"], "blind"),
        (["none"], "blind"),
        ([], "unknown"),
    ],
)
def test_replies_show_whether_a_model_sees_current_images(replies, finding):
    assert judge_sight(["1111", "2222"], replies) == finding
