//! Files as the namenode sees them: create, append, complete, cut, put together, leases. Their data is in
//! [`crate::block`].

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;

use crate::block::FileWriter;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::types::{Block, CreateOptions, FileStatus, ServerDefaults};

/// How long the namenode's suggestions are believed.
const DEFAULTS_VALID: Duration = Duration::from_secs(3600);
impl Client {
    /// Makes a file and opens it for writing. The umask is taken off the permission.
    pub async fn create(&self, path: &str, options: &CreateOptions) -> Result<FileWriter> {
        // Before the call, so that the lease is renewed however long that takes.
        let lease = self.hold_lease();
        let status = self.create_only(path, options).await?;
        Ok(FileWriter::created(self.clone(), path, status, lease))
    }

    /// Opens a closed file to write after its end; with `new_block` in a new block, as several writers of one file after
    /// another like it.
    ///
    /// # Errors
    /// FileNotFoundException; AlreadyBeingCreatedException while another has it open; RecoveryInProgressException.
    pub async fn append(&self, path: &str, new_block: bool) -> Result<FileWriter> {
        use hdfs::CreateFlagProto as Flag;
        let lease = self.hold_lease();
        let new_block = if new_block { Flag::NewBlock as u32 } else { 0 };
        let request = hdfs::AppendRequestProto {
            src: path.to_owned(),
            client_name: self.0.name.clone(),
            flag: Some(Flag::Append as u32 | new_block),
        };
        let answer = self.call_on(path, &rpc::APPEND, &request).await?;
        let status = match answer.stat {
            Some(status) => status.into(),
            None => self.get_file_info(path).await?.ok_or_else(|| {
                Error::local("append", path, Kind::FileNotFound, format!("File does not exist: {path}"))
            })?,
        };
        Ok(FileWriter::appended(self.clone(), path, status, answer.block, lease))
    }

    /// Cuts a closed file to `length`, which must not be above its own. True: done; false: the last block is being cut,
    /// and the file is closed when that is done.
    pub async fn truncate(&self, path: &str, length: u64) -> Result<bool> {
        let request = hdfs::TruncateRequestProto {
            src: path.to_owned(),
            new_length: length,
            client_name: self.0.name.clone(),
        };
        Ok(self.call_on(path, &rpc::TRUNCATE, &request).await?.result)
    }

    /// Makes an empty file: create and complete.
    pub async fn create_empty(&self, path: &str, options: &CreateOptions) -> Result<FileStatus> {
        let status = self.create_only(path, options).await?;
        if self.complete(path, status.file_id, None).await? {
            return Ok(status);
        }
        let text = format!("{path} was created, but the namenode does not close it");
        Err(Error::local("complete", path, Kind::Io, text))
    }

    /// Makes a file and leaves it open, for whoever writes and completes it by calls of their own: nobody renews its
    /// lease.
    pub async fn create_only(&self, path: &str, options: &CreateOptions) -> Result<FileStatus> {
        let (replication, block_size) = match (options.replication, options.block_size) {
            (Some(replication), Some(block_size)) => (replication, block_size),
            (replication, block_size) => {
                let defaults = self.get_server_defaults().await.map_err(|error| error.on(path))?;
                (replication.unwrap_or(defaults.replication), block_size.unwrap_or(defaults.block_size))
            }
        };
        let overwrite = if options.overwrite { hdfs::CreateFlagProto::Overwrite as u32 } else { 0 };
        let (masked, unmasked) = self.masked(options.permission);
        let request = hdfs::CreateRequestProto {
            src: path.to_owned(),
            masked,
            client_name: self.0.name.clone(),
            create_flag: hdfs::CreateFlagProto::Create as u32 | overwrite,
            create_parent: options.create_parent,
            replication: replication.into(),
            block_size,
            unmasked: Some(unmasked),
            ..Default::default()
        };
        match self.call_on(path, &rpc::CREATE, &request).await?.fs {
            Some(status) => Ok(status.into()),
            None => Err(Error::local("create", path, Kind::Io, "the namenode did not say what it created")),
        }
    }

    /// Closes a file whose last block is `last`; false: that block has too few copies yet, ask again. True again if
    /// it was closed already with the same last block.
    pub async fn complete(&self, path: &str, file_id: u64, last: Option<&Block>) -> Result<bool> {
        let request = hdfs::CompleteRequestProto {
            src: path.to_owned(),
            client_name: self.0.name.clone(),
            last: last.map(hdfs::ExtendedBlockProto::from),
            file_id: Some(file_id),
        };
        Ok(self.call_on(path, &rpc::COMPLETE, &request).await?.result)
    }

    /// Renews the lease of all files that this client has open. Runs by itself while there are any.
    pub async fn renew_lease(&self) -> Result<()> {
        let request =
            hdfs::RenewLeaseRequestProto { client_name: self.0.name.clone(), namespaces: Vec::new() };
        self.call(&rpc::RENEW_LEASE, &request).await.map(drop)
    }

    /// Takes the lease off whoever has the file open; true: it is closed now, false: ask again later.
    pub async fn recover_lease(&self, path: &str) -> Result<bool> {
        let request =
            hdfs::RecoverLeaseRequestProto { src: path.to_owned(), client_name: self.0.name.clone() };
        Ok(self.call_on(path, &rpc::RECOVER_LEASE, &request).await?.result)
    }

    /// Whether nobody has the file open for writing.
    pub async fn is_file_closed(&self, path: &str) -> Result<bool> {
        let request = hdfs::IsFileClosedRequestProto { src: path.to_owned() };
        Ok(self.call_on(path, &rpc::IS_FILE_CLOSED, &request).await?.result)
    }

    /// What the namenode suggests for new files; asked for once an hour.
    pub async fn get_server_defaults(&self) -> Result<ServerDefaults> {
        let known = *self.0.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((asked_at, defaults)) = known
            && asked_at.elapsed() < DEFAULTS_VALID
        {
            return Ok(defaults);
        }
        let response = self.call(&rpc::GET_SERVER_DEFAULTS, &hdfs::GetServerDefaultsRequestProto {}).await?;
        let defaults = ServerDefaults::from(response.server_defaults);
        *self.0.defaults.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), defaults));
        Ok(defaults)
    }
}
