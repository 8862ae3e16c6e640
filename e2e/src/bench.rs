//! What measurements share.

pub use trellis_loadgen::spread::{Spread, median};

/// Interleaved runs of each side; what is shown is their median.
pub const PAIRS: usize = 3;
