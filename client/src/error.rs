//! What a call can end with.

use std::fmt;
use std::sync::Arc;

use trellis_proto::exception::{Kind, RpcError, errno};

/// How one attempt of a call failed. What may be done about it depends on whether the namenode can have seen the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing of the call left this process, so it can be sent anywhere: no connection, or it ended before.
    NotSent(Arc<str>),
    /// The call was sent, at least in part, and no answer came. The namenode may have carried it out.
    Lost(Arc<str>),
    /// The namenode answered with an exception.
    Exception(RpcError),
    /// The request is too large, or the answer cannot be read. Trying again would not help.
    Unusable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) | Self::Lost(why) => f.write_str(why),
            Self::Exception(error) => error.fmt(f),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// A call that failed for good: which, on which path, and why.
///
/// ```text
/// mkdirs /a/b: AccessControlException: Permission denied: user=ann, access=WRITE, inode="/a":root:supergroup:drwxr-xr-x
/// ```
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    method: &'static str,
    path: Option<Box<str>>,
    attempts: u32,
    /// `host:port` of the namenode that failed last; empty if none was asked.
    namenode: String,
    fault: Fault,
}

impl Error {
    /// `method` is the wire name; `attempts` counts all sends.
    pub(crate) fn new(method: &'static str, namenode: String, attempts: u32, fault: Fault) -> Self {
        Self(Box::new(Inner { method, path: None, attempts, namenode, fault }))
    }

    /// An exception that this client raises itself, as a stock client would.
    pub(crate) fn local(method: &'static str, path: &str, kind: Kind, message: impl Into<String>) -> Self {
        let fault = Fault::Exception(RpcError::new(kind, message));
        Self::new(method, String::new(), 0, fault).on(path)
    }

    /// The same error, with the path that the call was about.
    pub(crate) fn on(mut self, path: &str) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// The call, by its wire name.
    pub fn method(&self) -> &'static str {
        self.0.method
    }

    /// How often it was sent; 0 when the client raised the error itself.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// What happened to the last attempt.
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }

    /// The exception that the namenode answered with, if it is that.
    pub fn exception(&self) -> Option<&RpcError> {
        match &self.0.fault {
            Fault::Exception(error) => Some(error),
            _ => None,
        }
    }

    /// The exception's class, if the namenode answered with one.
    pub fn kind(&self) -> Option<Kind> {
        self.exception().map(|error| error.kind)
    }

    /// The path that the call was about (for two paths, the source).
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Whether the call may have been carried out although it failed.
    pub fn maybe_done(&self) -> bool {
        matches!(self.0.fault, Fault::Lost(_))
    }

    /// Linux error number, for the mount.
    pub fn errno(&self) -> i32 {
        self.kind().map_or(errno::EIO, Kind::errno)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { method, path, attempts, namenode, fault } = &*self.0;
        f.write_str(method)?;
        if let Some(path) = path {
            write!(f, " {path}")?;
        }
        match fault {
            Fault::Exception(error) => write!(f, ": {error}"),
            Fault::Unusable(why) => write!(f, ": {why}"),
            Fault::NotSent(why) => write!(
                f,
                ": no namenode could be reached in {attempts} attempts, the last was {namenode} ({why}): check that it \
                 runs, and the address"
            ),
            Fault::Lost(why) => write!(
                f,
                ": no answer from {namenode} after {attempts} attempts ({why}); it may have been carried out all the \
                 same: look before trying again"
            ),
        }
    }
}

impl std::error::Error for Error {}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_happened_to_which_path() {
        let exception = Fault::Exception(RpcError::new(Kind::FileNotFound, "File does not exist: /a"));
        let error = Error::new("setTimes", "nn:8020".into(), 1, exception).on("/a");
        assert_eq!(error.to_string(), "setTimes /a: FileNotFoundException: File does not exist: /a");
        assert_eq!((error.errno(), error.maybe_done()), (errno::ENOENT, false));

        let error =
            Error::new("delete", "nn:8020".into(), 3, Fault::Lost("connection reset".into())).on("/a");
        assert!(
            error
                .to_string()
                .starts_with("delete /a: no answer from nn:8020 after 3 attempts (connection reset)")
        );
        assert_eq!((error.kind(), error.errno(), error.maybe_done()), (None, errno::EIO, true));
    }
}
