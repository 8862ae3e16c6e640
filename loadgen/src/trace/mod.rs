//! Audit logs: what they say, how they are replayed, and how they are made.
//!
//! - [`line`](mod@line), [`escape`], [`table`]: formats; [`reader`]: lines of files; [`twice`]: the same lines again
//! - [`commands`]: THE table of what is replayed, and how
//! - [`steps`]: lines as what is to be done; [`place`]: where
//! - [`model`]: what must be there first; [`prepare`]: makes it
//! - [`order`]: which line waits for which; [`calls`]: what a line does; [`play`]: does it when it is time
//! - [`synth`]: traces from a mix; [`anonymise`]: traces without names; [`sink`]: where they are written
//! - [`replay`]: all of it, from the configuration to the report

pub mod escape;
pub mod line;
pub mod reader;
pub mod table;
pub mod twice;

pub mod commands;
pub mod place;
pub mod steps;

pub mod model;

pub mod calls;
pub mod order;

pub mod account;
pub mod play;
pub mod prepare;
pub mod replay;

pub mod anonymise;
pub mod sink;
pub mod synth;
