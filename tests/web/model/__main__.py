"""`python -m tests.web.model CASES`: random traffic on our connections, judged by h11.

Each case is a pipeline of valid and broken requests, cut at random places, from a client that stops
to read, reads on, half-closes, goes away or falls silent at random moments, in virtual time. h11
reads the same bytes as a whole; what it finds in them must be what our application was asked, in
that order, each request answered or refused within its deadline, and reading never stopped while
a body is owed.
"""

import argparse
import multiprocessing
import sys
import time

from tests.web.model.case import Case


def run(seeds: range) -> int:
    """Run these cases; the first that fails is raised with its seed."""
    for seed in seeds:
        try:
            Case(seed).run()
        except Exception as failure:
            failure.add_note(f"the case with the seed {seed}")
            raise
    return len(seeds)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Run as many as asked, on two processes, and say how many there were."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.model", description=__doc__)
    parser.add_argument("cases", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    began = time.monotonic()
    end = chosen.first + chosen.cases
    batches = [range(at, min(at + 2_000, end)) for at in range(chosen.first, end, 2_000)]
    done = 0
    with multiprocessing.Pool(chosen.processes) as pool:
        for count in pool.imap_unordered(run, batches):
            done += count
            if done % 50_000 == 0:
                _say(f"{done:,} cases, {time.monotonic() - began:,.0f} s")
    _say(f"{done:,} cases agree with h11, {time.monotonic() - began:,.0f} s")


if __name__ == "__main__":
    main()
