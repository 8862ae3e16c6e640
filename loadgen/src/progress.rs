//! How far something is, on a terminal.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar; hidden when stderr is no terminal. Clones are the same bar.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Bar>);

#[derive(Debug)]
struct Bar(ProgressBar);

impl Progress {
    /// `what` is going on, of which there are so many of `unit`, which may go on with indicatif's words, such as
    /// `{per_sec}`.
    pub fn new(what: &'static str, length: u64, unit: &str) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(Arc::new(Bar(ProgressBar::hidden())));
        }
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        let template = format!("{{msg}} [{{bar:30}}] {{pos}}/{{len}} {unit}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress(Arc::new(Bar(bar.with_message(what))))
    }

    /// So many more are done.
    pub fn add(&self, count: u64) {
        self.0.0.inc(count);
    }

    /// So many are done, and this is to be said of it.
    pub fn set(&self, done: u64, message: String) {
        self.0.0.set_message(message);
        self.0.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
