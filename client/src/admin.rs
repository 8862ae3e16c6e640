//! What superusers ask.

use trellis_proto::hdfs;
use trellis_proto::hdfs::OpenFilesTypeProto;
use trellis_proto::hdfs::client_namenode_protocol as rpc;

use crate::Client;
use crate::error::Result;

/// A file that is open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Path.
    pub path: String,
    /// The lease holder: the client's name.
    pub holder: String,
    /// The address from which the client opened it.
    pub machine: String,
}

/// A page of open files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenFilesPage {
    /// In the order of their inode ids.
    pub files: Vec<OpenFile>,
    /// Where the next page starts; none = this was the last one.
    pub next: Option<i64>,
}

impl Client {
    /// The files at and below a path that are open for writing. `after`: 0, or where the last page said.
    pub async fn list_open_files(&self, under: &str, after: i64) -> Result<OpenFilesPage> {
        let request = hdfs::ListOpenFilesRequestProto {
            id: after,
            types: vec![OpenFilesTypeProto::AllOpenFiles.into()],
            path: Some(under.to_owned()),
        };
        let page = self.call(&rpc::LIST_OPEN_FILES, &request).await?;
        let next = page.entries.last().map(|last| last.id).filter(|_| page.has_more);
        let file = |entry: hdfs::OpenFilesBatchResponseProto| OpenFile {
            path: entry.path,
            holder: entry.client_name,
            machine: entry.client_machine,
        };
        Ok(OpenFilesPage { files: page.entries.into_iter().map(file).collect(), next })
    }
}
