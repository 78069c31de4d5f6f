"""Ask one question about a scan and show how it was answered.

python ask_a_scan.py [SCAN.ply] [QUESTION] [MODEL]

Without MODEL, a scripted explorer looks around and answers by rule; it needs no GPU and no download.
"""

import sys

import render_agent

arguments = dict(enumerate(sys.argv))
scan = arguments.get(1, render_agent.bundled_rooms()["room01"])
question = arguments.get(2, "Is the piano left or right of the armchair, seen from the sofa?")
engine = {"model": arguments[3]} if 3 in arguments else {"engine": "scripted"}

dialogue = render_agent.ask(scan, question, options=["left", "right"], **engine)

for turn in dialogue.turns:
    print(f"turn {turn.number}: shown {', '.join(view.kind for view in turn.views)}")
    print(f"  {turn.reply}")
    print(f"  {turn.feedback}")
print(f"answer: {dialogue.answer} ({dialogue.status})")
print(f"map of its path: {dialogue.map().save('map.png')}")
print(f"run folder: {dialogue.folder.path}")
