#!/usr/bin/env python3
"""What the answers hold, field by field: callprobe.py PORT

Makes a small tree on the NameNode at 127.0.0.1:PORT and prints the decoded answer of every kind of namespace call, with
inode ids, times, the superuser's name and what belongs to one cluster masked. Fields that are absent on the wire are
absent here. ../wire/calls.txt is its output against the stock 3.4.2 NameNode without a DataNode: diff with it.
Standard library only.
"""
import getpass, os, re, socket, struct, sys

sys.dont_write_bytecode = True
import rpctrace as R

ME = getpass.getuser()
CP = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
NP = "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol"
CLIENT = os.urandom(16)


def vi(n):
    n &= (1 << 64) - 1
    o = b""
    while n > 127:
        o, n = o + bytes([n & 127 | 128]), n >> 7
    return o + bytes([n])


def encode(name, fields):
    """A message of that name from {field name: value}; lists are repeated fields, dicts are messages."""
    numbers = {f: (num, t) for num, (f, t) in R.MSG[name].items()}
    out = b""
    for key, value in fields.items():
        num, t = numbers[key]
        for v in value if isinstance(value, list) else [value]:
            if t.startswith("message:"):
                v = encode(t[8:], v)
            elif t.startswith("enum:") and isinstance(v, str):
                v = {n: i for i, n in R.ENUM[t[5:]].items()}[v]
            if t in ("sint32", "sint64"):
                v = (v << 1) ^ (v >> 63)
            if isinstance(v, (bool, int)):
                out += vi(num << 3) + vi(int(v))
            else:
                v = v.encode() if isinstance(v, str) else v
                out += vi(num << 3 | 2) + vi(len(v)) + v
    return out


def frame(*parts):
    body = b"".join(vi(len(p)) + p for p in parts)
    return struct.pack(">I", len(body)) + body


class Connection:
    def __init__(self, port, user):
        self.s = socket.create_connection(("127.0.0.1", port))
        self.s.settimeout(30)
        self.call = 0
        context = encode("hadoop.common.IpcConnectionContextProto", {"userInfo": {"effectiveUser": user}, "protocol": CP})
        self.s.sendall(b"hrpc\x09\x00\x00" + frame(self.header(-3, -1), context))

    def header(self, call, retry):
        return encode("hadoop.common.RpcRequestHeaderProto", {"rpcKind": 2, "rpcOp": 0, "callId": call, "clientId": CLIENT, "retryCount": retry})

    def receive(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                raise OSError("closed by the server")
            data += more
        return data

    def send(self, method, fields, protocol=CP):
        request, response = R.METH[(protocol, method)]
        self.call += 1
        head = encode("hadoop.common.RequestHeaderProto", {"methodName": method, "declaringClassProtocolName": protocol, "clientProtocolVersion": 1})
        self.s.sendall(frame(self.header(self.call, 0), head, encode(request, fields)))
        f = self.receive(struct.unpack(">I", self.receive(4))[0])
        h, i = R.delimited(f, 0)
        if R.field(h, "hadoop.common.RpcResponseHeaderProto", "status") != "SUCCESS":
            return R.decode(h, "hadoop.common.RpcResponseHeaderProto")
        return R.decode(R.delimited(f, i)[0], response)


IDS = {}


def mask(text):
    def inode(m):
        return "%s=#%d" % (m.group(1), IDS.setdefault(m.group(2), len(IDS) + 1))

    text = re.sub(r"\b(fileId)=(\d+)", lambda m: m.group(0) if m.group(2) == "16385" else inode(m), text)
    text = re.sub(r"_time=[1-9]\d{11,}", "_time=TIME", text)
    text = re.sub(r"callId=\d+ ", "", text).replace("clientId=0x" + CLIENT.hex(), "clientId=ID")
    text = text.replace('owner="%s"' % ME, 'owner="super"').replace(":%s:" % ME, ":super:")
    text = re.sub(r'(buildVersion|blockPoolID|blockPoolId|clusterID|softwareVersion)="[^"]*"', r'\1=".."', text)
    return re.sub(r"(namespceID|cTime|namespaceID|txid|capabilities)=\d+", r"\1=..", text)


def main():
    port = int(sys.argv[1])
    me, alice = Connection(port, ME), Connection(port, "alice")

    def show(method, by=me, protocol=CP, **fields):
        said = " ".join("%s=%s" % (k, v.decode("latin1") if isinstance(v, bytes) else v) for k, v in fields.items())
        print("## %s%s(%s)" % ("" if by is me else "alice: ", method, said))
        print("   " + mask(by.send(method, fields, protocol)).replace("\n", " "))

    me.send("delete", {"src": "/c", "recursive": True})
    perm = {"perm": 0o755}
    create = dict(masked={"perm": 0o644}, clientName="probe", createFlag=1, createParent=True, replication=1, blockSize=1 << 20,
                  cryptoProtocolVersion=["ENCRYPTION_ZONES"])
    show("mkdirs", src="/c", masked=perm, createParent=True)
    show("mkdirs", src="/c/d/e", masked=perm, createParent=True)
    show("create", src="/c/f", **create)
    show("getFileInfo", src="/c/f")
    show("getBlockLocations", src="/c/f", offset=0, length=10)
    show("isFileClosed", src="/c/f")
    show("complete", src="/c/f", clientName="probe")
    show("complete", src="/c/f", clientName="probe")
    show("create", src="/c/g", **dict(create, createFlag=3, replication=3, unmasked={"perm": 0o666}))
    show("abandonBlock", src="/c/nosuch", b={"poolId": "x", "blockId": 1, "generationStamp": 1}, holder="probe")
    show("renewLease", clientName="probe")
    show("recoverLease", src="/c/g", clientName="other")
    show("recoverLease", src="/c/f", clientName="other")
    for path in ("/", "/c", "/c/d", "/c/f", "/c/nosuch", "/c/f/x", "/.reserved"):
        show("getFileInfo", src=path)
    show("getFileLinkInfo", src="/c/f")
    show("getFileLinkInfo", src="/c/nosuch")
    show("getLocatedFileInfo", src="/c/f", needBlockToken=False)
    show("getLocatedFileInfo", src="/c/f", needBlockToken=True)
    show("getLocatedFileInfo", src="/c/d", needBlockToken=False)
    show("getBlockLocations", src="/c/f", offset=0, length=10)
    show("getBlockLocations", src="/c/f", offset=5, length=10)
    show("isFileClosed", src="/c/f")
    show("getListing", src="/c", startAfter=b"", needLocation=False)
    show("getListing", src="/c", startAfter=b"d", needLocation=True)
    show("getListing", src="/c/f", startAfter=b"", needLocation=False)
    show("getListing", src="/c/d/e", startAfter=b"", needLocation=False)
    show("getListing", src="/c/nosuch", startAfter=b"", needLocation=False)
    show("getBatchedListing", paths=["/c", "/c/nosuch", "/c/f", "/c/d/e"], startAfter=b"", needLocation=False)
    show("getBatchedListing", paths=["/c/d"], startAfter=b"", needLocation=True)
    show("getBatchedListing", paths=[], startAfter=b"", needLocation=False)
    show("getContentSummary", path="/c")
    show("getContentSummary", path="/c/f")
    show("getQuotaUsage", path="/c")
    show("getQuotaUsage", path="/c/f")
    show("getPreferredBlockSize", filename="/c/f")
    show("setPermission", src="/c/f", permission={"perm": 0o1600})
    show("setOwner", src="/c/f", username="alice", groupname="bin")
    show("setOwner", src="/c/f", username="daemon")
    show("setTimes", src="/c/f", mtime=1000, atime=2000)
    show("setReplication", src="/c/f", replication=2)
    show("getFileInfo", src="/c/f")
    show("setReplication", src="/c/d", replication=2)
    show("checkAccess", path="/c", mode="READ_EXECUTE")
    show("checkAccess", by=alice, path="/c/f", mode="WRITE")
    show("rename", src="/c/f", dst="/c/h")
    show("rename", src="/c/f", dst="/c/h")
    show("rename2", src="/c/h", dst="/c/f", overwriteDest=False)
    show("rename2", src="/c/g", dst="/c/f", overwriteDest=True)
    show("rename2", src="/c/f", dst="/c/d/f", overwriteDest=False, moveToTrash=True)
    show("delete", by=alice, src="/c/d/f", recursive=False)
    show("delete", src="/c/d/f", recursive=False)
    show("delete", src="/c/d/f", recursive=False)
    show("delete", src="/c", recursive=False)
    show("getServerDefaults")
    show("getFsStats")
    show("getFsReplicatedBlockStats")
    show("getFsECBlockGroupStats")
    for kind in ("ALL", "LIVE", "DEAD", "DECOMMISSIONING"):
        show("getDatanodeReport", type=kind)
    show("getDatanodeStorageReport", type="LIVE")
    show("getSlowDatanodeReport")
    show("setSafeMode", action="SAFEMODE_GET", checked=False)
    show("setSafeMode", action="SAFEMODE_LEAVE", checked=False)
    show("listEncryptionZones", id=0)
    show("getEZForPath", src="/c")
    show("listOpenFiles", id=0, types=["ALL_OPEN_FILES"], path="/c")
    show("listCorruptFileBlocks", path="/")
    show("getStoragePolicies")
    show("getStoragePolicy", path="/c/d")
    show("getErasureCodingPolicy", src="/c/d")
    show("getErasureCodingPolicies")
    show("getErasureCodingCodecs")
    show("getAclStatus", src="/c/d")
    show("getXAttrs", src="/c/d")
    show("listXAttrs", src="/c/d")
    show("getSnapshottableDirListing")
    show("getEnclosingRoot", filename="/c/d")
    show("getLinkTarget", path="/c/d")
    show("getDelegationToken", renewer="super")
    show("getDataEncryptionKey")
    show("rollingUpgrade", action="QUERY")
    show("upgradeStatus")
    show("msync")
    show("getHAServiceState")
    show("getCurrentEditLogTxid", by=alice)
    show("versionRequest", protocol=NP)
    show("isUpgradeFinalized", protocol=NP)
    me.send("delete", {"src": "/c", "recursive": True})


main()
