//! `docs/CONFIG.md`, written from the tables. `cargo xtask docs` writes it; the test says when it is out of date.

use std::fmt::Write as _;

use crate::config::OPTION_VARIABLES;
use crate::settings::{SETTINGS, Setting, Settings, datanode};

const HEAD: &str = "\
# Settings

<!-- Written by `cargo xtask docs` from trellis/src/settings.rs. Do not edit. -->

A setting comes from a flag, else from the environment, else from the TOML file named by `--config` or
`TRELLIS_CONFIG`, else it has its default. To a command that has settings an unknown name in any of the three is an error,
so a slip of the pen does not pass in silence.

## Options of commands

`trellis COMMAND --help` lists them. Those of `trellis up` may stand in the table `[up]` of the file, with `_` for `-`:

```toml
[up]
data = \"/srv/names\"
namenodes = 3
rpc_port = 8020
restart = true
```

| variable | sets |
|---|---|
";

const NAMENODE: &str = "
## Settings of a namenode

Given as `--set NAME=VALUE` (to `up` and `namenode`), as `TRELLIS_NAME` with the name in capitals, or in the table
`[namenode]` of the file. All namenodes of one store should have equal settings. `trellis admin settings` prints
such a file, with the values that its own flags, environment and file give.

| setting | default | form | stock's name | meaning |
|---|---|---|---|---|
";

const DATANODE: &str = "
## Settings of a datanode

Given as `--set NAME=VALUE` to `datanode`, as `--set datanode.NAME=VALUE` to `up`, as `TRELLIS_DATANODE_NAME` with the
name in capitals, or in the table `[datanode]` of the file.

| setting | default | form | stock's name | meaning |
|---|---|---|---|---|
";

fn config_md() -> String {
    let mut text = HEAD.to_owned();
    for (name, help) in OPTION_VARIABLES {
        let _ = writeln!(text, "| `{name}` | {help} |");
    }
    text.push_str(NAMENODE);
    put_table(&mut text, SETTINGS, &Settings::default());
    text.push_str(DATANODE);
    put_table(&mut text, datanode::SETTINGS, &datanode::Settings::default());
    text
}

fn put_table<S>(text: &mut String, settings: &[Setting<S>], default: &S) {
    for s in settings {
        let stock = if s.stock.is_empty() { String::new() } else { format!("`{}`", s.stock) };
        let _ =
            writeln!(text, "| `{}` | `{}` | {} | {stock} | {} |", s.name, (s.show)(default), s.form, s.help);
    }
}

#[test]
fn config_md_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/CONFIG.md");
    let wanted = config_md();
    if std::env::var_os("TRELLIS_WRITE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == wanted, "docs/CONFIG.md is out of date: run 'cargo xtask docs' and commit it");
}
