#!/usr/bin/env python3
"""Framing and retry-cache probe: rpcprobe.py PORT [--keep]

Sends well-formed and broken Hadoop RPC streams to 127.0.0.1:PORT (a NameNode, simple authentication) and prints
each reply, decoded. ../wire/rpcprobe.txt is its output against the stock 3.4.2 NameNode: diff with it. Each case waits about a second for the peer to fall silent (up to four for its first byte). Standard library only.
"""
import getpass, os, re, socket, struct, sys, time

sys.dont_write_bytecode = True
import rpctrace as R

PORT = int(sys.argv[1])
CID = os.urandom(16)  # a fresh client each run: the server's retry cache remembers the last one for minutes
CP = "org.apache.hadoop.hdfs.protocol.ClientProtocol"


def vi(n):
    n &= (1 << 64) - 1
    o = b""
    while n > 127:
        o, n = o + bytes([n & 127 | 128]), n >> 7
    return o + bytes([n])


def F(num, v):  # one protobuf field: varint or length-delimited
    if isinstance(v, int):
        return vi(num << 3) + vi(v)
    v = v.encode() if isinstance(v, str) else v
    return vi(num << 3 | 2) + vi(len(v)) + v


def zz(n):
    return (n << 1) ^ (n >> 63)


def hdr(cid, kind=2, op=0, client=CID, retry=0):
    return ((b"" if kind is None else F(1, kind)) + (b"" if op is None else F(2, op)) + F(3, zz(cid)) + F(4, client)
            + F(5, zz(retry)))


def frame(*parts):
    b = b"".join(vi(len(p)) + p for p in parts)
    return struct.pack(">I", len(b)) + b


def req(cid, method, body=b"", proto=CP, ver=1, **k):
    return frame(hdr(cid, **k), F(1, method) + F(2, proto) + F(3, ver), body)


def go(name, *chunks, gap=0.0, raw=False):
    s = socket.create_connection(("127.0.0.1", PORT))
    s.settimeout(4)  # a server that has just started may be slow to its first answer
    got, end = b"", "open"
    try:
        for c in chunks:
            s.sendall(c)
            time.sleep(gap)
        while True:
            d = s.recv(65536)
            if not d:
                end = "closed by the server"
                break
            got += d
            s.settimeout(1)
    except socket.timeout:
        pass
    except OSError as e:
        end = "closed by the server"
    s.close()
    print("## %s" % name)
    if raw:
        print("   %r" % got[:200])
    else:
        out, i = [], 0
        while i + 4 <= len(got):
            n = struct.unpack(">I", got[i:i + 4])[0]
            f, i = got[i + 4:i + 4 + n], i + 4 + n
            h, j = R.delimited(f, 0)
            t = R.decode(h, "hadoop.common.RpcResponseHeaderProto")
            if j < len(f):
                b, j = R.delimited(f, j)
                t += "  body=" + ("{%s}" % R.decode(b, "hadoop.common.RpcSaslProto") if "callId=4294967263" in t
                                  else "a message" if len(b) > 4 else b.hex())
            out.append("   " + re.sub("challenge=0x[0-9a-f.]*[^ }]*", "challenge=..", t.replace("0x" + CID.hex(), "ID")))
        print("\n".join(out))
    print("   -> %s" % end)


PRE = b"hrpc\x09\x00\x00"
SASL = b"hrpc\x09\x00\xdf"
CTX = frame(hdr(-3, retry=-1), F(2, F(1, getpass.getuser())) + F(3, CP))
FI = req(0, "getFileInfo", F(1, "/"))
NEG = frame(hdr(-33, retry=-1, client=b""), F(2, 1))
mk = lambda cid, p, **k: req(cid, "mkdirs", F(1, p) + F(2, F(1, 493)) + F(3, 1), **k)
rm = lambda cid, p, **k: req(cid, "delete", F(1, p) + F(2, 1), **k)
mv = lambda cid, a, b, **k: req(cid, "rename", F(1, a) + F(2, b), **k)
cr = lambda cid, p, **k: req(cid, "create", F(1, p) + F(2, F(1, 420)) + F(3, "probe") + F(4, 1) + F(5, 1) + F(6, 1)
                             + F(7, 134217728) + F(8, 2), **k)

go("preamble, context, call in separate writes", PRE, CTX, FI)
go("all in one write, then a ping", PRE + CTX + FI + frame(hdr(-4, retry=-1)))
go("call without a context", PRE, FI)
go("context twice", PRE, CTX, CTX, FI)
go("version 8", b"hrpc\x08\x00\x00", CTX, raw=True)
go("version 10", b"hrpc\x0a\x00\x00", CTX)
go("HTTP GET", b"GET / HTTP/1.1\r\n\r\n", raw=True)
go("not hrpc", b"abcd\x09\x00\x00", CTX)
go("auth byte 5", b"hrpc\x09\x00\x05", CTX)
go("SASL asked for: NEGOTIATE", SASL, NEG)
go("SASL: NEGOTIATE, INITIATE SIMPLE, context, call", SASL, NEG,
   frame(hdr(-33, retry=-1, client=b""), F(2, 2) + F(4, F(1, "SIMPLE") + F(2, ""))), CTX, FI)
go("SASL: context before the negotiation", SASL, CTX)
go("SASL message on a simple connection", PRE, NEG)
go("unknown protocol", PRE, CTX, req(5, "getFileInfo", proto="org.x.Y"))
go("protocol version 7", PRE, CTX, req(6, "getFileInfo", ver=7))
go("unknown method", PRE, CTX, req(7, "nope"))
go("request that does not parse", PRE, CTX, req(8, "getFileInfo", b"\xff\xff"))
go("required field missing", PRE, CTX, req(8, "getFileInfo"))
go("rpcKind BUILTIN", PRE, CTX, req(9, "getFileInfo", kind=0))
go("no rpcKind", PRE, CTX, req(9, "getFileInfo", kind=None))
go("rpcOp CLOSE", PRE, CTX, req(9, "getFileInfo", op=2))
go("call id -7", PRE, CTX, frame(hdr(-7)))
go("frame of 200 MiB announced", PRE, CTX, struct.pack(">I", 200 << 20) + b"x")
go("negative frame length", PRE, CTX, struct.pack(">i", -5))
go("empty clientId", PRE, CTX, mk(9, "/probe", client=b""))
go("clientId of 3 bytes", PRE, CTX, rm(9, "/probe", client=b"abc"))
go("retry cache: mkdirs, delete, same delete again, new delete", PRE, CTX, mk(31, "/probe/a"), rm(32, "/probe/a"),
   rm(32, "/probe/a", retry=1), rm(33, "/probe/a"), gap=0.3)
go("retry cache: rename, again, new call", PRE, CTX, mk(34, "/probe/b"), mv(35, "/probe/b", "/probe/c"),
   mv(35, "/probe/b", "/probe/c", retry=1), mv(36, "/probe/b", "/probe/c"), gap=0.3)
go("retry cache: create, again, new call", PRE, CTX, cr(37, "/probe/f"), cr(37, "/probe/f", retry=1), cr(38, "/probe/f"), gap=0.3)
go("retry cache: the create once more from another connection", PRE, CTX, cr(37, "/probe/f", retry=2))
go("retry cache: same call id, other clientId", PRE, CTX, cr(37, "/probe/f", retry=2, client=b"X" * 16))
if "--keep" not in sys.argv:
    go("clean up", PRE, CTX, rm(99, "/probe"))
