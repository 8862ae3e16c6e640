//! What is asked for: the query of `GET /fsck`, as stock's client writes it. What an option says does not count, only that
//! it is there.

/// How the places of a block's replicas are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// Not at all.
    #[default]
    None,
    /// Datanode, storage, its type.
    Storages,
    /// Rack and datanode.
    Racks,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The user that asks; empty: none is named.
    pub user: String,
    /// What to look at.
    pub path: String,
    /// Every file and directory gets a line.
    pub files: bool,
    /// And every block, with `files`.
    pub blocks: bool,
    /// And its replicas.
    pub places: Places,
    /// Whether each replica is live, corrupt, …
    pub details: bool,
    /// Under-replicated blocks are told with replicas in maintenance.
    pub maintenance: bool,
    /// Files that are open for writing are looked at, too.
    pub open: bool,
    /// Only blocks without a live replica are listed.
    pub corrupt_blocks: bool,
    /// They are listed from here on.
    pub start_after: u64,
    /// Only these blocks are looked at, by name; empty: all below the path.
    pub block_ids: Vec<String>,
    /// An option that is not served.
    pub refused: Option<&'static str>,
}

impl Request {
    /// Reads a query, as it stands in the request line.
    pub fn read(query: &str) -> Request {
        let mut request = Request { path: "/".to_owned(), ..Request::default() };
        let mut name = String::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match key.as_ref() {
                "ugi" => request.user = value.into_owned(),
                "user.name" => name = value.into_owned(),
                "path" => request.path = value.into_owned(),
                "files" => request.files = true,
                "blocks" => request.blocks = true,
                "locations" => request.places = request.places.or(Places::Storages),
                "racks" => request.places = Places::Racks,
                "replicadetails" => {
                    request.places = request.places.or(Places::Storages);
                    request.details = true;
                }
                "maintenance" => request.maintenance = true,
                "openforwrite" => request.open = true,
                "listcorruptfileblocks" => request.corrupt_blocks = true,
                "startblockafter" => request.start_after = value.parse().unwrap_or(0),
                "blockId" => request.block_ids = value.split_whitespace().map(str::to_owned).collect(),
                "move" => request.refused = Some("-move"),
                "delete" => request.refused = Some("-delete"),
                "storagepolicies" => request.refused = Some("-storagepolicies"),
                "upgradedomains" => request.refused = Some("-upgradedomains"),
                // As in stock: includeSnapshots (there are none), replicate (it moves replicas between racks, of which
                // there is one) and what nobody knows.
                _ => {}
            }
        }
        if request.user.is_empty() {
            request.user = name;
        }
        request
    }
}

impl Places {
    fn or(self, other: Places) -> Places {
        if self == Places::None { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stocks_client_writes() {
        let request = Request::read("ugi=root&files=1&blocks=1&locations=1&racks=1&path=%2Fd%2Fa+b%C3%BC");
        assert_eq!((request.user.as_str(), request.path.as_str()), ("root", "/d/a bü"));
        assert!(request.files && request.blocks && request.places == Places::Racks);
        let request = Request::read("ugi=root&blockId=blk_1+nix+&path=%2F");
        assert_eq!(request.block_ids, ["blk_1", "nix"]);
        let request = Request::read("user.name=ann&listcorruptfileblocks=1&startblockafter=7");
        assert_eq!((request.user.as_str(), request.path.as_str(), request.start_after), ("ann", "/", 7));
        assert_eq!(Request::read("ugi=a&move=1&path=/").refused, Some("-move"));
        assert_eq!(Request::read(""), Request { path: "/".into(), ..Request::default() });
    }
}
