//! Files' data: to and from datanodes.
//!
//! - [`writer`]: a file that is written; `packet`: its bytes cut up; `streamer`: the task that sends them; `recovery`:
//!   blocks from the namenode, and what follows when a datanode fails; `pipeline`: its datanodes
//! - [`reader`]: a file that is read; `locations`: where its blocks are; `read`: one block from one datanode
//! - [`checksum`]: of a whole file
//! - `datanodes`, `connection`: the way there

pub mod checksum;
pub mod reader;
pub mod writer;

mod locations;
mod packet;
mod pipeline;
mod read;
mod recovery;
mod streamer;

mod connection;
mod datanodes;

pub use checksum::FileChecksum;
pub(crate) use datanodes::Datanodes;
pub use reader::{FileReader, FileStream};
pub use writer::FileWriter;
