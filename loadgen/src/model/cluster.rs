//! A cluster as a queueing network: which stations an operation visits, and what it demands there.

use serde::{Deserialize, Serialize};

use super::demands::Demands;
use super::mva::{Load, Station, bottleneck, bound, solve};
use super::writer::Turnstile;

/// Halvings of the interval in which the rate lies that a shared writer allows: more digits than are shown.
const HALVINGS: u32 = 50;
/// Waiting for a group that is under way, as part of a round trip: half of it on average.
const WAIT_FOR_GROUP: f64 = 0.5;
const TURNSTILE: &str = "turnstile";

/// Where everything runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deployment {
    /// Namenodes, their embedded store in its plain form, and the load generator share one machine's cores.
    OneMachine(OneMachine),
    /// Each namenode has a machine, each node of the database too, and the load generator as many as it needs.
    Machines(Machines),
}

/// All on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneMachine {
    /// Its cores.
    pub cores: u32,
    /// What a round trip to the store waits on purpose.
    pub trip_us: f64,
    /// How much longer a group has the store with each operation beyond its first.
    pub further_us: f64,
}

/// Namenodes and nodes of a database on machines of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machines {
    /// Of a namenode.
    pub cores_per_namenode: u32,
    /// From a client to its namenode and back.
    pub network_us: f64,
    /// The store.
    pub database: Database,
}

/// A database of many nodes, over which rows are spread evenly. Its demands are stated, not measured here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Nodes.
    pub nodes: u32,
    /// Of a node.
    pub cores_per_node: u32,
    /// Nodes that write each row.
    pub replicas: u32,
    /// CPU time of a node for a statement, whatever it is.
    pub statement_us: f64,
    /// CPU time of a node for a row that is read.
    pub row_us: f64,
    /// CPU time of each of the nodes that write a row.
    pub written_row_us: f64,
    /// CPU time of a namenode for a statement.
    pub client_statement_us: f64,
    /// CPU time of a namenode for a row.
    pub client_row_us: f64,
    /// Operations whose round trips are one statement: namenodes group what waits.
    pub operations_per_statement: f64,
    /// From a namenode to a node and back, beside the node's own time.
    pub trip_us: f64,
}

/// What the model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Operations a second.
    pub ops_per_s: f64,
    /// From an operation's beginning to its end, on average.
    pub mean_us: f64,
    /// What no number of clients exceeds, nor so many as there are: the asymptotic bound.
    pub bound_ops_per_s: f64,
    /// What would bound it with ever more clients.
    pub bottleneck: String,
    /// Where the time goes, and how busy servers are.
    pub stations: Vec<Stay>,
}

/// A kind of station.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stay {
    /// What it stands for.
    pub name: String,
    /// Time that an operation spends there.
    pub residence_us: f64,
    /// Part of its servers that is busy, 0 to 1; None where nobody serves.
    pub utilisation: Option<f64>,
}

/// So many namenodes under so many clients of a closed loop.
pub fn predict(demands: &Demands, deployment: &Deployment, namenodes: u32, clients: u32) -> Predicted {
    match deployment {
        Deployment::OneMachine(machine) => machine.predict(demands, namenodes, clients),
        Deployment::Machines(machines) => predicted(&machines.stations(demands, namenodes), clients),
    }
}

fn predicted(stations: &[Station], clients: u32) -> Predicted {
    let solution = solve(stations, clients);
    Predicted {
        ops_per_s: solution.ops_per_s,
        mean_us: solution.response_us,
        bound_ops_per_s: bound(stations, clients),
        bottleneck: bottleneck(stations).map_or("nothing", |station| station.name).to_owned(),
        stations: solution.stations.iter().map(Stay::of).collect(),
    }
}

impl Stay {
    fn of(load: &Load) -> Stay {
        Stay { name: load.name.to_owned(), residence_us: load.residence_us, utilisation: load.utilisation }
    }
}

impl OneMachine {
    /// The rate decides how long writes take, and that decides the rate: it is found by halving.
    fn predict(&self, demands: &Demands, namenodes: u32, clients: u32) -> Predicted {
        let further_us = self.further_us.min(demands.hold_us);
        let first_us = (demands.hold_us - further_us * (demands.group - 1.0)).max(further_us);
        let turnstile = Turnstile { namenodes, first_us, further_us };
        let stations = [
            Station::queues("cores", 1, self.cores, demands.namenode_cpu_us + demands.client_cpu_us),
            Station::delay("round trips", demands.round_trips * self.trip_us),
            Station::delay("rest", demands.rest_us),
        ];
        // Writes only make operations longer.
        let with_writes = |per_s: f64| {
            let writes = turnstile.at(per_s / 1e6 * demands.writes);
            let besides = Station::delay(TURNSTILE, demands.writes * writes.residence_us);
            ([stations[0], stations[1], stations[2], besides], writes)
        };
        let (mut low, mut high) = (0.0, bound(&stations, clients));
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            match solve(&with_writes(middle).0, clients).ops_per_s > middle {
                true => low = middle,
                false => high = middle,
            }
        }
        let (network, writes) = with_writes(low);
        let mut predicted = predicted(&network, clients);
        let stay = predicted.stations.iter_mut().find(|stay| stay.name == TURNSTILE);
        if let Some(stay) = stay.filter(|_| demands.writes > 0.0) {
            stay.utilisation = Some(writes.utilisation);
        }
        // A group has room for so many operations, so that is what the turnstile lets through at most.
        if let Some(most) =
            turnstile.most_per_s().map(|most| most / demands.writes).filter(|most| most.is_finite())
            && most < predicted.bound_ops_per_s
        {
            (predicted.bound_ops_per_s, predicted.bottleneck) = (most, TURNSTILE.to_owned());
        }
        predicted
    }
}

impl Machines {
    fn stations(&self, demands: &Demands, namenodes: u32) -> [Station; 6] {
        let database = &self.database;
        // A write fetches, then commits.
        let trips = demands.round_trips + demands.writes;
        let statements = trips / database.operations_per_statement;
        let rows = demands.rows_read + demands.rows_written;
        let namenode_us = demands.namenode_cpu_us
            + statements * database.client_statement_us
            + rows * database.client_row_us;
        let store_us = statements * database.statement_us
            + demands.rows_read * database.row_us
            + demands.rows_written * database.written_row_us * f64::from(database.replicas);
        [
            Station::queues("namenodes' cores", namenodes, self.cores_per_namenode, namenode_us),
            Station::queues("database's cores", database.nodes, database.cores_per_node, store_us),
            Station::delay("round trips", trips * database.trip_us * (1.0 + WAIT_FOR_GROUP)),
            Station::delay("network", demands.calls * self.network_us),
            Station::delay("client", demands.client_cpu_us),
            Station::delay("rest", demands.rest_us),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of an operation such as Spotify's mix has.
    pub fn demands() -> Demands {
        Demands {
            namenode_cpu_us: 90.0,
            client_cpu_us: 30.0,
            calls: 1.03,
            round_trips: 1.03,
            writes: 0.075,
            rows_read: 11.0,
            rows_written: 0.3,
            hold_us: 1000.0,
            group: 1.0,
            trip_us: 3000.0,
            rest_us: 50.0,
        }
    }

    pub fn machine() -> OneMachine {
        OneMachine { cores: 2, trip_us: 3000.0, further_us: 50.0 }
    }

    pub fn machines() -> Machines {
        let database = Database {
            nodes: 12,
            cores_per_node: 12,
            replicas: 2,
            statement_us: 33.0,
            row_us: 5.2,
            written_row_us: 10.0,
            client_statement_us: 24.0,
            client_row_us: 0.73,
            operations_per_statement: 8.0,
            trip_us: 200.0,
        };
        Machines { cores_per_namenode: 12, network_us: 100.0, database }
    }

    fn near(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() <= wanted.abs() * 1e-6
    }

    #[test]
    fn one_client_pays_for_every_station_once() {
        let alone = predict(&demands(), &Deployment::OneMachine(machine()), 1, 1);
        // A writer that is never busy when a write comes: its hold each time.
        let sum = 90.0 + 30.0 + 1.03 * 3000.0 + 50.0 + 0.075 * 1000.0;
        assert!((alone.mean_us / sum - 1.0).abs() < 0.01, "{alone:?} {sum}");
        assert!(near(alone.ops_per_s * alone.mean_us, 1e6));
    }

    #[test]
    fn a_machine_is_as_quick_as_its_cores() {
        let reads = Demands { writes: 0.0, ..demands() };
        let many = predict(&reads, &Deployment::OneMachine(machine()), 8, 100_000);
        assert!(near(many.bound_ops_per_s, 2.0 / 120e-6) && many.bottleneck == "cores", "{many:?}");
        assert!(many.ops_per_s > many.bound_ops_per_s * 0.999);
    }

    #[test]
    fn a_slow_disk_bounds_a_shared_store() {
        let slow = Demands { hold_us: 20_000.0, ..demands() };
        let machine = OneMachine { cores: 64, further_us: 2000.0, ..machine() };
        let many = predict(&slow, &Deployment::OneMachine(machine), 8, 10_000);
        assert_eq!(many.bottleneck, TURNSTILE);
        assert!(many.ops_per_s <= many.bound_ops_per_s * 1.001, "{many:?}");
        let stay = many.stations.iter().find(|stay| stay.name == TURNSTILE).expect("it is there");
        assert!(stay.utilisation.is_some_and(|part| part > 0.9), "{stay:?}");
    }

    #[test]
    fn more_namenodes_and_more_nodes_never_do_less_and_one_of_them_bounds() {
        let mut before = 0.0;
        for (namenodes, nodes) in [(1, 1), (1, 12), (20, 12), (60, 12), (60, 48), (240, 48)] {
            let mut machines = machines();
            machines.database.nodes = nodes;
            let all = predict(&demands(), &Deployment::Machines(machines), namenodes, 40_000);
            assert!(
                all.ops_per_s >= before && all.ops_per_s <= all.bound_ops_per_s * (1.0 + 1e-9),
                "{all:?}"
            );
            before = all.ops_per_s;
        }
        let one = predict(&demands(), &Deployment::Machines(machines()), 1, 40_000);
        assert_eq!(one.bottleneck, "namenodes' cores");
        let many = predict(&demands(), &Deployment::Machines(machines()), 200, 40_000);
        assert_eq!(many.bottleneck, "database's cores");
        // 12 nodes of 12 cores; statements are shared by eight, writes are done twice.
        let store_us = (1.03 + 0.075) / 8.0 * 33.0 + 11.0 * 5.2 + 0.3 * 10.0 * 2.0;
        assert!(near(many.bound_ops_per_s, 144.0 / store_us * 1e6), "{many:?}");
    }
}
