//! A store as a whole: made ready once, looked at before it is served.

use std::sync::Arc;

use trellis_metastore::group::{GroupConfig, transact};
use trellis_metastore::open::Opened;
use trellis_metastore::schema::{FORMAT, Setting};
use trellis_metastore::tx::Versions;
use trellis_metastore::work::Unfenced;

use crate::config::Config;
use crate::engine::backend::Backend;
use crate::engine::{Clock, Engine, NEXT_INODE_ID};
use crate::ops::format::{CLUSTER_ID, FORMAT_NUMBER, Format, format};
use crate::refusal::{Kind, RpcError};
use crate::user::Users;

/// What became of [`init`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// The store's cluster id.
    pub cluster_id: String,
    /// Whether the namespace was made now; else it was there, and nothing was changed.
    pub made: bool,
}

/// The clock of the machine.
pub fn system_clock() -> Clock {
    use std::time::{SystemTime, UNIX_EPOCH};
    Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
}

/// Makes an empty namespace in an empty store, in one commit. A store that has one is left alone; one of another
/// cluster than the one asked for is refused.
pub async fn init(opened: &Opened, call: Format) -> Result<Initialised, RpcError> {
    let versions = Versions::before_joining();
    let backend = Backend::start(opened, Arc::new(Unfenced), versions, &GroupConfig::default())
        .map_err(|error| RpcError::new(Kind::Io, error.to_string()))?;
    let users = Users::new(call.superuser.clone(), call.supergroup.clone());
    let engine = Engine::new(backend, Config::default(), users, "", 0, system_clock());
    let op = Box::new(move |tx: &mut crate::engine::tx::Tx<'_, '_>| format(tx, &call));
    let setting = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
    Ok(Initialised { cluster_id: setting.text, made: setting.number == 1 })
}

/// The cluster id of a store that can be served: formatted whole, by a format that this program knows.
pub async fn check_servable(opened: &Opened) -> Result<String, RpcError> {
    let read = |name: &'static str| async move {
        let key = trellis_metastore::schema::setting(name);
        let hold = trellis_metastore::change::Hold::Loose;
        transact(opened.store(), &Versions::before_joining(), |tx| tx.get(&key, hold))
            .await
            .map(|row| row.map(|row| row.value))
            .map_err(|error| RpcError::new(Kind::Io, error.to_string()))
    };
    let (cluster, number, ids): (Option<Setting>, Option<Setting>, Option<Setting>) =
        (read(CLUSTER_ID).await?, read(FORMAT_NUMBER).await?, read(NEXT_INODE_ID).await?);
    let refuse = |why: String| Err(RpcError::new(Kind::Io, why));
    match (cluster, number, ids) {
        (None, None, None) => refuse("the store is empty: run 'trellis store init' first".into()),
        (Some(_), Some(number), Some(_)) if number.number > u64::from(FORMAT) => refuse(format!(
            "the store has format {}, this program knows formats up to {FORMAT}: use a newer program",
            number.number
        )),
        (Some(cluster), Some(_), Some(_)) => Ok(cluster.text),
        _ => refuse("the store is only partly formatted: run 'trellis store check'".into()),
    }
}
