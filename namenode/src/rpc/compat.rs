//! docs/COMPAT.md: what is served of each protocol, made from the method tables.

use std::fmt::Write as _;

use super::plan::Does;
use super::service::TABLES;

/// The whole page.
pub fn page() -> String {
    let mut page = String::from(
        "# What Trellis's namenodes serve of Hadoop's protocols\n\n\
         Made from the method tables in `namenode/src/rpc`; do not edit. *Repeats*: whether a call that is sent again \
         (same client, same call id, any namenode) gets the first answer instead of being run again.\n",
    );
    for table in TABLES {
        let (refused, all) =
            (table.entries.iter().filter(|e| e.does == Does::Refuse).count(), table.entries.len());
        let name = table.protocol.protocol;
        // Writing to a String does not fail.
        let _ = write!(page, "\n## {name}\n\n{} of {all} methods.\n\n", all - refused);
        page.push_str("| method | served | repeats | audit log | note |\n| --- | --- | --- | --- | --- |\n");
        for entry in table.entries {
            let (served, repeats) = match entry.does {
                Does::Read => ("yes, reads", ""),
                Does::Write => ("yes, writes", "run again"),
                Does::WriteOnce | Does::WriteKept => ("yes, writes", "first answer"),
                Does::Answer => ("yes", ""),
                Does::Refuse => ("no", ""),
            };
            let _ = writeln!(
                page,
                "| {} | {served} | {repeats} | {} | {} |",
                entry.name, entry.audit, entry.note
            );
        }
    }
    page
}
