//! What holds for the embedded store beyond the contract.

use libtest_mimic::Trial;

pub fn is_child() -> bool {
    false
}

pub fn trials() -> Vec<Trial> {
    vec![]
}
