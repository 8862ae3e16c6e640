//! A client of HDFS: Trellis's namenodes, and Hadoop's.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use trellis_client::{Client, Conf};
//!
//! let (builder, _) = Client::from_conf(&Conf::from_env()?, Some("hdfs://nn1:8020,nn2:8020"))?;
//! let client = builder.build()?;
//! client.mkdirs("/data", 0o777, true).await?;
//! let mut listing = client.get_listing("/data");
//! while let Some(entry) = listing.next().await? {
//!     println!("{} {}", entry.name, entry.length);
//! }
//! # Ok(()) }
//! ```
//!
//! From the top down:
//!
//! - [`fs`]: directories, names, attributes
//! - [`file`]: files that are being written
//! - `lease`: their leases
//! - [`client`]: a client and its settings
//! - `failover`: a call over several namenodes, each method by [`semantics`]
//! - [`namenode`]: one namenode
//! - `connection`: one TCP connection, many calls at once
//!
//! and beside them [`types`], [`error`], [`config`] (time-outs and bounds), [`uri`], [`conf`] (Hadoop's configuration
//! files), [`user`].
//!
//! Never here: what only a namenode knows. Wire messages stop at [`fs`] and [`file`].

pub mod file;
pub mod fs;
mod lease;

pub mod client;

mod failover;
pub mod semantics;

mod connection;
pub mod namenode;

pub mod conf;
pub mod config;
pub mod error;
pub mod types;
pub mod uri;
pub mod user;

pub use client::Client;
pub use conf::Conf;
pub use error::{Error, Result};
