//! Engines over stores in memory, with the calls that tests make.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use prost::Message;
use tempfile::TempDir;
use trellis_metastore::counters::Reading;
use trellis_metastore::group::GroupConfig;
use trellis_metastore::lmdb::{Form, Lmdb, LmdbConfig};
use trellis_metastore::mem::Mem;
use trellis_metastore::open::Opened;
use trellis_metastore::sim::Seat;
use trellis_metastore::store::Store;
use trellis_metastore::tx::Versions;
use trellis_metastore::work::{Fence, Unfenced};
use trellis_namenode::config::Config;
use trellis_namenode::engine::backend::Backend;
use trellis_namenode::engine::ctx::CallId;
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::engine::{Engine, Op};
use trellis_namenode::ops::format::{Format, format};
use trellis_namenode::path::Path;
use trellis_namenode::refusal::Result;
use trellis_namenode::user::Users;
use trellis_proto::exception::RpcError;

/// The user that runs the namenode in tests.
pub const SUPERUSER: &str = "hdfs";

/// The block pool of all clusters in tests.
pub const BLOCK_POOL: &str = "BP-test";

thread_local! {
    /// What [`Namenode::fresh`] makes in this test: `mem`, `lmdb` or `lmdb-log`.
    pub static FRESH_STORE: Cell<&'static str> = const { Cell::new("mem") };
    /// The clock of all namenodes of this test, ms.
    pub static NOW_MS: RefCell<Arc<AtomicI64>> = RefCell::new(Arc::new(AtomicI64::new(START_MS)));
}

/// Where the clock of each test starts.
pub const START_MS: i64 = 1_000_000;

/// Moves the clock of this test's namenodes on.
pub fn pass_time(by: Duration) {
    NOW_MS.with_borrow(|now| now.fetch_add(by.as_millis() as i64, Ordering::Relaxed));
}

/// An empty store of the kind that this test runs over, and the folder that it lives in.
pub fn fresh_store() -> (Opened, Option<Arc<TempDir>>) {
    match FRESH_STORE.get() {
        "lmdb" | "lmdb-log" => {
            let dir = tempfile::tempdir().unwrap();
            let form = if FRESH_STORE.get() == "lmdb" { Form::Plain } else { Form::Log };
            // Merged now and then, so that rows are found in the tree and over it.
            let merge_every = Duration::from_millis(5);
            let config = LmdbConfig {
                form,
                merge_every,
                merge_rows: 3,
                map_bytes: 256 << 20,
                ..LmdbConfig::default()
            };
            (Opened::Lmdb(Lmdb::open(dir.path(), config).unwrap()), Some(Arc::new(dir)))
        }
        _ => (Opened::Other(Arc::new(Mem::new())), None),
    }
}

/// One of several namenodes over a store in memory.
#[derive(Clone)]
pub struct Namenode {
    pub engine: Arc<Engine>,
    /// The identity of its calls; none = each its own.
    pub call_id: Option<CallId>,
    _dir: Option<Arc<TempDir>>,
}

/// An answer of bool or nothing, as a message (the retry cache keeps messages).
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    #[prost(bool, tag = "1")]
    pub yes: bool,
}

impl Namenode {
    /// A namenode over a store in memory that may be shared with others; formats it when it is empty.
    pub async fn start(store: Arc<dyn Store>, incarnation: u64, config: Config) -> Namenode {
        Namenode::over(
            &Opened::Other(store),
            Arc::new(Unfenced),
            Versions::of_incarnation(incarnation),
            incarnation,
            config,
        )
        .await
    }

    /// A namenode over any store, with a fence of its own.
    pub async fn over(
        opened: &Opened,
        fence: Arc<dyn Fence>,
        versions: Versions,
        incarnation: u64,
        config: Config,
    ) -> Namenode {
        let group = GroupConfig::default();
        let nn = Namenode::unformatted(opened, fence, versions, incarnation, config, &group);
        let engine = &nn.engine;
        let call = Format {
            cluster_id: "CID-test".into(),
            cluster_id_given: false,
            superuser: SUPERUSER.into(),
            supergroup: "supergroup".into(),
        };
        engine
            .write_wait(engine.own_ctx(), 0, 0, false, Box::new(move |tx| format(tx, &call)))
            .await
            .unwrap();
        nn
    }

    /// A namenode over a store that is, or will be, formatted by another.
    pub fn unformatted(
        opened: &Opened,
        fence: Arc<dyn Fence>,
        versions: Versions,
        incarnation: u64,
        config: Config,
        group: &GroupConfig,
    ) -> Namenode {
        let backend = Backend::start(opened, fence, versions, group).unwrap();
        let users = Users::with_groups(SUPERUSER.into(), config.supergroup.clone(), Box::new(test_groups));
        let now = NOW_MS.with_borrow(Arc::clone);
        let clock = Arc::new(move || now.load(Ordering::Relaxed));
        let engine = Engine::new(backend, config, users, BLOCK_POOL, incarnation, clock);
        Namenode { engine, call_id: None, _dir: None }
    }

    /// A namenode whose engine somebody else started, asked by calls of one identity, or none.
    pub fn of(engine: Arc<Engine>, call_id: Option<CallId>) -> Namenode {
        Namenode { engine, call_id, _dir: None }
    }

    /// A namenode in a simulated world.
    pub fn seated(seat: &Seat) -> Namenode {
        let opened = Opened::Other(seat.store());
        let (fence, config) = (Arc::new(Unfenced), Config::default());
        Namenode::unformatted(&opened, fence, seat.versions(), seat.incarnation, config, &seat.config)
    }

    /// The same namenode, asked by calls of one identity: its repeats, there or elsewhere, must get one answer.
    pub fn repeating(&self, call: i64) -> Namenode {
        Namenode { call_id: Some(CallId { client: [7; 16], call }), ..self.clone() }
    }

    /// The same namenode, asked by calls that have no identity.
    pub fn anonymous(self) -> Namenode {
        Namenode { call_id: None, ..self }
    }

    /// A namenode over a fresh store of the kind that this test runs over.
    pub async fn fresh() -> Namenode {
        Namenode::fresh_with(Config::default()).await
    }

    /// The same with other settings.
    pub async fn fresh_with(config: Config) -> Namenode {
        let (opened, dir) = fresh_store();
        let fence = Arc::new(Unfenced);
        let nn = Namenode::over(&opened, fence, Versions::of_incarnation(1), 1, config).await;
        Namenode { _dir: dir, ..nn }
    }

    /// Runs an operation that only reads, as `user`.
    pub async fn read<A: Send + 'static>(
        &self,
        user: &str,
        op: impl FnMut(&mut Tx<'_, '_>) -> Result<A> + Send + 'static,
    ) -> std::result::Result<A, RpcError> {
        let user = self.engine.users().get(user);
        let ctx = self.engine.ctx(user, "127.0.0.1".into(), None);
        self.engine.read_wait(ctx, 0, Box::new(op)).await
    }

    /// What the store counted while `work` ran.
    pub async fn spent<T>(&self, work: impl Future<Output = T>) -> (T, Reading) {
        let before = self.engine.backend().counters().read();
        let result = work.await;
        (result, self.engine.backend().counters().read().since(&before))
    }

    /// Runs an operation that may write, as `user`.
    pub async fn write<A: Message + Default + 'static>(
        &self,
        user: &str,
        op: impl FnMut(&mut Tx<'_, '_>) -> Result<A> + Send + 'static,
    ) -> std::result::Result<A, RpcError> {
        let user = self.engine.users().get(user);
        let ctx = self.engine.ctx(user, "127.0.0.1".into(), self.call_id);
        let op: Op<A> = Box::new(op);
        self.engine.write_wait(ctx, 0, 1001, true, op).await
    }

    /// The same for an operation that answers a bool.
    pub async fn yes(
        &self,
        user: &str,
        mut op: impl FnMut(&mut Tx<'_, '_>) -> Result<bool> + Send + 'static,
    ) -> std::result::Result<bool, RpcError> {
        Ok(self.write(user, move |tx| op(tx).map(|yes| Answer { yes })).await?.yes)
    }
}

/// The groups of the users that tests know; what the recordings from stock were made with.
fn test_groups(user: &str) -> Vec<String> {
    match user {
        "daemon" => vec!["daemon".into()],
        "nobody" => vec!["nogroup".into()],
        _ => Vec::new(),
    }
}

/// So many rounds of a test, or in its long form so many.
pub fn rounds<N>(short: N, long: N) -> N {
    if std::env::var_os("TRELLIS_TEST_LONG").is_some() { long } else { short }
}

/// A path.
pub fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}
