"""Looks a file up on the Hugging Face hub, or among what was fetched from it before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from render_agent.errors import SetupError

HUB_SECONDS = 10.0


def hub_file(
    name: str, file: str, otherwise: str, *, dataset: bool = False, revision: str | None = None
) -> tuple[Path, Sequence[str] | None]:
    """Return a file of a model or a data set as it is on the hub now, and the names of all its files there.

    Where the hub cannot be reached: the file as it was fetched before, and None. otherwise: what else
    can be done. SetupError where the hub has no such file or does not give it, and where it cannot be
    reached and the file was not fetched before.
    """
    from huggingface_hub import HfApi, constants, errors, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.utils import disable_progress_bars, validate_repo_id  # type: ignore[attr-defined]

    disable_progress_bars()
    place, noun = ("file", "data set ") if dataset else ("directory", "")
    wanted = f"{name} at revision {revision}" if revision else name
    where: dict[str, Any] = {"revision": revision, "repo_type": "dataset" if dataset else "model"}
    offline = constants.HF_HUB_OFFLINE
    try:
        validate_repo_id(name)
        if not offline:
            # Asked first because it does not try again and again where the hub is out of reach.
            known: Any = HfApi().repo_info(name, timeout=HUB_SECONDS, **where)
            path = hf_hub_download(name, file, **where)
            return Path(path), [entry.rfilename for entry in known.siblings or []]
    except errors.HFValidationError as error:
        raise SetupError(f"{name!r} is neither a {place} nor a hub name: {otherwise}") from error
    except errors.GatedRepoError as error:
        raise SetupError(
            f"{name} is gated: accept its terms on its page at huggingface.co and log in with"
            f" `hf auth login`, or {otherwise}"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise SetupError(
            f"the hub knows no {noun}{wanted}, and no {place} has that name: check the name, or {otherwise}"
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        raise SetupError(f"{wanted} has no {file} on the hub: {otherwise}") from error
    # The root of its client's errors, whichever client this version of the library uses.
    except (OSError, errors.HTTPError):  # type: ignore[attr-defined]
        pass
    cached = try_to_load_from_cache(name, file, **where)
    if not isinstance(cached, str):
        why = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
        raise SetupError(f"{name} is not on this machine and {why}: {otherwise}")
    return Path(cached), None
