//! The storage policies that stock HDFS has built in.

use crate::refusal::{Kind, Result, refuse};

/// A storage policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its number in inodes and on the wire.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
}

/// No policy was set: the parent's counts.
pub const UNSPECIFIED: u32 = 0;
/// Replicas in memory first, written to disk later.
pub const LAZY_PERSIST: u32 = 15;

/// All of them, by id.
pub const ALL: &[Policy] = &[
    Policy { id: 1, name: "PROVIDED" },
    Policy { id: 2, name: "COLD" },
    Policy { id: 5, name: "WARM" },
    Policy { id: 7, name: "HOT" },
    Policy { id: 10, name: "ONE_SSD" },
    Policy { id: 12, name: "ALL_SSD" },
    Policy { id: 14, name: "ALL_NVDIMM" },
    Policy { id: LAZY_PERSIST, name: "LAZY_PERSIST" },
];

/// The policy with this name, whatever its case.
pub fn by_name(name: &str) -> Result<Policy> {
    match ALL.iter().find(|policy| policy.name.eq_ignore_ascii_case(name)) {
        Some(policy) => Ok(*policy),
        None => {
            refuse(Kind::HadoopIllegalArgument, format!("Cannot find a block policy with the name {name}"))
        }
    }
}
