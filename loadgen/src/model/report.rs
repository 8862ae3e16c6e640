//! `model.json`: THE schema, described in docs/LOAD.md. Fields are added, never changed; then [`SCHEMA`] stays.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::calibrate::{Calibration, TIMER_LATE_US};
use super::check::Check;
use super::cluster::{Database, Deployment, Machines, Predicted, predict};
use super::mva::MAX_CUSTOMERS;
use crate::error::{Error, Result};
use crate::saved;
use crate::summary::build_id;

/// The schema that this program writes and reads.
pub const SCHEMA: u32 = 1;
/// Most figures of a grid.
const MAX_CLUSTERS: usize = 10_000;

/// What is asked of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Numbers of namenodes.
    pub namenodes: Vec<u32>,
    /// Numbers of the database's nodes.
    pub store_nodes: Vec<u32>,
    /// Clients of each namenode.
    pub clients_per_namenode: u32,
    /// Everything else of the clusters; the number of its nodes stands above.
    pub machines: Machines,
}

/// What the model says, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program that made it: its version and a checksum of its file.
    pub build: String,
    /// Where demands come from.
    pub calibration: Calibration,
    /// What was asked.
    pub question: Question,
    /// What is taken for granted, in words.
    pub assumptions: Vec<String>,
    /// What the model says of runs that were measured.
    pub checks: Vec<Check>,
    /// What it says of clusters that nobody has measured.
    pub clusters: Vec<Cluster>,
    /// What others have measured and published.
    pub published: Vec<Published>,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Namenodes.
    pub namenodes: u32,
    /// Nodes of the database.
    pub store_nodes: u32,
    /// Clients of all namenodes.
    pub clients: u32,
    /// What the model says.
    pub predicted: Predicted,
}

/// A published measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Of which system.
    pub system: String,
    /// Namenodes.
    pub namenodes: u32,
    /// Nodes of the database.
    pub store_nodes: u32,
    /// Operations a second.
    pub ops_per_s: f64,
    /// Where, and on what.
    pub source: String,
}

impl Question {
    /// Says what makes no sense.
    pub fn check(&self) -> Result<()> {
        let (namenodes, nodes) = (&self.namenodes, &self.store_nodes);
        if namenodes.is_empty() || nodes.is_empty() || namenodes.iter().chain(nodes).any(|count| *count == 0)
        {
            return Err(Error::refused("--namenodes and --store-nodes: give numbers from 1"));
        }
        if namenodes.len() * nodes.len() > MAX_CLUSTERS {
            return Err(Error::refused(format!(
                "give at most {MAX_CLUSTERS} pairs of --namenodes and --store-nodes"
            )));
        }
        let most = u64::from(namenodes.iter().copied().max().unwrap_or_default())
            * u64::from(self.clients_per_namenode);
        if !(1..=u64::from(MAX_CUSTOMERS)).contains(&most) {
            return Err(Error::refused(format!(
                "--clients-per-namenode: give 1 to {MAX_CUSTOMERS} clients in all"
            )));
        }
        let Machines { cores_per_namenode, network_us, database: d } = &self.machines;
        if [*cores_per_namenode, d.cores_per_node, d.replicas].contains(&0) {
            return Err(Error::refused("cores and replicas are at least 1"));
        }
        let times =
            [*network_us, d.statement_us, d.row_us, d.written_row_us, d.client_statement_us, d.client_row_us];
        if times.iter().chain([&d.trip_us]).any(|us| !us.is_finite() || *us < 0.0) {
            return Err(Error::refused("times are not negative"));
        }
        if !(d.operations_per_statement >= 1.0 && d.operations_per_statement.is_finite()) {
            return Err(Error::refused("--operations-per-statement is at least 1"));
        }
        Ok(())
    }

    fn clusters(&self, calibration: &Calibration) -> Vec<Cluster> {
        let cluster = |store_nodes: u32, namenodes: u32| {
            let database = Database { nodes: store_nodes, ..self.machines.database.clone() };
            let deployment = Deployment::Machines(Machines { database, ..self.machines.clone() });
            let clients = namenodes * self.clients_per_namenode;
            let predicted = predict(&calibration.demands, &deployment, namenodes, clients);
            Cluster { namenodes, store_nodes, clients, predicted }
        };
        let of = |nodes: &u32| {
            let nodes = *nodes;
            self.namenodes.iter().map(move |namenodes| (nodes, *namenodes))
        };
        self.store_nodes.iter().flat_map(of).map(|(nodes, namenodes)| cluster(nodes, namenodes)).collect()
    }
}

impl Model {
    /// Answers.
    pub fn of(calibration: Calibration, checks: Vec<Check>, question: Question) -> Result<Model> {
        question.check()?;
        Ok(Model {
            schema: SCHEMA,
            build: build_id(),
            assumptions: assumptions(&calibration, &question),
            clusters: question.clusters(&calibration),
            calibration,
            question,
            checks,
            published: published(),
        })
    }

    /// Writes it whole, or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        saved::write(path, self)
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Model> {
        saved::read(path, "model", SCHEMA)
    }
}

/// The end point that HopsFS's authors published.
fn published() -> Vec<Published> {
    vec![Published {
        system: "HopsFS".to_owned(),
        namenodes: 60,
        store_nodes: 12,
        ops_per_s: 1.25e6,
        source: "S. Niazi et al., \"HopsFS: Scaling Hierarchical File System Metadata Using NewSQL Databases\", FAST 2017: \
                 Spotify's workload, 72 machines, about 1450 ops/s for each core"
            .to_owned(),
    }]
}

fn assumptions(calibration: &Calibration, question: &Question) -> Vec<String> {
    let Machines { cores_per_namenode, network_us, database: d } = &question.machines;
    let run = &calibration.measured;
    let mut all = vec![
        format!(
            "Clients are a closed loop without pauses; an operation is the average of the mix in {} ({} namenodes, {} \
             clients), and demands are those of that run whatever the load.",
            calibration.file, run.namenodes, run.clients
        ),
        "Checked runs: namenodes, load generator and the embedded store's work share all cores of one machine. Writes queue \
         at its one turnstile in groups, one at a time of each namenode."
            .to_owned(),
        format!(
            "Stated: a group has the store {} µs longer with each operation beyond its first. A delayed round trip ends {} µs \
             later than asked{}.",
            calibration.further_us,
            calibration.timer_late_us.unwrap_or(TIMER_LATE_US).round(),
            if calibration.timer_late_us.is_some() { " (measured)" } else { "" }
        ),
        format!(
            "Clusters: each namenode has a machine of {cores_per_namenode} cores, each node of the database one of {}, all as \
             quick as the one that was measured on. Clients have as many machines as they need, {} clients for each namenode. \
             Load is spread evenly over namenodes, and rows over nodes.",
            d.cores_per_node, question.clients_per_namenode
        ),
        format!(
            "Stated, until a database is measured: {} µs of a node's CPU for a statement, {} for a row read, {} for a row \
             written, on {} nodes each; {} µs of a namenode's CPU for a statement, {} for a row; {} operations share a \
             statement; a round trip takes {} µs beside the node's work and waits half as long for the group before it; a \
             write takes one more than on the embedded store (it fetches, then commits); a call's way to the namenode and \
             back takes {network_us} µs.",
            d.statement_us,
            d.row_us,
            d.written_row_us,
            d.replicas,
            d.client_statement_us,
            d.client_row_us,
            d.operations_per_statement,
            d.trip_us
        ),
        "Not in it: locks and conflicts, hot directories and partitions, reports of datanodes, garbage collection and \
         checkpoints of the database, limits of network cards. So it says what such a cluster could do at most, not what \
         it will do."
            .to_owned(),
    ];
    if calibration.too_slow_percent > 0.5 {
        all.push(format!(
            "The model is {:.1} % slower than the run that it was calibrated on: that run did some of its work at once \
             that the model takes one after another.",
            calibration.too_slow_percent
        ));
    }
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::calibrate::tests::calibration;
    use crate::model::check::tests::check;
    use crate::model::cluster::tests::machines;

    pub fn question() -> Question {
        Question {
            namenodes: vec![1, 60],
            store_nodes: vec![2, 12],
            clients_per_namenode: 256,
            machines: machines(),
        }
    }

    pub fn model() -> Model {
        let checks = vec![check(0.0, true), check(-3.5, false)];
        Model::of(calibration(1700.0), checks, question()).expect("it makes sense")
    }

    #[test]
    fn every_pair_is_answered() {
        let pairs: Vec<_> =
            model().clusters.iter().map(|cluster| (cluster.store_nodes, cluster.namenodes)).collect();
        assert_eq!(pairs, [(2, 1), (2, 60), (12, 1), (12, 60)]);
        let path = std::env::temp_dir().join(format!("trellis-model-{}.json", std::process::id()));
        model().write(&path).expect("written");
        let back = Model::read(&path).expect("ours");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!((back.question, back.clusters.len()), (question(), 4));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong: &[fn(&mut Question)] = &[
            |q| q.namenodes.clear(),
            |q| q.store_nodes.push(0),
            |q| q.clients_per_namenode = 0,
            |q| q.clients_per_namenode = u32::MAX,
            |q| q.namenodes = (1..=10_001).collect(),
            |q| q.machines.cores_per_namenode = 0,
            |q| q.machines.database.row_us = -1.0,
            |q| q.machines.database.trip_us = f64::NAN,
            |q| q.machines.database.operations_per_statement = 0.5,
        ];
        for (index, change) in wrong.iter().enumerate() {
            let mut question = question();
            change(&mut question);
            assert!(Model::of(calibration(1700.0), Vec::new(), question).is_err(), "{index}");
        }
    }

    #[test]
    fn what_is_stated_stands_in_the_assumptions() {
        let text = model().assumptions.join("\n");
        for part in [
            "a.json (1 namenodes, 6 clients)",
            "33 µs of a node's CPU",
            "5.2 for a row read",
            "2 nodes",
            "12 cores",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
