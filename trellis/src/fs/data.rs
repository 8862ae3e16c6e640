//! The stock shell's verbs on files' contents, of which this version has none.

use super::shell::Shell;

/// Why they fail.
pub const NO_DATA: &str = "this version of Trellis keeps names only, and no file data yet";

/// One of the verbs that need files' contents, and its arguments.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Data {
    /// Whatever the stock shell takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<String>,
}

impl Data {
    pub fn run(self, shell: &mut Shell) {
        shell.fail(
            "fs",
            format_args!("{NO_DATA}: nothing was read or written; see trellis fs --help for what works"),
        );
    }
}
