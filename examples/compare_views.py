"""Does exploring help? The same questions with freely chosen views, with one view, and with none.

python compare_views.py [ENGINE] [MODEL]

By default uses `witness`, a scripted model that answers correctly once it has seen the named objects, and guesses
otherwise.
"""

import sys

import pandas  # if missing: pip install "render_agent[pandas]"

import render_agent

pandas.options.display.precision = 1
engine, model = sys.argv[1:3] if len(sys.argv) > 2 else ("scripted", "witness")
options = {"benchmark": "rooms", "engine": engine, "model": model, "image_size": (160, 120)}
options["scene"] = ["room00", "room02", "room04"]  # only a few questions, to be quick; omit for all
options["type"] = ["object_counting", "object_abs_distance", "object_rel_direction_easy"]
runs = {views: render_agent.run(**options, views=views) for views in ("none", "start", "free")}

for views, results in runs.items():
    print(f"{views}: {results}")
print(runs["free"].types[["n", "score_percent", "low_percent", "high_percent"]])

for views in ("none", "start"):
    comparison = runs[views].compare(runs["free"]).found
    difference = comparison["differences"]["official_raw"]["difference"]
    print(f"free against {views}: {difference:+.1f} points in VSI-Bench score")

runs["free"].diagnosis()  # explains low scores: the named objects were not seen
print(runs["free"].questions.groupby("cause").size())
