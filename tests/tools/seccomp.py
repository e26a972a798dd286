#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command under the system call filter that systemd would make of a unit, without systemd.

usage: seccomp.py [--print] UNIT -- COMMAND…

SystemCallFilter= (groups by `systemd-analyze syscall-filter`), RestrictAddressFamilies= and
MemoryDenyWriteExecute= are applied; what the unit would answer with an error kills the process
here, so that a call that is missed cannot go unseen.
"""
import ctypes
import errno
import os
import re
import struct
import subprocess
import sys

HEADERS = ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"]
AUDIT_ARCH_X86_64 = 0xC000003E
KILL, ALLOW = 0x80000000, 0x7FFF0000
LD, JEQ, JSET, RET = 0x20, 0x15, 0x45, 0x06
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def numbers():
    for path in HEADERS:
        if os.path.exists(path):
            text = open(path).read()
            return {n: int(v) for n, v in re.findall(r"#define __NR_(\w+)\s+(\d+)", text)}
    sys.exit("seccomp.py: no asm/unistd_64.h")


def group(name):
    """The calls of a group, those of its own groups too."""
    run = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name],
                         capture_output=True, text=True, check=True)
    calls = set()
    for line in run.stdout.splitlines()[1:]:
        word = line.strip()
        if word and not word.startswith("#"):
            calls |= group(word) if word.startswith("@") else {word}
    return calls


def settings(unit, key):
    return [m.strip() for m in re.findall(rf"^{key}=(.*)$", open(unit).read(), re.M)]


def allowed(unit):
    """As systemd.exec(5): the first line says what kind of list it is, later ones add or take."""
    calls = group("@default")
    for line in settings(unit, "SystemCallFilter"):
        words = line.lstrip("~").split()
        these = set().union(*(group(w) if w.startswith("@") else {w} for w in words))
        calls = calls - these if line.startswith("~") else calls | these
    return calls


def op(code, k, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, k & 0xFFFFFFFF)


def argument(n):
    return op(LD, 16 + 8 * n)


def program(unit):
    nr = numbers()
    calls = {nr[c] for c in allowed(unit) if c in nr}
    code = [op(LD, 4), op(JEQ, AUDIT_ARCH_X86_64, 1, 0), op(RET, KILL), op(LD, 0)]

    def special(call, body):
        code.extend([op(JEQ, nr[call], 0, len(body) + 1), *body, op(LD, 0)])

    families = settings(unit, "RestrictAddressFamilies")
    if families:
        body = [argument(0)]
        known = [FAMILIES[f] for f in families[0].split()]
        for i, family in enumerate(known):
            body.append(op(JEQ, family, len(known) - i, 0))
        body.append(op(RET, KILL))
        special("socket", body)
    if settings(unit, "MemoryDenyWriteExecute") == ["yes"]:
        # mmap of writable and executable memory; mprotect and shmat to executable
        special("mmap", [argument(2), op(JSET, 2, 0, 2), op(JSET, 4, 0, 1), op(RET, KILL)])
        special("mprotect", [argument(2), op(JSET, 4, 0, 1), op(RET, KILL)])
        special("pkey_mprotect", [argument(2), op(JSET, 4, 0, 1), op(RET, KILL)])
        special("shmat", [argument(2), op(JSET, 0o100000, 0, 1), op(RET, KILL)])
    for call in sorted(calls):
        code.extend([op(JEQ, call, 0, 1), op(RET, ALLOW)])
    code.append(op(RET, KILL))
    return code


class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def main():
    argv = sys.argv[1:]
    if argv[:1] == ["--print"]:
        print("\n".join(sorted(allowed(argv[1]))))
        return
    unit, command = argv[0], argv[2:]
    code = program(unit)
    prog = Fprog(len(code), b"".join(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(prog), 0, 0):
        sys.exit(f"seccomp.py: prctl: {errno.errorcode[ctypes.get_errno()]}")
    os.execvp(command[0], command)


main()
