//! Room ahead in the data file. A commit that makes the file longer has to write the file's own metadata too, and waits
//! for it: one more write each time. So the file is made longer now and then, by some zeros (as stock HDFS does with
//! its edit log), and commits find their place there already.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Core;

const DATA_FILE: &str = "data.mdb";
/// The file grows by an eighth of what is in use, between these two.
const SMALLEST_STEP: usize = 64 << 10;
const LARGEST_STEP: usize = 4 << 20;

/// Keeps room in one environment's data file.
pub(super) struct Room {
    file: File,
    page_bytes: u64,
}

impl Room {
    pub fn of(dir: &Path) -> io::Result<Room> {
        let file = File::options().write(true).open(dir.join(DATA_FILE))?;
        let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096);
        Ok(Room { file, page_bytes: page_bytes.max(1) as u64 })
    }

    /// Makes the file longer when little room is left. Must be called inside a write transaction: then no other process
    /// changes the file's length, and what lies past its end belongs to nobody. A full disk is no error here: the
    /// commit itself will say so, if it needs the room.
    pub fn keep(&self, core: &Core) {
        if let Err(error) = self.try_keep(core) {
            tracing::debug!(%error, dir = %core.dir.display(), "no room ahead in the data file");
        }
    }

    fn try_keep(&self, core: &Core) -> io::Result<()> {
        let used = (core.env.info().last_page_number as u64 + 1) * self.page_bytes;
        let length = self.file.metadata()?.len();
        let step = (used as usize / 8).clamp(SMALLEST_STEP, LARGEST_STEP).next_multiple_of(SMALLEST_STEP);
        if length.saturating_sub(used) >= step as u64 / 2 || length >= core.config.map_bytes as u64 {
            return Ok(());
        }
        self.file.write_all_at(&vec![0; step], length)
    }
}
