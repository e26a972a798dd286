# SPDX-License-Identifier: BSD-2-Clause
"""TCP segments by hand: a client without a kernel behind it, and forged segments (IPv4)."""
import random
import socket
import struct
import time

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MASK = (1 << 32) - 1


def checksum(data):
    if len(data) & 1:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(src, dst, seq, ack=0, flags=ACK, data=b"", window=500, options=b""):
    """An IPv4 packet; src and dst are (address, port)."""
    options += b"\1" * (-len(options) % 4)
    head = struct.pack("!HHIIBBHHH", src[1], dst[1], seq & MASK, ack & MASK,
                       (20 + len(options)) // 4 << 4, flags, window, 0, 0) + options
    ends = socket.inet_aton(src[0]) + socket.inet_aton(dst[0])
    pseudo = ends + struct.pack("!BBH", 0, 6, len(head) + len(data))
    tcp = head[:16] + struct.pack("!H", checksum(pseudo + head + data)) + head[18:] + data
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), random.getrandbits(16), 0x4000, 64, 6, 0)
    ip += ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


class Segment:
    """One that was received."""

    def __init__(self, packet):
        ihl = (packet[0] & 15) * 4
        total = struct.unpack("!H", packet[2:4])[0]
        tcp = packet[ihl:total]
        self.src = (socket.inet_ntoa(packet[12:16]), struct.unpack("!H", tcp[:2])[0])
        self.dst = (socket.inet_ntoa(packet[16:20]), struct.unpack("!H", tcp[2:4])[0])
        self.seq, self.ack = struct.unpack("!II", tcp[4:12])
        self.flags = tcp[13]
        self.data = tcp[(tcp[12] >> 4) * 4 :]
        self.tsval = 0
        options = tcp[20 : (tcp[12] >> 4) * 4]
        while options and options[0]:
            n = 1 if options[0] == 1 else options[1]
            if options[0] == 8:
                self.tsval = struct.unpack("!I", options[2:6])[0]
            options = options[n:]

    def __str__(self):
        names = "".join(c for b, c in ((FIN, "F"), (SYN, "S"), (RST, "R"), (PSH, "P"), (ACK, "."))
                        if self.flags & b)
        return f"{self.src}>{self.dst} [{names}] seq {self.seq} ack {self.ack} {len(self.data)} B"


class Wire:
    """An interface, to whose other end everything is sent."""

    def __init__(self, device, gateway_mac):
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.bind((device, 0x0800))
        mac = self.sock.getsockname()[4]
        self.head = bytes.fromhex(gateway_mac.replace(":", "")) + mac + b"\x08\x00"

    def send(self, packet):
        self.sock.send(self.head + packet)

    def receive(self, until):
        """The next TCP segment that comes in; None: none before that time."""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self.sock.settimeout(left)
            try:
                frame, where = self.sock.recvfrom(65600)
            except (TimeoutError, BlockingIOError):
                return None
            if where[2] != socket.PACKET_OUTGOING and frame[12:14] == b"\x08\0" and frame[23] == 6:
                return Segment(frame[14:])


class Client:
    """A TCP client that does what it is told. Its address must be nobody's."""

    def __init__(self, wire, address, to):
        self.wire = wire
        self.me = (address, random.randrange(20000, 60000))
        self.to = to
        self.seq = random.getrandbits(32)
        self.ack = 0
        self.tsecr = 0
        self.data = b""  # received, in order
        self.ended = ""  # "FIN", "RST"
        self.acked = self.seq

    def options(self):
        now = int(time.monotonic() * 1000) & MASK
        return b"\1\1\x08\x0a" + struct.pack("!II", now, self.tsecr)

    def send(self, data=b"", flags=ACK, seq=None, ack=None):
        """Does not move on by itself, so that anything can be sent again."""
        self.wire.send(segment(self.me, self.to, self.seq if seq is None else seq,
                               self.ack if ack is None else ack, flags, data,
                               options=self.options()))

    def say(self, data, flags=ACK | PSH):
        self.send(data, flags)
        self.seq = (self.seq + len(data)) & MASK

    def take(self, s, answer=True):
        if s.tsval:
            self.tsecr = s.tsval
        if s.flags & RST:
            self.ended = "RST"
            return
        if s.flags & ACK:
            self.acked = s.ack
        if s.seq == self.ack:
            self.data += s.data
            self.ack = (self.ack + len(s.data)) & MASK
            if s.flags & FIN:
                self.ack = (self.ack + 1) & MASK
                self.ended = "FIN"
        if answer and (s.data or s.flags & FIN):
            self.send()

    def receive(self, seconds, answer=True, done=lambda c: False):
        """What comes within that time, or until done or the connection's end."""
        until = time.monotonic() + seconds
        while not self.ended and not done(self):
            s = self.wire.receive(until)
            if s is None:
                return
            if s.src == self.to and s.dst == self.me:
                self.take(s, answer)

    def connect(self):
        hello = b"\2\4\5\xb4\4\2" + self.options()[2:] + b"\1\3\3\7"
        self.wire.send(segment(self.me, self.to, self.seq, 0, SYN, window=60000, options=hello))
        until = time.monotonic() + 5
        while True:
            s = self.wire.receive(until)
            if s is None:
                raise OSError("no SYN-ACK")
            if s.dst == self.me and s.flags & SYN:
                break
        self.seq = (self.seq + 1) & MASK
        self.ack = (s.seq + 1) & MASK
        self.tsecr = s.tsval
        self.send()

    def reset(self):
        self.send(flags=RST | ACK)
