//! The walk jobs themselves: level by level, in bounded batches of directories.

use super::Engine;
use super::ctx::Ctx;
use super::walkjob::{WalkJob, WalkResult};
use crate::refusal::{Kind, RpcError};

/// Makes a walk job for a caller.
pub(super) async fn walk(_engine: &Engine, _ctx: &Ctx, job: WalkJob) -> Result<WalkResult, RpcError> {
    Err(RpcError::new(Kind::UnsupportedOperation, format!("{job:?} cannot be walked yet")))
}
