//! The metadata load generator: `trellis load`. Drives any HDFS namenodes, ours or stock's.
//!
//! - [`namespace`]: a namespace as a pure function; [`names`]: what is called how; [`like`]: its shape from an fsimage
//! - [`contents`]: what its files hold; [`distribution`]: sizes and their likes; [`marker`]: its record in the base
//! - [`tree`]: what of it is there; [`mod@build`]: makes it
//! - [`mix`]: THE tables of operations and workloads; [`ops`]: what each operation does; [`files`]: those with blocks
//! - [`datanodes`]: simulated datanodes
//! - [`pick`]: what the next one is done to; [`popularity`]: which files are liked more
//! - [`arrivals`]: when operations of an open loop begin; [`drive`]: the loops; [`loops`]: the threads they run on
//! - [`record`]: what happened; [`servers`]: what the servers counted; [`watch`]: what is counted while operations run
//! - [`disturb`]: what is done to the servers meanwhile; [`episodes`]: what happened from one such thing to the next
//! - [`config`]: what a run is asked to do; [`mod@run`]: from there to its report; [`stop`]: before its time
//! - [`trace`]: audit logs: replayed, made from a mix, made anonymous
//! - [`report`]: THE schema; [`summary`]: its figures; [`cached`]: whether they are the servers'
//! - [`show`]: reports as tables; [`compare`]: two of them; [`page`]: drawn
//! - [`selftest`]: what this program itself can offer
//! - [`scale`]: the same mix on more and more namenodes; [`model`]: how many operations a cluster could do
//! - [`findings`]: what any of these leaves behind: as a file, as tables, as a page
//! - [`paths`]: what a command reads and writes, looked at before; [`output`]: how it is written; [`saved`]: and read back
//! - [`spread`]: figures of several runs
//! - [`target`]: clients of the namenodes; [`progress`], [`error`]
//!
//! Never here: what only a server knows. All goes over the wire, to ours and to stock's alike.

pub mod contents;
pub mod distribution;
pub mod like;
pub mod marker;
pub mod names;
pub mod namespace;
pub mod tree;

pub mod build;

pub mod files;
pub mod mix;
pub mod ops;

pub mod pick;
pub mod popularity;

pub mod datanodes;

pub mod arrivals;
pub mod drive;
pub mod loops;
mod patience;

pub mod disturb;
pub mod episodes;
pub mod record;
pub mod servers;
pub mod watch;

pub mod config;
pub mod run;
pub mod stop;

pub mod trace;

pub mod cached;
pub mod report;
mod summary;

pub mod compare;
pub mod page;
pub mod show;

pub mod findings;
pub mod model;
pub mod scale;
pub mod selftest;

pub mod error;
pub mod output;
pub mod paths;
pub mod progress;
pub mod saved;
pub mod spread;
pub mod target;

pub use error::{Error, Result};
