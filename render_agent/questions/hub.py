"""Questions fetched by name from the Hugging Face hub, and kept in its cache."""

from __future__ import annotations

import re
from pathlib import Path

from render_agent.errors import SetupError

VSIBENCH = "nyu-visionx/VSI-Bench"
"""VSI-Bench's name on the hub."""

FILE = "test.jsonl"
"""The file of its questions there."""

HUB_SECONDS = 10.0

NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")

WAY_OUT = f"download {FILE} of {VSIBENCH} and give --questions FILE"


def is_hub_name(text: str) -> bool:
    """Whether a text is written as the name of a data set on the hub, OWNER/NAME."""
    return NAME.fullmatch(text) is not None


def fetch_questions(name: str) -> Path:
    """Return the file of questions of a data set on the hub, as it is there now.

    Where the hub cannot be reached, as it was fetched before. SetupError where there is no such data
    set, or it was not fetched before.
    """
    from huggingface_hub import HfApi, constants, errors, hf_hub_download
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        return _fetched_before(name, "HF_HUB_OFFLINE is set")
    disable_progress_bars()
    try:
        # Asked first because it does not try again and again where the hub is out of reach.
        HfApi().dataset_info(name, timeout=HUB_SECONDS)
        return Path(hf_hub_download(name, FILE, repo_type="dataset"))
    except errors.GatedRepoError as error:
        raise SetupError(
            f"{name} is gated: accept its terms on its page at huggingface.co and log in with"
            f" `hf auth login`, or {WAY_OUT}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise SetupError(
            f"the hub knows no data set {name}, and no file has that name: {WAY_OUT}"
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        raise SetupError(f"{name} has no {FILE} on the hub: {WAY_OUT}") from error
    # The root of its client's errors, whichever client this version of the library uses.
    except (OSError, errors.HTTPError):  # type: ignore[attr-defined]
        return _fetched_before(name, "the hub cannot be reached")


def _fetched_before(name: str, why: str) -> Path:
    """Return the file of questions in the hub's cache on this machine."""
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, FILE, repo_type="dataset")
    if not isinstance(cached, str):
        raise SetupError(f"{name} is not on this machine and {why}: {WAY_OUT}")
    return Path(cached)
