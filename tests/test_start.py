"""What a command imports is most of the time it takes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
from PIL import Image

HEAVY = {"transformers", "torch._dynamo", "torch._inductor", "torch.onnx", "sympy", "scipy", "matplotlib", "fastapi"}
MATCH = """
import json, sys
from simsc.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)))
"""


def imported(*arguments: str) -> set[str]:
    """Modules that a command has imported when it ends."""
    run = subprocess.run([sys.executable, "-c", MATCH, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_a_match_imports_nothing_heavy_but_torch(tmp_path) -> None:
    pictures = [str(tmp_path / f"{number}.png") for number in range(2)]
    for seed, picture in enumerate(pictures):
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(picture)
    modules = imported("match", *pictures, "--grid", "2")
    assert "torch" in modules
    assert not HEAVY & modules


def test_help_imports_no_torch() -> None:
    assert not {"torch", "numpy", *HEAVY} & imported("--help")
