"""A fixed part of ``make fuzz``, quick enough for every day, and the files that were a fault once."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes of its own")
HERE = Path(__file__).parent
REGRESSIONS = sorted(path for path in (HERE / "regressions").glob("*/*") if path.is_dir())
CASES = 500
NEEDS = dict.fromkeys(("manifest", "parquet", "job", "encodings"), ("pyarrow",))
NEEDS |= dict.fromkeys(("server", "review"), ("fastapi", "httpx"))


def _load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("fuzz", HERE / "fuzz.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["fuzz"] = module
    specification.loader.exec_module(module)
    return module


fuzz = _load()


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_damaged_files_are_read_or_refused(name: str) -> None:
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed)
    known: dict[str, dict[str, bytes]] = {}
    fuzz.warm(name)
    cases = [fuzz.case(name, seed, known) for seed in range(-(-CASES // len(fuzz.TARGETS)))]
    first, *results = fuzz.outcomes(name, [fuzz.TARGETS[name].make(), *cases])
    assert first[0] == fuzz.READ, first
    for seed, (result, said) in enumerate(results):
        assert result != fuzz.FAULT, f"seed {seed}: {said}"


@pytest.mark.parametrize("folder", REGRESSIONS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_a_fault_is_none_any_more(folder: Path) -> None:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result, said = fuzz.outcome(folder.parent.name.replace("-", " "), files)
    assert result != fuzz.FAULT, said
