"""A policy file for probed runs: explores, and believes that it has seen no object."""

import json

from render_agent.engines.scripted.blind_policies import ExplorerPolicy


def empty_belief(request):
    """Return the belief of a policy that knows its position, and has seen no object."""
    probe = request.probe
    x, y, _ = probe.camera.position
    belief = {
        "objects": [],
        "counts": [{"category": name, "count": 0} for name in probe.named],
        "position": [round(x, 2), round(y, 2)],
        "yaw_degrees": round(probe.camera.yaw),
        "unseen": list(probe.named),
    }
    return json.dumps({key: belief[key] for key in probe.keys if key in belief})


class Mapper(ExplorerPolicy):
    """Explores, and replies to probes with an empty map."""

    def believe(self, request):
        """Return the reply to a probe."""
        return empty_belief(request)


def policy(questions, seed):
    """Return the policy."""
    return Mapper(questions, seed)
