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
//! let mut file = client.create("/data/f", &Default::default()).await?;
//! file.write(b"some bytes").await?;
//! file.close().await?;
//! let mut stream = client.open("/data/f").await?.stream_all();
//! while let Some(bytes) = stream.next().await? {
//!     println!("{} bytes", bytes.len());
//! }
//! # Ok(()) }
//! ```
//!
//! From the top down:
//!
//! - [`fs`]: directories, names, attributes
//! - [`file`]: files, as the namenode sees them
//! - [`block`]: their data, to and from datanodes
//! - `lease`: leases of files that are being written
//! - [`admin`]: what superusers ask
//! - [`client`]: a client and its settings
//! - `failover`: a call over several namenodes, each method by [`semantics`]; `tally`: its answers, counted
//! - [`namenode`]: one namenode
//! - `connection`: one TCP connection, many calls at once
//!
//! and beside them [`types`], [`error`], [`config`] (time-outs and bounds), [`uri`], [`conf`] (Hadoop's configuration
//! files), [`user`].
//!
//! Never here: what only a namenode knows. Wire messages stop at [`fs`], [`file`] and [`block`].

pub mod admin;
pub mod block;
pub mod file;
pub mod fs;
mod lease;

pub mod client;

mod failover;
pub mod semantics;
mod tally;

mod connection;
pub mod namenode;

pub mod conf;
pub mod config;
pub mod error;
pub mod types;
pub mod uri;
pub mod user;

pub use block::{FileReader, FileStream, FileWriter};
pub use client::Client;
pub use conf::Conf;
pub use error::{Error, Result};
pub use tally::Answers;
