#!/usr/bin/env python3
"""Data-transfer probe: dtprobe.py NN_PORT /path/of/a/file/of/more/than/2048/bytes

Asks the NameNode at 127.0.0.1:NN_PORT where the first block is, then talks to that DataNode by hand: a ranged
read with its checksums verified, a second op on the same connection, a missing block, a wrong version, a write of
a block that nobody allocated (a random id; a stock DataNode without block tokens takes it and the NameNode then has
it deleted), a wrong checksum. Block pool, blocks, storages and ports are masked. ../wire/dtprobe.txt is its
output against a stock 3.4.2 DataNode; README.md has the file it was run on. Standard library only.
"""
import os, re, socket, struct, sys

sys.dont_write_bytecode = True
import rpctrace as R

H = "hadoop.hdfs."
R.CUT = 2000  # masked texts must not be cut where the length of an id decides


def vi(n):
    n &= (1 << 64) - 1
    o = b""
    while n > 127:
        o, n = o + bytes([n & 127 | 128]), n >> 7
    return o + bytes([n])


def F(num, v):
    if isinstance(v, int):
        return vi(num << 3) + vi(v)
    v = v.encode() if isinstance(v, str) else v
    return vi(num << 3 | 2) + vi(len(v)) + v


def D(b):
    return vi(len(b)) + b


def sub(b, msg, *path):  # first value of a nested field
    for p in path:
        v = R.field(b, msg, p)
        t = [t for n, t in R.MSG[msg].values() if n == p][0]
        b, msg = v, t.partition(":")[2]
    return b


def mask(t):  # what differs from one cluster to the next
    t = re.sub(r"blk_\d+_\d+", "blk_ID_STAMP", t.replace(BP, "BP"))
    t = re.sub(r"DS-[0-9a-f-]{36}", "DS-ID", t)
    return re.sub(r"(\d+\.\d+\.\d+\.\d+):\d+", r"\1:PORT", t)


def crc32c(b):
    c = 0xFFFFFFFF
    for x in b:
        c ^= x
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


class Peer:
    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port))
        self.s.settimeout(5)

    def rd(self, n):
        b = b""
        while len(b) < n:
            d = self.s.recv(n - len(b))
            if not d:
                raise EOFError("closed by the peer after %d bytes" % len(b))
            b += d
        return b

    def delimited(self):
        n = sh = 0
        while True:
            c = self.rd(1)[0]
            n, sh = n | (c & 127) << sh, sh + 7
            if c < 128:
                return self.rd(n)

    def op(self, code, msg, version=28):
        self.s.sendall(struct.pack(">HB", version, code) + D(msg))

    def say(self, what, msg):
        print(what, "->", mask(R.decode(self.delimited(), H + msg)))

    def packet(self, off, seq, last, data, sync=False, crc=crc32c):
        h = (b"\x09" + struct.pack("<q", off) + b"\x11" + struct.pack("<q", seq) + F(3, int(last)) + b"\x25"
             + struct.pack("<i", len(data)) + (F(5, 1) if sync else b""))
        ck = b"".join(struct.pack(">I", crc(data[i:i + 512])) for i in range(0, len(data), 512))
        self.s.sendall(struct.pack(">IH", 4 + len(ck) + len(data), len(h)) + h + ck + data)


nn, path = int(sys.argv[1]), sys.argv[2]
p = Peer(nn)
hdr = lambda cid: F(1, 2) + F(2, 0) + F(3, cid) + F(4, os.urandom(16)) + F(5, 0)
ctx = D(hdr(5)) + D(F(2, F(1, "root")) + F(3, "org.apache.hadoop.hdfs.protocol.ClientProtocol"))
call = D(hdr(0)) + D(F(1, "getBlockLocations") + F(2, "org.apache.hadoop.hdfs.protocol.ClientProtocol") + F(3, 1)) \
    + D(F(1, path) + F(2, 0) + F(3, 1 << 40))
p.s.sendall(b"hrpc\x09\x00\x00" + struct.pack(">I", len(ctx)) + ctx + struct.pack(">I", len(call)) + call)
f = p.rd(struct.unpack(">I", p.rd(4))[0])
h, i = R.delimited(f, 0)
body, i = R.delimited(f, i)
blk = sub(body, H + "GetBlockLocationsResponseProto", "locations", "blocks")
E = H + "ExtendedBlockProto"
eb = sub(blk, H + "LocatedBlockProto", "b")
BP = R.field(eb, E, "poolId").decode()
bid, gs, ln = (R.field(eb, E, x) for x in ("blockId", "generationStamp", "numBytes"))
port = R.field(sub(blk, H + "LocatedBlockProto", "locs", "id"), H + "DatanodeIDProto", "xferPort")
block = lambda b, g, n: F(1, BP) + F(2, b) + F(3, g) + F(4, n)
token = F(1, b"") + F(2, b"") + F(3, "") + F(4, "")
base = lambda b: F(1, b) + F(2, token)
client = lambda b: F(1, F(1, base(b)) + F(2, "probe"))
read = lambda b, off, n: client(b) + F(2, off) + F(3, n) + F(4, 1)

c = Peer(port)
c.op(81, read(block(bid, gs, ln), 600, 1000))
c.say("READ_BLOCK offset=600 len=1000", "BlockOpResponseProto")
while True:
    plen, hlen = struct.unpack(">IH", c.rd(6))
    hb = c.rd(hlen)
    rest = c.rd(plen - 4)
    n = struct.unpack("<i", R.field(hb, H + "PacketHeaderProto", "dataLen"))[0]
    ck, data = rest[:len(rest) - n], rest[len(rest) - n:]
    ok = all(struct.unpack(">I", ck[i // 128:i // 128 + 4])[0] == crc32c(data[i:i + 512]) for i in range(0, n, 512))
    print("  packet PLEN=%d HLEN=%d {%s} checksum bytes=%d data bytes=%d crc32c %s"
          % (plen, hlen, R.decode(hb, H + "PacketHeaderProto"), len(ck), n, "ok" if ok else "WRONG"))
    if n == 0:
        break
c.s.sendall(D(F(1, 6)))
c.op(85, F(1, base(block(bid, gs, ln))))
c.say("BLOCK_CHECKSUM on the same connection", "BlockOpResponseProto")
c = Peer(port)
c.op(81, read(block(424242, gs, 10), 0, 10))
c.say("READ_BLOCK of a missing block", "BlockOpResponseProto")
c = Peer(port)
c.op(81, b"", version=27)
try:
    c.rd(1)
except (EOFError, OSError):
    print("version 27 -> closed by the peer")
# a new id each time: the block of an earlier run stays on the DataNode until a heartbeat has it deleted
nb, data = (1 << 60) + 2 * int.from_bytes(os.urandom(6), "big"), os.urandom(1300)
write = lambda b: client(b) + F(4, 6) + F(5, 1) + F(6, 0) + F(7, 0) + F(8, 0) + F(9, F(1, 2) + F(2, 512)) + F(11, 1)
c = Peer(port)
c.op(80, write(block(nb, 5000, 0)))
c.say("WRITE_BLOCK stage=PIPELINE_SETUP_CREATE", "BlockOpResponseProto")
c.packet(0, 0, False, data[:1024])
c.say("  packet 0", "PipelineAckProto")
c.packet(0, -1, False, b"")
c.say("  heartbeat packet", "PipelineAckProto")
c.packet(1024, 1, False, data[1024:], sync=True)
c.say("  packet 1 with syncBlock", "PipelineAckProto")
c.packet(1300, 2, True, b"")
c.say("  last, empty packet", "PipelineAckProto")
c = Peer(port)
c.op(80, write(block(nb + 1, 5000, 0)))
c.say("WRITE_BLOCK", "BlockOpResponseProto")
c.packet(0, 0, False, data[:512], crc=lambda b: 0)
c.say("  packet with a wrong checksum", "PipelineAckProto")
