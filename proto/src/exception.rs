//! THE table of exceptions: one variant per Java class that goes over the wire, with all that depends on it.

use std::fmt;

use crate::common::rpc_response_header_proto::RpcErrorCodeProto as Code;

/// Linux error numbers, as the mount reports them.
pub mod errno {
    #![allow(missing_docs)]
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
    pub const EAGAIN: i32 = 11;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const EEXIST: i32 = 17;
    pub const ENODEV: i32 = 19;
    pub const ENOTDIR: i32 = 20;
    pub const EINVAL: i32 = 22;
    pub const EROFS: i32 = 30;
    pub const EMLINK: i32 = 31;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ELOOP: i32 = 40;
    pub const ENODATA: i32 = 61;
    pub const EPROTO: i32 = 71;
    pub const EOPNOTSUPP: i32 = 95;
    pub const ESTALE: i32 = 116;
    pub const EDQUOT: i32 = 122;
}
use errno::*;

/// What the caller does after an exception (stock's `FailoverOnNetworkExceptionRetry`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Hands it to the user.
    Never,
    /// Asks the same namenode again after a back-off.
    SameLater,
    /// Asks another namenode.
    Another,
}

/// How loudly a server logs an exception that it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// The caller's own mistake or an everyday answer.
    Debug,
    /// An unusual state.
    Info,
    /// Somebody should look: a broken peer, a failing disk or store.
    Warn,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The variant.
    pub kind: Kind,
    /// Java class name; inner classes with `$`.
    pub class: &'static str,
    /// `RpcResponseHeaderProto.errorDetail`.
    pub code: Code,
    /// Linux error number.
    pub errno: i32,
    /// What the caller does.
    pub retry: Retry,
    /// How loudly the server logs it.
    pub log: Log,
}

macro_rules! exceptions {
    ($($kind:ident $class:literal $code:ident $errno:ident $retry:ident $log:ident;)*) => {
        /// A Java exception class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = concat!("`", $class, "`")] $kind,)*
        }

        /// The table, in the order of [`Kind`].
        pub const TABLE: &[Row] = &[$(Row {
            kind: Kind::$kind, class: $class, code: Code::$code, errno: $errno, retry: Retry::$retry, log: Log::$log,
        },)*];
    };
}

#[rustfmt::skip]
exceptions! {
    // variant                class                                                               errorDetail              errno        retry     log
    // Paths.
    FileNotFound              "java.io.FileNotFoundException"                                     ErrorApplication         ENOENT       Never     Debug;
    ParentNotDirectory        "org.apache.hadoop.fs.ParentNotDirectoryException"                  ErrorApplication         ENOTDIR      Never     Debug;
    FileAlreadyExists         "org.apache.hadoop.fs.FileAlreadyExistsException"                   ErrorApplication         EEXIST       Never     Debug;
    PathIsNotEmptyDirectory   "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"             ErrorApplication         ENOTEMPTY    Never     Debug;
    PathIsNotDirectory        "org.apache.hadoop.fs.PathIsNotDirectoryException"                  ErrorApplication         ENOTDIR      Never     Debug;
    InvalidPath               "org.apache.hadoop.fs.InvalidPathException"                         ErrorApplication         EINVAL       Never     Debug;
    UnresolvedPath            "org.apache.hadoop.hdfs.protocol.UnresolvedPathException"           ErrorApplication         ELOOP        Never     Debug;
    PathComponentTooLong      "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException" ErrorApplication ENAMETOOLONG Never Debug;
    MaxDirectoryItemsExceeded "org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException" ErrorApplication EMLINK Never Info;
    StartAfterNotFound        "org.apache.hadoop.fs.DirectoryListingStartAfterNotFoundException"  ErrorApplication         ENOENT       Never     Debug;
    // Permission.
    AccessControl             "org.apache.hadoop.security.AccessControlException"                 ErrorApplication         EACCES       Never     Debug;
    SnapshotAccessControl     "org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException"    ErrorApplication         EROFS        Never     Debug;
    InvalidToken              "org.apache.hadoop.security.token.SecretManager$InvalidToken"       ErrorApplication         EACCES       Never     Info;
    Authorization             "org.apache.hadoop.security.authorize.AuthorizationException"       ErrorApplication         EACCES       Never     Info;
    // Quotas.
    NsQuotaExceeded           "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException"          ErrorApplication         EDQUOT       Never     Debug;
    DsQuotaExceeded           "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"          ErrorApplication         EDQUOT       Never     Debug;
    QuotaByStorageTypeExceeded "org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException" ErrorApplication      EDQUOT       Never     Debug;
    // Files being written.
    AlreadyBeingCreated       "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException"      ErrorApplication         EBUSY        Never     Debug;
    RecoveryInProgress        "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException"       ErrorApplication         EBUSY        Never     Debug;
    LeaseExpired              "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"      ErrorApplication         ESTALE       Never     Info;
    NotReplicatedYet          "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException"  ErrorApplication         EAGAIN       Never     Debug;
    RetryStartFile            "org.apache.hadoop.hdfs.server.namenode.RetryStartFileException"    ErrorApplication         EAGAIN       Never     Debug;
    UnknownCryptoProtocolVersion "org.apache.hadoop.hdfs.UnknownCryptoProtocolVersionException"   ErrorApplication         EOPNOTSUPP   Never     Debug;
    // Attributes, snapshots, policies.
    Acl                       "org.apache.hadoop.hdfs.protocol.AclException"                      ErrorApplication         EINVAL       Never     Debug;
    XAttrNotFound             "org.apache.hadoop.hdfs.protocol.XAttrNotFoundException"            ErrorApplication         ENODATA      Never     Debug;
    Snapshot                  "org.apache.hadoop.hdfs.protocol.SnapshotException"                 ErrorApplication         EINVAL       Never     Debug;
    NoEcPolicySet             "org.apache.hadoop.hdfs.protocol.NoECPolicySetException"            ErrorApplication         ENODATA      Never     Debug;
    // Arguments and everything else.
    HadoopIllegalArgument     "org.apache.hadoop.HadoopIllegalArgumentException"                  ErrorApplication         EINVAL       Never     Debug;
    IllegalArgument           "java.lang.IllegalArgumentException"                                ErrorApplication         EINVAL       Never     Debug;
    Assertion                 "java.lang.AssertionError"                                          ErrorApplication         EINVAL       Never     Debug;
    UnsupportedOperation      "java.lang.UnsupportedOperationException"                           ErrorApplication         EOPNOTSUPP   Never     Debug;
    IllegalState              "java.lang.IllegalStateException"                                   ErrorApplication         EIO          Never     Warn;
    Io                        "java.io.IOException"                                               ErrorApplication         EIO          Never     Info;
    // The namenode's state.
    SafeMode                  "org.apache.hadoop.hdfs.server.namenode.SafeModeException"          ErrorApplication         EROFS        Never     Debug;
    Retriable                 "org.apache.hadoop.ipc.RetriableException"                          ErrorApplication         EAGAIN       SameLater Info;
    Standby                   "org.apache.hadoop.ipc.StandbyException"                            ErrorApplication         EAGAIN       Another   Debug;
    ObserverRetryOnActive     "org.apache.hadoop.ipc.ObserverRetryOnActiveException"              ErrorApplication         EAGAIN       Another   Debug;
    ServiceFailed             "org.apache.hadoop.ha.ServiceFailedException"                       ErrorApplication         EIO          Never     Info;
    // Datanodes. The first three end a stock DataNode's service for good.
    UnregisteredNode          "org.apache.hadoop.hdfs.protocol.UnregisteredNodeException"         ErrorApplication         ENODEV       Never     Warn;
    DisallowedDatanode        "org.apache.hadoop.hdfs.server.protocol.DisallowedDatanodeException" ErrorApplication        EPERM        Never     Warn;
    IncorrectVersion          "org.apache.hadoop.hdfs.server.common.IncorrectVersionException"    ErrorApplication         EPROTO       Never     Warn;
    InvalidBlockReportLease   "org.apache.hadoop.hdfs.server.protocol.InvalidBlockReportLeaseException" ErrorApplication   EAGAIN       Never     Info;
    ReplicaNotFound           "org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException"   ErrorApplication         ENOENT       Never     Debug;
    // The RPC layer.
    InvalidProtocolBuffer     "org.apache.hadoop.thirdparty.protobuf.InvalidProtocolBufferException" ErrorApplication      EPROTO       Never     Info;
    RpcNoSuchProtocol         "org.apache.hadoop.ipc.RpcNoSuchProtocolException"                  ErrorNoSuchProtocol      EOPNOTSUPP   Never     Info;
    RpcNoSuchMethod           "org.apache.hadoop.ipc.RpcNoSuchMethodException"                    ErrorNoSuchMethod        EOPNOTSUPP   Never     Info;
    RpcVersionMismatch        "org.apache.hadoop.ipc.RPC$VersionMismatch"                         ErrorRpcVersionMismatch  EPROTO       Never     Info;
    RpcServer                 "org.apache.hadoop.ipc.RpcServerException"                          ErrorRpcServer           EPROTO       Never     Info;
    Ipc                       "org.apache.hadoop.ipc.IpcException"                                ErrorRpcServer           EPROTO       Never     Info;
    Sasl                      "javax.security.sasl.SaslException"                                 FatalUnauthorized        EACCES       Never     Info;
    // Only on the client's side: a class that is not in this table; it then stands at the head of the message.
    Remote                    "org.apache.hadoop.ipc.RemoteException"                             ErrorApplication         EIO          Never     Info;
}

impl Kind {
    /// The whole row: the table has one per variant, in their order.
    pub const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Java class name.
    pub const fn class(self) -> &'static str {
        self.row().class
    }

    /// Class name without its package and outer class.
    pub fn simple_name(self) -> &'static str {
        self.class().rsplit(['.', '$']).next().unwrap_or_default()
    }

    /// Linux error number.
    pub const fn errno(self) -> i32 {
        self.row().errno
    }

    /// What the caller does.
    pub const fn retry(self) -> Retry {
        self.row().retry
    }

    /// The kind of a Java class name.
    pub fn from_class(class: &str) -> Option<Kind> {
        TABLE.iter().find(|row| row.class == class).map(|row| row.kind)
    }
}

/// An exception on its way over the wire: what a server answers, and what a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// Which class.
    pub kind: Kind,
    /// For people: what happened, to which path, what to do.
    pub message: String,
}

impl RpcError {
    /// An exception of `kind` with a text.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The exception that a response header names. Servers append a Java stack trace to the message: it is cut off.
    /// A class that the table does not have becomes [`Kind::Remote`].
    pub fn from_wire(class: &str, message: &str) -> Self {
        let first_line = message.lines().next().unwrap_or_default();
        // Java prefixes the trace with the class's own name and the message once more; only the first line counts.
        match Kind::from_class(class) {
            Some(kind) => Self::new(kind, first_line),
            None => Self::new(Kind::Remote, format!("{class}: {first_line}")),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.simple_name(), self.message)
    }
}

impl std::error::Error for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_and_no_class_twice() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.kind as usize, i);
            assert_eq!(Kind::from_class(row.class), Some(row.kind), "{} stands twice", row.class);
            assert_eq!(row.kind.row(), row);
        }
        assert_eq!(Kind::from_class("java.lang.Nothing"), None);
    }

    #[test]
    fn from_the_wire() {
        let known = RpcError::from_wire(
            "java.io.FileNotFoundException",
            "File does not exist: /a\n\tat x.y.Z(Z.java:1)",
        );
        assert_eq!(known, RpcError::new(Kind::FileNotFound, "File does not exist: /a"));
        assert_eq!(known.to_string(), "FileNotFoundException: File does not exist: /a");
        let inner = RpcError::new(Kind::InvalidToken, "x");
        assert_eq!(inner.to_string(), "InvalidToken: x");
        let unknown = RpcError::from_wire("com.example.Odd", "why");
        assert_eq!(unknown, RpcError::new(Kind::Remote, "com.example.Odd: why"));
    }
}
