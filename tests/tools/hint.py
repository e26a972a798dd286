# SPDX-License-Identifier: BSD-2-Clause
"""KV-Prefix values for tests: any hashes do, as long as equal prefixes have equal ones."""
import hashlib
import sys


def rung(depth, name):
    return f"{depth}:{hashlib.sha256(f'{depth}/{name}'.encode()).hexdigest()[:16]}"


def hint(total, name, shared="", shared_depth=0):
    """A prompt of total tokens called name whose first shared_depth are those of `shared`."""
    depth, rungs = 64, []
    while depth <= total and len(rungs) < 24:
        rungs.append(rung(depth, shared if depth <= shared_depth else name))
        depth *= 2
    return f"1;{total}" + "".join("," + r for r in rungs)


if __name__ == "__main__":
    print(hint(int(sys.argv[1]), *sys.argv[2:4], *map(int, sys.argv[4:5])))
