"""Ask one question about a scan and show how it was answered.

python ask_a_scan.py [SCAN.ply] [QUESTION] [MODEL]

Without MODEL, a scripted explorer looks around and answers by rule; it needs no GPU and no download.
"""

import sys

import render_agent

given = dict(enumerate(sys.argv))
scan = given.get(1, render_agent.bundled_rooms()["room01"])
question = given.get(2, "Is the piano left or right of the armchair, seen from the sofa?")
engine = {"model": given[3]} if 3 in given else {"engine": "scripted"}

dialogue = render_agent.ask(scan, question, options=["left", "right"], **engine)

for turn in dialogue.turns:
    print(f"turn {turn.number}: shown {', '.join(view.kind for view in turn.views)}")
    print(f"  {turn.reply}")
    print(f"  {turn.feedback}")
print(f"answer: {dialogue.answer} ({dialogue.status})")
print(f"map of its path: {dialogue.map().save('map.png')}")
print(f"run folder: {dialogue.folder.path}")
