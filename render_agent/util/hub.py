"""Finds files on the Hugging Face hub or in its local cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from render_agent.errors import SetupError

HUB_SECONDS = 10.0  # timeout of the first request


def hub_file(
    name: str,
    file: str,
    otherwise: str,
    *,
    dataset: bool = False,
    revision: str | None = None,  # branch, tag or commit; None for the default branch
) -> tuple[Path, Sequence[str] | None]:
    """Return the current version of a file on the hub and the names of all files in its repository.

    If the hub cannot be reached, return the cached file and None.
    """
    from huggingface_hub import HfApi, constants, errors, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.utils import disable_progress_bars, validate_repo_id  # type: ignore[attr-defined]

    disable_progress_bars()
    place, noun = ("file", "dataset ") if dataset else ("directory", "model ")
    full_name = f"{name} at revision {revision}" if revision else name
    source: dict[str, Any] = {"revision": revision, "repo_type": "dataset" if dataset else "model"}
    offline = constants.HF_HUB_OFFLINE
    try:
        validate_repo_id(name)
        if not offline:
            # Asked first because, unlike the download, it does not retry if the hub is unreachable.
            repo: Any = HfApi().repo_info(name, timeout=HUB_SECONDS, **source)
            path = hf_hub_download(name, file, **source)
            return Path(path), [entry.rfilename for entry in repo.siblings or []]
    except errors.HFValidationError as error:
        raise SetupError(f"{name!r} is neither a {place} nor a hub id: {otherwise}") from error
    except errors.GatedRepoError as error:
        raise SetupError(
            f"{name} is gated: accept its terms on huggingface.co and log in with"
            f" `hf auth login`, or {otherwise}"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise SetupError(
            f"there is no {noun}{full_name} on the hub and no {place} of that name: check the name, or {otherwise}"
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        raise SetupError(f"{full_name} has no {file} on the hub: {otherwise}") from error
    # errors.HTTPError is the base class of client errors in every supported version.
    except (OSError, errors.HTTPError):  # type: ignore[attr-defined]
        pass
    cached_path = try_to_load_from_cache(name, file, **source)
    if not isinstance(cached_path, str):
        why = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
        raise SetupError(f"{name} is not in the local cache and {why}: {otherwise}")
    return Path(cached_path), None
