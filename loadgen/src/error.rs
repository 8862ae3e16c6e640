//! What can go wrong beside the operations that are measured.

use std::io;

use trellis_client::client::NoNamenodes;
use trellis_client::uri::InvalidUri;

/// Why a namespace was not built, or a run not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call that everything depends on.
    #[error(transparent)]
    Call(#[from] trellis_client::Error),
    /// A file that everything depends on was not made.
    #[error(transparent)]
    File(#[from] crate::files::Failure),
    /// `--target` is no list of namenodes.
    #[error(transparent)]
    Target(#[from] InvalidUri),
    /// It is an empty one.
    #[error(transparent)]
    NoNamenodes(#[from] NoNamenodes),
    /// A file, a socket or /proc.
    #[error("{what}: {error}")]
    Io {
        /// What was done.
        what: String,
        /// How it failed.
        error: io::Error,
    },
    /// What was asked for makes no sense, or what is there does not fit it: says what to do.
    #[error("{0}")]
    Refused(String),
    /// It was ended while it had nothing to report yet.
    #[error("ended before anything was measured")]
    Ended,
    /// What a server or a file says cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

impl Error {
    /// For `map_err`: what was done when IO failed.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |error| Error::Io { what, error }
    }

    /// An error that says what to do.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::Refused(what.into())
    }
}

/// With [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
