"""``make fuzz``: files and requests that are wrong in every way we could think of.

Each case is made from a good file by a seed, and tried in a forked process that may take so much memory and time and no
more. It passes if it is read, and then holds only what may be in it, or if it is refused by an error written for
people. Anything else (another exception, a crash, a limit) is a fault: its files are kept below ``fuzz-found/``, and
belong into ``tests/regressions/`` once they are mended.

A process tries a few cases in turn, for a fork costs more than most of them; what looks like a fault is tried again in
a process of its own before it counts. The run is cut into parts by ``--first`` and ``--cases``.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_targets import TARGETS, Files, application, check_sentence
from simsc.errors import SimscError

MEMORY = 1536 << 20
SECONDS = 20
IN_TURN = 20
"""Cases that one process tries."""
READ, REFUSED, FAULT = "read", "refused", "fault"
_BEGIN, _END = "\x1ebegin\n", "\x1eend "
Result = tuple[str, str]
"""``(read | refused | fault, what happened)``."""


def case(name: str, seed: int, known: dict[str, Files]) -> Files:
    """The files of a case: the good ones with one of them damaged."""
    target = TARGETS[name]
    files = known.setdefault(name, target.make())
    chance = random.Random(f"{name} {seed}")
    chosen = chance.choice(sorted(path for path in files if re.fullmatch(target.damaged, path)))
    return {**files, chosen: target.mutate(files[chosen], chance)}


def outcomes(name: str, cases: Sequence[Files]) -> list[Result]:
    """What became of some cases, each of which is fine or was a fault in a process of its own as well."""
    if not cases:
        return []
    results = _in_turn(name, cases)
    for index, (result, _) in enumerate(results):
        if result == FAULT and len(cases) > 1:
            results[index] = outcome(name, cases[index])
    return results + outcomes(name, cases[len(results) :])  # those after a case that ended the process


def outcome(name: str, files: Files) -> Result:
    """What became of a case in a process of its own."""
    return _in_turn(name, [files])[0]


def _in_turn(name: str, cases: Sequence[Files]) -> list[Result]:
    """Results of the first cases, up to and with the one that ended the process."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os._exit(_in_child(name, cases, Path(place), said))
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    results = []
    for part in text.split(_BEGIN)[1:]:
        body, ended, code = part.rpartition(_END)
        if ended:
            results.append((code.strip(), body[:20_000]))
            continue
        how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
        results.append((FAULT, f"{part[:20_000]}\nended by {how}"))
    return results or [(FAULT, f"the process did not begin: {text[:20_000]}")]


def _in_child(name: str, cases: Sequence[Files], place: Path, said: IO[bytes]) -> int:
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    faulthandler.enable()
    limit = MEMORY + _data_bytes()  # a test's process may hold much already
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, files in enumerate(cases):
        os.write(1, _BEGIN.encode())
        used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, resource.RLIM_INFINITY))
        signal.alarm(15 * SECONDS)  # waiting for ever is no use of the processor; a busy machine makes one wait
        result = _attempt(name, files, place / str(number))
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(1, f"{_END}{result}\n".encode())
    return 0


def _attempt(name: str, files: Files, folder: Path) -> str:
    try:
        folder.mkdir()
        keep(files, folder)
        TARGETS[name].attempt(folder)
        return READ
    except SimscError as error:
        try:
            print(check_sentence(error))
            return REFUSED
        except AssertionError as fault:
            print(fault)
    except BaseException:
        traceback.print_exc()
    return FAULT


def _data_bytes() -> int:
    """What counts for RLIMIT_DATA in this process now."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmData:")[1].split()[0]) * 1024


def keep(files: Files, folder: Path) -> None:
    """Write down a case."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def warm(name: str) -> None:
    """Have this process import what the target needs, without starting threads, which a fork would not survive."""
    if name == "server":
        application()
    elif name == "review":
        import simsc.web.review  # noqa: F401
    elif name != "archives":
        with tempfile.TemporaryDirectory() as place:
            keep(TARGETS[name].make(), Path(place))
            TARGETS[name].attempt(Path(place))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--first", type=int, default=1000, help="seed of the first case of each target")
    options.add_argument("--only", choices=TARGETS)
    options.add_argument("--found", type=Path, default=Path("fuzz-found"))
    given = options.parse_args()
    names = [given.only] if given.only else list(TARGETS)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    faults: Counter[str] = Counter()
    known: dict[str, Files] = {}
    for name in names:  # what a reader imports is imported once, here
        warm(name)
        assert (good := outcome(name, TARGETS[name].make()))[0] == READ, (name, good)
    begun, done, seed = time.monotonic(), 0, given.first
    while done < given.cases:
        for name in names:
            seeds = range(seed, seed + min(IN_TURN, given.cases - done))
            cases = [case(name, each, known) for each in seeds]
            for each, files, (result, said) in zip(seeds, cases, outcomes(name, cases), strict=True):
                counts[name][result] += 1
                if result == FAULT:
                    last = said.strip().splitlines()[-1:] or [""]
                    faults[f"{name}: {last[0][:150]}"] += 1
                    keep(files, given.found / f"{name.replace(' ', '-')}-{each}")
            done += len(seeds)
        seed += IN_TURN
        processor = sum(os.times()[:4])
        print(
            f"{done} cases to seed {seed - 1}, {faults.total()} faults, {time.monotonic() - begun:.0f} s, "
            f"{processor:.0f} s of the processor",
            flush=True,
        )
    for name, count in counts.items():
        print(f"{name:16} read {count[READ]:5}  refused {count[REFUSED]:5}  faults {count[FAULT]}")
    for fault, times in faults.most_common():
        print(f"{times:5} x {fault}")
    print(f"{done} cases, {faults.total()} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
