//! Blocks and their pipelines: the first set-up, and mending one that broke.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{self, Instant};
use trellis_proto::common::TokenProto;
use trellis_proto::data_transfer::Op;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::hdfs::{self, op_write_block_proto::BlockConstructionStage as Stage};

use super::connection::{Connection, DataFault};
use super::pipeline::{Broken, Setup, Target};
use super::streamer::{Current, Streamer};
use crate::error::Result;
use crate::types::Block;

/// A copy of a block from one datanode to another may take so long, and as much longer as this many bytes a second
/// need.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
const TRANSFER_BYTES_PER_SECOND: u64 = 4 << 20;
/// A datanode that restarts is asked so often, in the time that it is waited for, but seldom enough.
const RESTART_TRIES: u32 = 8;
const RESTART_PAUSE: Duration = Duration::from_secs(4);
/// A file with fewer copies than this gets no datanode in place of a failed one.
const MIN_REPLICATION_TO_REPLACE: u16 = 3;

impl Streamer {
    /// A new block with a pipeline that stands.
    pub async fn next_block(&mut self) -> Result<Current> {
        let retries = self.file.client.0.datanodes.config.max_block_retries;
        let mut tries = 0;
        loop {
            let located = self.add_block().await?;
            let mut block = Block::from(located.b.clone());
            block.length = 0;
            let mut current = Current {
                targets: Target::all_of(&located),
                token: located.block_token,
                block,
                connection: None,
                sent: 0,
                appended: false,
                stood: true,
                closing: false,
                failed: Vec::new(),
                recoveries: 0,
                restarting: None,
            };
            let stage = Stage::PipelineSetupCreate;
            let broken = match self.connect(&current, stage, current.block.generation_stamp).await {
                Ok(connection) => {
                    current.connection = Some(connection);
                    return Ok(current);
                }
                Err(broken) => broken,
            };
            let path = &self.file.path;
            let bad = current.targets.get(broken.bad);
            let name = bad.map(Target::name).unwrap_or_default();
            tracing::info!(path, block = current.block.id, node = name, why = %broken.why, "a block is abandoned");
            self.abandon(&current.block).await?;
            self.excluded.extend(bad.map(|bad| (Instant::now(), bad.node.clone())));
            tries += 1;
            if tries > retries {
                let text = format!(
                    "Unable to create new block: {tries} times its datanodes could not be connected; last {name}: {}",
                    broken.why
                );
                return Err(self.file.error(text));
            }
        }
    }

    /// Asks until the block before the last has enough copies.
    async fn add_block(&mut self) -> Result<hdfs::LocatedBlockProto> {
        let config = &self.file.client.0.datanodes.config;
        let (mut wait, mut tries) = (config.locate_wait, 0);
        self.excluded.retain(|(since, _)| since.elapsed() < config.exclude_for);
        let request = hdfs::AddBlockRequestProto {
            src: self.file.path.clone(),
            client_name: self.file.client.name().to_owned(),
            previous: self.previous.as_ref().map(hdfs::ExtendedBlockProto::from),
            exclude_nodes: self.excluded.iter().map(|(_, node)| node.clone()).collect(),
            file_id: Some(self.file.file_id),
            ..Default::default()
        };
        loop {
            match self.file.client.call_on(&self.file.path, &rpc::ADD_BLOCK, &request).await {
                Ok(answer) => return Ok(answer.block),
                Err(error)
                    if error.kind() == Some(Kind::NotReplicatedYet) && tries < config.max_locate_retries =>
                {
                    tries += 1;
                    time::sleep(wait).await;
                    wait *= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn abandon(&self, block: &Block) -> Result<()> {
        let request = hdfs::AbandonBlockRequestProto {
            b: block.into(),
            src: self.file.path.clone(),
            holder: self.file.client.name().to_owned(),
            file_id: Some(self.file.file_id),
        };
        self.file.client.call_on(&self.file.path, &rpc::ABANDON_BLOCK, &request).await.map(drop)
    }

    async fn connect(
        &self,
        current: &Current,
        stage: Stage,
        generation_stamp: u64,
    ) -> std::result::Result<Connection, Broken> {
        let setup = Setup {
            client_name: self.file.client.name(),
            targets: &current.targets,
            block: &current.block,
            token: &current.token,
            stage,
            generation_stamp,
            max_received: current.sent.max(current.block.length),
            block_size: self.file.block_size,
            checksum: self.file.checksum,
        };
        setup.connect(&self.file.client.0.datanodes).await
    }

    /// Makes the current block's pipeline stand, with a new generation stamp, so that what left-out datanodes have
    /// becomes void. Does nothing if it stands.
    pub async fn mend(&mut self) -> Result<()> {
        while let Some(current) = self.current.take_if(|current| current.connection.is_none()) {
            // Put back whatever happens: the writer's last word needs it.
            let (current, mended) = self.mend_once(current).await;
            self.current = Some(current);
            if let Some(broken) = mended? {
                self.note(broken)?;
            }
        }
        Ok(())
    }

    /// One attempt; Some: a datanode failed in it.
    async fn mend_once(&mut self, mut current: Current) -> (Current, Result<Option<Broken>>) {
        if current.restarting.is_some() {
            let timeout = self.file.client.0.datanodes.config.restart_timeout;
            time::sleep((timeout / RESTART_TRIES).min(RESTART_PAUSE)).await;
        }
        if self.needs_another(&current)
            && let Err(error) = self.add_datanode(&mut current).await
        {
            return (current, Err(error));
        }
        let renewed = match self.renew(&current.block).await {
            Ok(renewed) => renewed,
            Err(error) => return (current, Err(error)),
        };
        current.token = renewed.block_token;
        let generation_stamp = renewed.b.generation_stamp;
        let stage = match (current.closing, current.stood, current.failed.is_empty()) {
            (true, ..) => Stage::PipelineCloseRecovery,
            (_, true, _) => Stage::PipelineSetupStreamingRecovery,
            (_, false, true) => Stage::PipelineSetupAppend,
            (_, false, false) => Stage::PipelineSetupAppendRecovery,
        };
        match self.connect(&current, stage, generation_stamp).await {
            Ok(connection) => current.connection = Some(connection),
            Err(broken) => return (current, Ok(Some(broken))),
        }
        current.stood = true;
        current.restarting = None;
        let renewed = Block { generation_stamp, ..current.block.clone() };
        let updated = self.update_pipeline(&current, &renewed).await;
        current.block = renewed;
        (current, updated.map(|()| None))
    }

    /// Whether another datanode takes the place of failed ones: stock's policy DEFAULT.
    fn needs_another(&self, current: &Current) -> bool {
        let (replication, left) = (self.file.replication, current.targets.len());
        let kept = current.appended || self.file.flushed.load(Ordering::Relaxed);
        !current.closing
            && replication >= MIN_REPLICATION_TO_REPLACE
            && left < usize::from(replication)
            && (left <= usize::from(replication / 2) || kept)
    }

    /// Adds a datanode to the pipeline and has what was written so far copied to it.
    async fn add_datanode(&self, current: &mut Current) -> Result<()> {
        let config = &self.file.client.0.datanodes.config;
        let mut tried: Vec<Target> = Vec::new();
        let mut why = String::new();
        for source in current.targets.iter().cycle().take(config.max_block_retries as usize) {
            let answer = match self.another(current, &tried).await {
                Ok(answer) => answer,
                Err(error) => {
                    why = error.to_string();
                    break;
                }
            };
            let is_new = |target: &Target| !current.targets.iter().any(|there| there.is(target));
            let Some(new) = Target::all_of(&answer).into_iter().find(is_new) else {
                why = "the namenode named no new one".to_owned();
                break;
            };
            match self.transfer(current, source, &new, answer.block_token).await {
                Ok(()) => {
                    tracing::info!(
                        path = self.file.path,
                        block = current.block.id,
                        node = new.name(),
                        "a datanode was added"
                    );
                    current.targets.push(new);
                    return Ok(());
                }
                Err(fault) => {
                    why = format!("{} could not copy it to {}: {fault}", source.name(), new.name());
                    tried.push(new);
                }
            }
        }
        if config.replace_best_effort {
            tracing::warn!(
                path = self.file.path,
                block = current.block.id,
                why,
                "no datanode takes a failed one's place"
            );
            return Ok(());
        }
        let left: Vec<String> = current.targets.iter().map(Target::name).collect();
        Err(self.file.error(format!(
            "Failed to replace a bad datanode on the existing pipeline due to no more good datanodes being available to \
             try: {why}. Left are {}; dfs.client.block.write.replace-datanode-on-failure.best-effort=true goes on \
             with them",
            left.join(", ")
        )))
    }

    async fn another(&self, current: &Current, tried: &[Target]) -> Result<hdfs::LocatedBlockProto> {
        let nodes = |targets: &[Target]| targets.iter().map(|target| target.node.clone()).collect();
        let mut excludes: Vec<hdfs::DatanodeInfoProto> = nodes(&current.failed);
        excludes.extend(tried.iter().map(|target| target.node.clone()));
        let request = hdfs::GetAdditionalDatanodeRequestProto {
            src: self.file.path.clone(),
            blk: (&current.block).into(),
            existings: nodes(&current.targets),
            excludes,
            num_additional_nodes: 1,
            client_name: self.file.client.name().to_owned(),
            existing_storage_uuids: current.targets.iter().map(|target| target.storage_id.clone()).collect(),
            file_id: Some(self.file.file_id),
        };
        let answer =
            self.file.client.call_on(&self.file.path, &rpc::GET_ADDITIONAL_DATANODE, &request).await?;
        Ok(answer.block)
    }

    /// Has a block copied from one datanode to another.
    async fn transfer(
        &self,
        current: &Current,
        source: &Target,
        to: &Target,
        token: TokenProto,
    ) -> std::result::Result<(), DataFault> {
        let mut connection = self.file.client.0.datanodes.connect(&source.node).await?;
        let seconds = self.file.block_size / TRANSFER_BYTES_PER_SECOND;
        connection.wait_longer(TRANSFER_TIMEOUT + Duration::from_secs(seconds));
        let request = hdfs::OpTransferBlockProto {
            header: hdfs::ClientOperationHeaderProto {
                base_header: hdfs::BaseHeaderProto {
                    block: (&current.block).into(),
                    token: Some(token),
                    ..Default::default()
                },
                client_name: self.file.client.name().to_owned(),
            },
            targets: vec![to.node.clone()],
            target_storage_types: vec![to.storage_type],
            target_storage_ids: vec![to.storage_id.clone()],
        };
        connection.op(Op::TransferBlock, &request).await.map(drop)
    }

    /// A new generation stamp for the block.
    async fn renew(&self, block: &Block) -> Result<hdfs::LocatedBlockProto> {
        let request = hdfs::UpdateBlockForPipelineRequestProto {
            block: block.into(),
            client_name: self.file.client.name().to_owned(),
        };
        let answer =
            self.file.client.call_on(&self.file.path, &rpc::UPDATE_BLOCK_FOR_PIPELINE, &request).await?;
        Ok(answer.block)
    }

    async fn update_pipeline(&self, current: &Current, renewed: &Block) -> Result<()> {
        let request = hdfs::UpdatePipelineRequestProto {
            client_name: self.file.client.name().to_owned(),
            old_block: (&current.block).into(),
            new_block: renewed.into(),
            new_nodes: current.targets.iter().map(|target| target.node.id.clone()).collect(),
            storage_i_ds: current.targets.iter().map(|target| target.storage_id.clone()).collect(),
        };
        self.file.client.call_on(&self.file.path, &rpc::UPDATE_PIPELINE, &request).await.map(drop)
    }
}
