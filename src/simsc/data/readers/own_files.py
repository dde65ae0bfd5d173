"""Which file of the user's own data holds a split."""

from __future__ import annotations

from pathlib import Path

from simsc.errors import DataError


def split_file(root: Path, split: str, suffixes: tuple[str, ...]) -> Path:
    """``root`` itself if it is a file (then it is a test set), else ``<root>/<split>.<suffix>``."""
    if root.is_file():
        if split != "test":
            raise DataError(
                f"{root}: a single file is a test set; for the split '{split}' give the folder "
                f"that holds {split}{suffixes[0]}"
            )
        return root
    candidates = [root / f"{split}{suffix}" for suffix in suffixes]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DataError(f"{root}: there is no {' or '.join(path.name for path in candidates)}")
