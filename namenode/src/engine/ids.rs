//! Inode ids, reserved from the store in ranges; what a namenode has not used when it stops is lost.

use std::sync::{Mutex, PoisonError};

use super::ctx::IdBlock;

/// The ids that this namenode may give out.
#[derive(Debug, Default)]
pub struct Ids {
    range: Mutex<IdBlock>,
}

impl Ids {
    /// The next `count` ids, if the range holds them.
    pub fn draw(&self, count: u64) -> Option<IdBlock> {
        let mut range = self.range.lock().unwrap_or_else(PoisonError::into_inner);
        if range.count < count {
            return None;
        }
        let block = IdBlock { first: range.first, count };
        *range = IdBlock { first: range.first + count, count: range.count - count };
        Some(block)
    }

    /// Replaces the range by a newly reserved one.
    pub fn refill(&self, range: IdBlock) {
        *self.range.lock().unwrap_or_else(PoisonError::into_inner) = range;
    }
}
