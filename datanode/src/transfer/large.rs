//! Memory for large packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for packets larger than a usual buffer, of all connections together.
#[derive(Debug)]
pub(crate) struct LargePackets(AtomicUsize);

impl LargePackets {
    /// `bytes` for all.
    pub(crate) fn new(bytes: usize) -> Arc<LargePackets> {
        Arc::new(LargePackets(AtomicUsize::new(bytes)))
    }

    /// Takes as much of it, if that is left.
    pub(super) fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Gives as much back.
    pub(super) fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_there_is() {
        let large = LargePackets::new(1 << 20);
        assert!(large.take(1 << 20) && !large.take(1));
        large.give_back(5);
        assert!(large.take(5));
    }
}
