"""All benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from simsc.bench.matching import bench_dense, bench_queries
from simsc.bench.models import bench_evaluation, bench_pair, bench_training
from simsc.bench.ratio import Ratio
from simsc.errors import ConfigError, unknown_name

CASES: dict[str, Callable[[bool], list[Ratio]]] = {
    "queries": bench_queries,
    "dense": bench_dense,
    "match": bench_pair,
    "training": bench_training,
    "evaluation": bench_evaluation,
}


def run_cases(names: Sequence[str] = (), quick: bool = False) -> Iterator[Ratio]:
    """Run the named benchmarks, all by default; ``quick`` shrinks them so that only their working is shown."""
    for name in names:
        if name not in CASES:
            raise ConfigError(unknown_name("benchmark", name, CASES))
    for name in names or CASES:
        yield from CASES[name](quick)
