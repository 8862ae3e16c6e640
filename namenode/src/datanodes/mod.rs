//! What this namenode knows of datanodes from their own heartbeats, and where new replicas may go.
//!
//! - [`view`]: all datanodes at one moment, as operations see them
//! - [`placement`]: chooses storages for the replicas of a block
//!
//! Nothing here is the truth about replicas: that is in rows. Liveness and free space are never written.

pub mod placement;
pub mod view;

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;

pub use self::view::View;

/// Files whose reports are waited for share this many bells.
const BELLS: usize = 256;

/// The datanodes that this namenode hears of.
pub struct Datanodes {
    view: RwLock<Arc<View>>,
    bells: Vec<Notify>,
}

impl Default for Datanodes {
    fn default() -> Self {
        Datanodes { view: RwLock::default(), bells: (0..BELLS).map(|_| Notify::new()).collect() }
    }
}

impl Datanodes {
    /// All datanodes as of now.
    pub fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the view: a datanode came, went, or told of itself.
    pub fn set_view(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    /// Rings (`notify_waiters`) whenever a replica of a block made for `inode` was reported here, whoever applies the
    /// report; now and then for another file. Enable it before looking at the rows.
    pub fn reported(&self, inode: u64) -> &Notify {
        &self.bells[inode as usize % BELLS]
    }
}
