//! How much room a volume's file system has, asked so that a disk that hangs holds up nobody.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::core::lock;

/// Bytes of the file system below a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub size: u64,
    /// Taken, by whomever.
    pub used: u64,
    /// Free for this process.
    pub available: u64,
}

/// Asks a file system for its room.
pub type Measure = Box<dyn Fn() -> io::Result<Space> + Send + Sync>;

/// How long one waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// So long; then the last answer has to do.
    pub wait: Duration,
    /// So long a disk may not answer; then it counts as failed.
    pub hang: Duration,
}

/// The limits of a datanode: short against the time after which a namenode calls it dead.
pub const LIMITS: Limits = Limits { wait: Duration::from_secs(2), hang: Duration::from_secs(60) };

/// The room of one volume.
pub struct Room {
    measure: Measure,
    limits: Limits,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// Since when a thread asks.
    asking: Option<Instant>,
    /// How many answers there were.
    answers: u64,
    last: Option<Space>,
    /// The last answer, if that was an error.
    error: Option<io::Error>,
}

impl Room {
    /// Nothing is asked yet.
    pub fn new(measure: Measure, limits: Limits) -> Arc<Room> {
        Arc::new(Room { measure, limits, state: Mutex::default(), answered: Condvar::new() })
    }

    /// What was answered last, without asking.
    pub fn last(&self) -> Space {
        lock(&self.state).last.unwrap_or_default()
    }

    /// The room as it is now, or as it was when a disk last said so; `TimedOut` once that one does not answer at all.
    pub fn ask(self: &Arc<Self>) -> io::Result<Space> {
        let mut state = lock(&self.state);
        // An answer to a question that was put before may be of before the caller's last change.
        let wanted = state.answers + if state.asking.is_some() { 2 } else { 1 };
        let until = Instant::now() + self.limits.wait;
        while state.answers < wanted {
            if state.asking.is_none() {
                state.asking = Some(Instant::now());
                let room = self.clone();
                let asked =
                    std::thread::Builder::new().name("dn-room".to_owned()).spawn(move || room.answer());
                if let Err(error) = asked {
                    state.asking = None;
                    return state.last.ok_or(error);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let hangs = state.asking.is_some_and(|since| since.elapsed() >= self.limits.hang);
                let late = || io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer");
                return if hangs { Err(late()) } else { Ok(state.last.unwrap_or_default()) };
            }
            state = self.answered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match (&state.error, state.last) {
            (Some(error), _) => {
                Err(error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error))
            }
            (None, last) => Ok(last.unwrap_or_default()),
        }
    }

    /// On a thread that may hang with the disk.
    fn answer(&self) {
        let answer = (self.measure)();
        let mut state = lock(&self.state);
        state.asking = None;
        state.answers += 1;
        match answer {
            Ok(space) => (state.last, state.error) = (Some(space), None),
            Err(error) => state.error = Some(error),
        }
        self.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn each_who_asks_hears_what_is_so_since() {
        let size = Arc::new(AtomicU64::new(1));
        let now = size.clone();
        let measure = move || Ok(Space { size: now.load(Ordering::SeqCst), ..Space::default() });
        let room = Room::new(Box::new(measure), Limits { wait: HOUR, hang: HOUR });
        assert_eq!(room.last(), Space::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let before = size.fetch_add(1, Ordering::SeqCst);
                        assert!(room.ask().unwrap().size > before);
                    }
                });
            }
        });
        assert_eq!(room.last(), room.ask().unwrap());
    }

    #[test]
    fn a_disk_that_hangs_holds_up_nobody_and_fails() {
        for (hang, fails) in [(HOUR, false), (Duration::ZERO, true)] {
            let (answers, queue) = mpsc::channel();
            let queue = Mutex::new(queue);
            let measure = move || lock(&queue).recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            let room = Room::new(Box::new(measure), Limits { wait: Duration::from_millis(20), hang });
            let space = Space { size: 9, used: 4, available: 5 };
            answers.send(Ok(space)).unwrap();
            while room.last() != space {
                let _ = room.ask(); // its thread may take longer than the wait
            }
            match fails {
                false => assert_eq!(room.ask().unwrap(), space, "the last that is known"),
                true => assert_eq!(room.ask().unwrap_err().kind(), io::ErrorKind::TimedOut),
            }
            // One thread hangs, however many ask.
            assert!(lock(&room.state).asking.is_some());
            drop(answers);
        }
    }

    #[test]
    fn an_error_is_told() {
        let measure = || Err(io::Error::from_raw_os_error(nix::libc::ENOENT));
        let room = Room::new(Box::new(measure), Limits { wait: HOUR, hang: HOUR });
        assert_eq!(room.ask().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
