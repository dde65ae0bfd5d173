"""SimSC models on the Hugging Face hub: ``hf:<owner>/<name>``, also ``@<revision>``. Imports no torch.

A repository that holds :data:`FILE` is a trained model of this project; any other one is a backbone for
:mod:`simsc.models.hub`. One file is fetched, weights and description in one, which cannot execute code. The commit that
it is of becomes part of the model's name, so that what is trained or measured with it says what it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simsc.errors import ConfigError, WeightsError
from simsc.models.card import Card
from simsc.models.specs import HUB_PREFIX
from simsc.models.weights import first_line

FILE = "simsc.safetensors"
PAGE = "README.md"


def find_published(name: str) -> Path | None:
    """The model file of ``hf:<repository>[@<revision>]`` or ``hf:<folder>``; None if it holds none of this project's.

    What is in the local cache is taken from there, so that it works offline and does not change under our feet.
    """
    repository = name.removeprefix(HUB_PREFIX)
    if Path(repository).is_dir():
        return Path(repository) / FILE if (Path(repository) / FILE).is_file() else None
    hub = _library()
    repository, _, revision = repository.partition("@")
    place = {"repo_id": repository, "revision": revision or None}
    try:
        for file in (FILE, "config.json"):  # a configuration in the cache means a backbone that was used before
            found = hub.try_to_load_from_cache(filename=file, **place)
            if isinstance(found, str):
                return Path(found) if file == FILE else None
        return Path(hub.hf_hub_download(filename=FILE, **place))
    except hub.errors.LocalEntryNotFoundError as error:
        raise _unreachable(name, error) from None
    except hub.errors.EntryNotFoundError:
        return None
    except (OSError, ValueError, hub.errors.HTTPError) as error:
        raise _unreachable(name, error) from None


def pinned_name(name: str, path: Path) -> str:
    """The name with the commit that its file in the cache is of; that of a folder stays as it is.

    >>> pinned_name("hf:owner/name@main", Path("snapshots/0a1b/simsc.safetensors"))
    'hf:owner/name@0a1b'
    """
    if path.parent.parent.name != "snapshots":
        return name
    return f"{name.partition('@')[0]}@{path.parent.name}"


def push(path: Path, repository: str, *, private: bool = False) -> str:
    """Publish a model file; returns the name, with its commit, that opens it. The page of a repository is kept.

    Args:
        path: the model file.
        repository: ``owner/name``; made if it is not there.
        private: whether a new repository is to be seen by its owner alone.
    """
    hub, card = _library(), Card.read(path)
    api = hub.HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        files: dict[str, Path | bytes] = {FILE: path}
        if not api.file_exists(repository, PAGE):
            files[PAGE] = model_page(card, repository).encode()
        additions = [hub.CommitOperationAdd(name, content) for name, content in files.items()]
        commit = api.create_commit(repository, additions, commit_message="Publish a SimSC model")
    except (OSError, ValueError, hub.errors.HTTPError) as error:
        raise WeightsError(
            f"cannot publish {path} as {repository} ({first_line(error)}); check the name and the connection, "
            "and log in with: hf auth login"
        ) from None
    return f"{HUB_PREFIX}{repository}@{commit.oid}"


def model_page(card: Card, repository: str) -> str:
    """The page of a model in Markdown: metadata that the hub reads, how to use it, and what its card says."""
    design = card.design
    facts = {
        "backbone": f"`{design.backbone}`",
        "head": f"`{design.head}`",
        "temperature": f"`{design.temperature}`",
        "input": f"{card.image_size or 'the usual of its backbone'}",
        "localiser": f"`{card.localizer}`",
        "trained on": f"`{card.learned_from or 'not recorded'}`",
        "calibrated confidence": "no" if card.calibration is None else "yes",
        "mean of": f"{card.averaged} models",
    }
    if card.best is not None:
        figures = ", ".join(f"{value:.1f} @{alpha}" for alpha, value in card.best.val.items())
        facts["validation that chose it"] = f"PCK {figures}, protocol `{card.protocol}`"
    table = "\n".join(f"| {key} | {value} |" for key, value in facts.items())
    return f"""---
library_name: simsc
tags:
- simsc
- semantic-correspondence
- keypoint-matching
---

# {repository.rpartition("/")[2]}

Finds for a point in one image the point of the same meaning in another image of the same kind of thing.

```python
import simsc

matcher = simsc.load("{HUB_PREFIX}{repository}")
m = matcher.match("one.jpg", "two.jpg", [(120, 88)])
```

| | |
|---|---|
{table}

Weights and the whole description are in `{FILE}`. Terms of use: to be stated here by its publisher; those of the
starting weights and of the training data apply.
"""


def _library() -> Any:
    try:
        import huggingface_hub.errors
    except ImportError as error:
        raise ConfigError(
            f"{HUB_PREFIX}<repository> needs huggingface_hub ({error}); install it with: pip install 'simsc[hub]'"
        ) from error
    return huggingface_hub


def _unreachable(name: str, error: Exception) -> WeightsError:
    return WeightsError(f"cannot load {name} ({first_line(error)}); check the name and the connection")
