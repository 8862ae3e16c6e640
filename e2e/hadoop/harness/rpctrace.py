#!/usr/bin/env python3
"""Tracing TCP proxy for Hadoop RPC: rpctrace.py LISTEN_PORT TARGET_PORT [--raw] [--only METHOD,METHOD] [--max N]

Listens on 127.0.0.1:LISTEN_PORT, forwards to 127.0.0.1:TARGET_PORT and prints every frame of both directions,
decoded by the tables in ../wire. One line a frame: time, connection, direction, call id, method, fields.
Simple authentication only (a wrapped SASL connection cannot be decoded). Standard library only.
"""
import csv, os, socket, struct, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
WIRE = os.path.join(HERE, "..", "wire")


def rows(name):
    with open(os.path.join(WIRE, name), encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


MSG, ENUM, METH = {}, {}, {}
CUT = 200  # characters shown of a string
for r in rows("messages.tsv"):
    m = MSG.setdefault(r["package"] + "." + r["message"], {})
    if r["field"]:
        m[int(r["number"])] = (r["field"], r["type"])
for r in rows("enums.tsv"):
    ENUM.setdefault(r["package"] + "." + r["enum"], {})[int(r["number"])] = r["value_name"]
for r in rows("methods.tsv"):
    METH[(r["protocol_name"], r["method"])] = (r["request"], r["response"])


def varint(b, i):
    n = s = 0
    while True:
        c = b[i]
        i += 1
        n |= (c & 127) << s
        if c < 128:
            return n, i
        s += 7


def signed(n, bits=64):
    n &= (1 << bits) - 1
    return n - (1 << bits) if n >> (bits - 1) else n


def scalar(t, n):
    if t.startswith("enum:"):
        return ENUM.get(t[5:], {}).get(n, str(n))
    if t in ("sint32", "sint64"):
        return (n >> 1) ^ -(n & 1)
    if t == "bool":
        return bool(n)
    if t in ("int32", "int64"):
        return signed(n)
    return n


def decode(b, name):
    """fields of message `name` in the order of the bytes, as text"""
    fields, out, i = MSG.get(name, {}), [], 0
    while i < len(b):
        tag, i = varint(b, i)
        num, wt = tag >> 3, tag & 7
        fname, t = fields.get(num, ("#%d" % num, "?"))
        if wt == 0:
            n, i = varint(b, i)
            v = scalar(t, n)
        elif wt == 1:
            v = struct.unpack_from("<q", b, i)[0] if t != "double" else struct.unpack_from("<d", b, i)[0]
            i += 8
        elif wt == 5:
            v = struct.unpack_from("<i", b, i)[0] if t != "float" else struct.unpack_from("<f", b, i)[0]
            i += 4
        elif wt == 2:
            n, i = varint(b, i)
            raw = b[i:i + n]
            i += n
            if t.startswith("message:"):
                v = "{" + decode(raw, t[8:]) + "}"
            elif t == "string":
                v = '"' + raw.decode("utf-8", "replace").split("\n")[0][:CUT] + '"'
            elif t in ("bytes", "?"):
                v = "0x" + raw.hex() if len(raw) <= 40 else "0x%s..(%d)" % (raw[:24].hex(), len(raw))
            else:  # packed scalars
                vs, j = [], 0
                if t.endswith("fixed32") or t.endswith("fixed64"):
                    vs = [str(x[0]) for x in struct.iter_unpack("<I" if t.endswith("32") else "<Q", raw)]
                    j = len(raw)
                while j < len(raw):
                    k, j = varint(raw, j)
                    vs.append(str(scalar(t, k)))
                v = "[" + ",".join(vs) + "]"
        else:
            raise ValueError("wire type %d in %s" % (wt, name))
        out.append("%s=%s" % (fname, v))
    return " ".join(out)


def field(b, name, want):
    i, fields = 0, MSG[name]
    val = None
    while i < len(b):
        tag, i = varint(b, i)
        wt = tag & 7
        if wt == 0:
            v, i = varint(b, i)
        elif wt == 2:
            n, i = varint(b, i)
            v, i = b[i:i + n], i + n
        elif wt == 1:
            v, i = b[i:i + 8], i + 8
        else:
            v, i = b[i:i + 4], i + 4
        f = fields.get(tag >> 3)
        if f and f[0] == want:
            val = scalar(f[1], v) if wt == 0 else v
    return val


def delimited(b, i):
    n, i = varint(b, i)
    return b[i:i + n], i + n


LOCK = threading.Lock()
T0 = time.time()


class Conn:
    seq = 0

    def __init__(self, opt):
        Conn.seq += 1
        self.id, self.calls, self.opt = Conn.seq, {}, opt

    def say(self, arrow, text, raw=b""):
        if len(text) > self.opt["max"]:
            text = text[:self.opt["max"]] + "..."
        with LOCK:
            print("%8.3f c%d %s %s" % (time.time() - T0, self.id, arrow, text), flush=True)
            if self.opt["raw"] and raw:
                print("         " + raw.hex(), flush=True)

    def request(self, f):
        h, i = delimited(f, 0)
        cid = field(h, "hadoop.common.RpcRequestHeaderProto", "callId")
        head = "#%d" % cid
        if cid == -3:
            b, i = delimited(f, i)
            text = "CONTEXT " + decode(b, "hadoop.common.IpcConnectionContextProto")
        elif cid == -33:
            b, i = delimited(f, i)
            text = "SASL " + decode(b, "hadoop.common.RpcSaslProto")
        elif cid == -4:
            text = "PING"
        else:
            rh, i = delimited(f, i)
            meth = field(rh, "hadoop.common.RequestHeaderProto", "methodName").decode()
            prot = field(rh, "hadoop.common.RequestHeaderProto", "declaringClassProtocolName").decode()
            req, rsp = METH.get((prot, meth), ("?", "?"))
            b, i = delimited(f, i)
            self.calls[cid] = (meth, rsp)
            if self.opt["only"] and meth not in self.opt["only"]:
                return
            text = "%s.%s(%s)" % (prot.rsplit(".", 1)[-1], meth, decode(b, req))
        if self.opt["raw"]:
            text += "  | " + decode(h, "hadoop.common.RpcRequestHeaderProto")
        if i != len(f):
            text += "  !! %d bytes left over" % (len(f) - i)
        self.say("->", head + " " + text, f)

    def response(self, f):
        h, i = delimited(f, 0)
        H = "hadoop.common.RpcResponseHeaderProto"
        cid, st = signed(field(h, H, "callId"), 32), field(h, H, "status")
        meth, rsp = self.calls.pop(cid, ("SASL" if cid == -33 else "?", "hadoop.common.RpcSaslProto"))
        if self.opt["only"] and meth not in self.opt["only"]:
            return
        if st == "SUCCESS":
            b, i = delimited(f, i)
            text = "%s => %s" % (meth, decode(b, rsp) or "(empty)")
        else:
            text = "%s => %s" % (meth, decode(h, H))
        if self.opt["raw"]:
            text += "  | " + decode(h, H)
        if i != len(f):
            text += "  !! %d bytes left over" % (len(f) - i)
        self.say("<-", "#%d %s" % (cid, text), f)


def pump(src, dst, conn, up):
    buf, first = b"", up
    try:
        while True:
            d = src.recv(65536)
            if not d:
                break
            buf += d
            if first and len(buf) >= 7:
                conn.say("->", "PREAMBLE %r version=%d service_class=%d auth=%d" % (buf[:4], buf[4], buf[5], struct.unpack("b", buf[6:7])[0]))
                buf, first = buf[7:], False
            while not first and len(buf) >= 4:
                n = struct.unpack(">I", buf[:4])[0]
                if len(buf) < 4 + n:
                    break
                f, buf = buf[4:4 + n], buf[4 + n:]
                try:
                    (conn.request if up else conn.response)(f)
                except Exception as e:  # keep forwarding whatever could not be decoded
                    conn.say("->" if up else "<-", "!! undecoded %d bytes: %r" % (n, e), f)
            dst.sendall(d)  # after the decoding, so that a response never overtakes its request in the log
    except OSError:
        pass
    for s in (src, dst):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    a = sys.argv[1:]
    opt = {"raw": "--raw" in a, "only": None, "max": 2000}
    if "--only" in a:
        opt["only"] = set(a[a.index("--only") + 1].split(","))
    if "--max" in a:
        opt["max"] = int(a[a.index("--max") + 1])
    lp, tp = int(a[0]), int(a[1])
    ls = socket.socket()
    ls.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ls.bind(("127.0.0.1", lp))
    ls.listen(64)
    while True:
        c, _ = ls.accept()
        try:
            t = socket.create_connection(("127.0.0.1", tp))
        except OSError:
            c.close()
            continue
        for s in (c, t):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conn = Conn(opt)
        threading.Thread(target=pump, args=(c, t, conn, True), daemon=True).start()
        threading.Thread(target=pump, args=(t, c, conn, False), daemon=True).start()


if __name__ == "__main__":
    main()
