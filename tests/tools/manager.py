#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A stand-in for systemd as kvsteerd sees it: manager.py ADDRESS:PORT DIRECTORY PROGRAM ARGUMENT...

Opens the listening socket (socket activation), runs the program with it as LISTEN_FDS, reads its
notifications, keeps the descriptors it stores, and answers on a system bus of its own which job the
unit is in. SIGUSR1 restarts the program, SIGTERM stops it. Says on stdout what happens.
"""
import array
import fcntl
import os
import signal
import socket
import struct
import sys
import threading

job = "stop"
stored = []
HELD = threading.Lock()


# ---- the bus: as much of the D-Bus protocol as these four calls need

def align(b, n):
    return b + b"\0" * (-len(b) % n)


def string(s):
    return struct.pack("<I", len(s)) + s.encode() + b"\0"


def signature(s):
    return bytes([len(s)]) + s.encode() + b"\0"


def reply(serial, sig, body):
    fields = b""
    for code, text, value in ((5, "u", struct.pack("<I", serial)), (7, "s", string("org.freedesktop.DBus")),
                              (6, "s", string(":1.1")), (8, "g", signature(sig))):
        fields = align(fields, 8) + bytes([code]) + signature(text)
        if text != "g":
            fields = align(fields, 4)
        fields += value
    head = b"l\x02\x01\x01" + struct.pack("<III", len(body), serial + 1000, len(fields)) + fields
    return align(head, 8) + body


def answer(message, serial):
    if b"Hello" in message:
        return reply(serial, "s", string(":1.1"))
    if b"GetUnitByPID" in message:
        return reply(serial, "o", string("/org/freedesktop/systemd1/unit/kvsteerd_2eservice"))
    if b"JobType" in message:
        return reply(serial, "v", align(signature("s"), 4) + string(job))
    if b"Job" in message:
        value = align(signature("(uo)"), 8) + struct.pack("<I", 7) + string("/org/freedesktop/systemd1/job/7")
        return reply(serial, "v", value)
    return b""


def serve(conn):
    data = b""
    while b"BEGIN\r\n" not in data:
        more = conn.recv(4096)
        if not more:
            return
        data += more
    # sd-bus sends all of its part at once
    conn.sendall(b"DATA\r\nOK " + b"0" * 31 + b"1\r\nAGREE_UNIX_FD\r\n")
    data = data.split(b"BEGIN\r\n", 1)[1]
    while True:
        while len(data) >= 16:
            body, serial, fields = struct.unpack("<III", data[4:16])
            size = 16 + fields + (-fields % 8) + body
            if len(data) < size:
                break
            conn.sendall(answer(data[:size], serial))
            data = data[size:]
        more = conn.recv(4096)
        if not more:
            return
        data += more


def bus(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


# ---- notifications

def notified(sock):
    while True:
        data, controls, _, _ = sock.recvmsg(4096, 300 * 4)
        fds = array.array("i")
        for level, kind, payload in controls:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[:len(payload) // 4 * 4])
        with HELD:
            if b"FDSTORE=1" in data:
                stored.extend(fds)
            else:
                for fd in fds:  # of a barrier
                    os.close(fd)
            if b"FDSTOREREMOVE=1" in data:
                print(f"forgot {len(stored)}", flush=True)  # in one write: others write here too
                while stored:
                    os.close(stored.pop())
        for line in data.decode().splitlines():
            if line.split("=")[0] in ("READY", "STOPPING", "STATUS"):
                print(line, flush=True)


# ---- the unit

def start(listener, directory, command):
    with HELD:
        fds = [listener.fileno()] + stored
        print(f"start with {len(fds)} sockets", flush=True)
        pid = os.fork()
        if pid:
            return pid
    # out of the way first: the places from 3 on may be taken by some of them
    moved = [os.dup(fd) if fd < 3 + len(fds) else fd for fd in fds]
    high = 3 + len(moved)
    moved = [fd if fd >= high else fcntl.fcntl(fd, fcntl.F_DUPFD, high) for fd in moved]
    for i, fd in enumerate(moved):
        os.dup2(fd, 3 + i, inheritable=True)
    os.closerange(3 + len(moved), 65536)
    os.environ.update(LISTEN_FDS=str(len(moved)), LISTEN_PID=str(os.getpid()),
                      NOTIFY_SOCKET=directory + "/notify",
                      DBUS_SYSTEM_BUS_ADDRESS="unix:path=" + directory + "/bus")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execv(command[0], command)


def main():
    global job
    address, directory, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    host, port = address.rsplit(":", 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD])
    listener = socket.create_server((host, int(port)), backlog=64)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(directory + "/notify")
    threading.Thread(target=notified, args=(notify,), daemon=True).start()
    threading.Thread(target=bus, args=(directory + "/bus",), daemon=True).start()
    pid = start(listener, directory, command)
    while True:
        sig = signal.sigwait([signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD])
        if sig == signal.SIGUSR1:
            job = "restart"
            os.kill(pid, signal.SIGTERM)
        elif sig == signal.SIGTERM:
            job = "stop"
            os.kill(pid, signal.SIGTERM)
        else:
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            print(f"ended {os.waitstatus_to_exitcode(status)} stored {len(stored)}", flush=True)
            if job != "restart":
                return os.waitstatus_to_exitcode(status)
            job = "start"
            pid = start(listener, directory, command)


sys.exit(main())
