//! Text on its way to a reader who may be slow, or gone.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Text that gathers before it is sent.
const PIECE_BYTES: usize = 16 << 10;
/// Pieces on their way; then the reader is waited for.
const PIECES: usize = 4;
/// After so long without a word a dot is sent: clients give a silent server up (stock's after 60 s).
const SILENCE: Duration = Duration::from_secs(10);
/// How long a reader may take for a piece.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The reader has gone, or reads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// When a connection has to be at its end, unless its answer goes on.
#[derive(Clone, Debug)]
pub struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    /// In so long.
    pub fn after(time: Duration) -> Deadline {
        Deadline(Arc::new(Mutex::new(Instant::now() + time)))
    }

    /// Moves it on: from now on so long.
    pub fn extend(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + time;
    }

    /// Waits until it has passed.
    pub async fn passed(&self) {
        loop {
            let deadline = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

/// The writing end.
pub struct Lines {
    gathered: String,
    sender: mpsc::Sender<Bytes>,
    deadline: Deadline,
    spoke: Instant,
}

impl Lines {
    /// A writing end, and where the pieces come out. `deadline` is that of the reader's connection.
    pub fn new(deadline: Deadline) -> (Lines, mpsc::Receiver<Bytes>) {
        let (sender, pieces) = mpsc::channel(PIECES);
        (Lines { gathered: String::new(), sender, deadline, spoke: Instant::now() }, pieces)
    }

    /// Between two steps of the work: sends what has gathered, if that is much, and a sign of life if nothing has been
    /// said for long.
    pub async fn pass(&mut self) -> Result<(), Lost> {
        if self.gathered.len() < PIECE_BYTES && self.spoke.elapsed() >= SILENCE {
            self.gathered.push('.');
        } else if self.gathered.len() < PIECE_BYTES {
            return if self.sender.is_closed() { Err(Lost) } else { Ok(()) };
        }
        self.flush().await
    }

    /// Sends what has gathered.
    pub async fn flush(&mut self) -> Result<(), Lost> {
        self.deadline.extend(PATIENCE);
        let piece = Bytes::from(std::mem::take(&mut self.gathered));
        self.sender.send(piece).await.map_err(|_| Lost)?;
        self.deadline.extend(PATIENCE);
        self.spoke = Instant::now();
        Ok(())
    }
}

impl fmt::Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.gathered.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_given_up_and_a_long_silence_is_broken() {
        let deadline = Deadline::after(Duration::from_secs(10));
        let (mut lines, mut pieces) = Lines::new(deadline.clone());
        lines.write_str("a").unwrap();
        lines.pass().await.unwrap();
        assert!(pieces.try_recv().is_err());
        tokio::time::sleep(SILENCE).await;
        lines.pass().await.unwrap();
        assert_eq!(pieces.recv().await.unwrap(), "a.");
        let stuck = async {
            loop {
                lines.write_str("b").unwrap();
                if lines.flush().await.is_err() {
                    return;
                }
            }
        };
        // Nobody takes the pieces: the connection's end comes, and with it that of its reader.
        tokio::select! {
            () = stuck => panic!("the reader is there"),
            () = deadline.passed() => drop(pieces),
        }
        assert_eq!(lines.pass().await, Err(Lost));
    }
}
