//! Hadoop RPC in front of the engine: the only place where wire messages meet operations.
//!
//! | file | what |
//! |---|---|
//! | [`client_protocol`] | THE table: every method of ClientProtocol, one line each |
//! | [`protocols`] | the same for the other protocols that share the port |
//! | [`plan`] | what a line of a table leads to: request → operation → answer; `running`: how it gets there |
//! | `patient` | calls that are kept until replicas are reported |
//! | `names`, `files`, `blocks`, … | requests to operations, by family; `convert`, `located`: their answers to messages |
//! | `datanode` | how datanodes come and live; `reports`, `block_list`: what they report; `commands`: what they are told |
//! | `listing` | pages of listings, encoded as they are read |
//! | `fixed` | answers that need no store |
//! | [`service`] | a call looked up in the tables, run, measured, audited |
//! | [`server`] | the listener, limits, closing |
//! | `threads` | the event loops that connections are spread over; `bell`: how others wake their tasks |
//! | `connection` | one task per connection: bytes in, calls, bytes out |
//! | `call` | one call on its way; its answer, now or later (`outbox`) |
//! | [`compat`] | docs/COMPAT.md, made from the tables |

pub mod client_protocol;
pub mod protocols;

mod patient;
pub mod plan;
mod running;

mod attributes;
mod block_list;
mod blocks;
mod cluster;
mod commands;
mod convert;
pub mod datanode;
mod files;
mod fixed;
mod listing;
mod located;
mod names;
mod reports;
mod status;

pub mod compat;
pub mod identity;
pub mod service;

mod bell;
pub mod call;
mod connection;
mod outbox;
pub mod server;
mod threads;
