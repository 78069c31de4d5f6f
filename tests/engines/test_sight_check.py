"""The sight check: its images, and how replies are judged."""

from __future__ import annotations

import time

import pytest

from render_agent.engines.sight_check import code_image, draw_codes, judge_sight, states_code


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


SEEN = (
    "5470",
    "The code is 5470.",
    "5,470",
    "5.470",
    "5 470",
    "5\u00a0470",
    "5\u202f470",
    "5'470",
    "5’470",
    "5_470",
    "5{,}470",
    "$5\\,470$",
    "5&nbsp;470",
    "5-4-7-0",
    "5–4–7–0",
    "5 4 7 0",
    "5, 4, 7, 0",
    "5、4、7、0",
    "5·4·7·0",
    "5 | 4 | 7 | 0",
    "[5, 4, 7, 0]",
    "5\n4\n7\n0",
    "54 70",
    "**5** **4** **7** **0**",
    "`5470`",
    "**5470** (four digits: 5 4 7 0)",
    "\\boxed{5470}",
    '{"code": 5470, "done": true}',
    '{"code": "5470"}',
    "5470.0",
    "#5470",
    "５４７０",
    "５，４７０",
    "٥٤٧٠",
    "५४७०",
    "五四七零",
    "五四七〇",
    "𝟓𝟒𝟕𝟎",
    "⑤④⑦⓪",
    "5️⃣4️⃣7️⃣0️⃣",
    "five four seven zero",
    "Five-Four-Seven-Zero.",
    "First digit 5, second digit 4, third digit 7, fourth digit 0.",
    "As of 2026, the image shows 5470.",
    "Today is 2026-11-29; the image shows 5470.",
    "The image (640 x 480, 1 of 2) shows 5470",
    "Check abcdefgh: 5470",
    "1. 5470",
    "1 5470 2",
    "Das Bild zeigt die vier Ziffern 5.470.",
    "L'image montre les chiffres 5 470.",
    "La imagen muestra el número 5470.",
    "图片显示的四位数字是5470。",
    "画像には「５４７０」と表示されています。",
    "이미지에 5470이라고 적혀 있습니다.",
    "На изображении 5 470.",
    "تُظهر الصورة ٥٤٧٠",
    "छवि में ५४७० है",
    "<think>1234 or 9999?</think>\n5470",
    "It looks like 5470, or perhaps 5478.",
)

NOT_SEEN = (
    "",
    "I see no image.",
    "Ich sehe kein Bild.",
    "我看不到图片。",
    "none",
    "0",
    "<think>it shows 5470",
    "<think>5470</think> I see no image.",
    "5471",
    "5,471",
    "0745",
    "547",
    "54700",
    "15470",
    "15,470",
    "5,470,000",
    "5.470.123",
    "1.5470",
    "5 4 7",
    "5 4 7 0 1",
    "5, 4, 7, 0, 1, 2",
    "1 5 4 7 0",
    "1, 5, 4, 7, 0",
    "The image shows 5 chairs, 4 tables, 7 lamps and 10 doors.",
    "As of 2026, I cannot see images.",
    "I see no image. Examples: 1234, 5470, 1111, 2222, 3333, 4444",
    " ".join(map(str, range(5465, 5475))),
    "0123456789" * 1000,
    "".join(map(str, range(1000, 10000))),
)


@pytest.mark.parametrize("reply", SEEN)
def test_code_is_read_in_any_phrase_and_format(reply):
    assert states_code(reply, "5470")
    assert judge_sight(["5470", "6466"], [reply, reply.replace("5470", "6466")]) != "blind"
    assert not states_code(reply, "6466")


@pytest.mark.parametrize("reply", NOT_SEEN)
def test_other_numbers_and_lists_of_guesses_are_not_the_code(reply):
    assert not states_code(reply, "5470")
    assert judge_sight(["5470", "6466"], [reply]) == "blind"


def test_long_replies_are_judged_in_linear_time():
    for piece in ("5 4 7 ", "5,", "( ", "five ", "５４７"):
        start = time.perf_counter()
        states_code(piece * 100_000, "5470")
        assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("replies", "finding"),
    [
        (["1111", "2222"], "sighted"),
        (["1111", "1111"], "stale"),
        (["2222", "2222"], "blind"),
        (["1111", "no image"], "blind"),
        (["1,111", "2,222"], "sighted"),
        (["In 2026, I read 1111", "In 2026, I read 2222"], "sighted"),
        (["1111", "Again 1 111."], "stale"),
        (["1111", "First 1111, now 2222"], "sighted"),
        (["3333", "3333"], "blind"),
        (["none"], "blind"),
        ([], "unknown"),
    ],
)
def test_replies_show_whether_a_model_sees_current_images(replies, finding):
    assert judge_sight(["1111", "2222"], replies) == finding
