//! A closed queueing network, solved by mean value analysis.
//!
//! Customers go round: each visits every station, and begins anew at once. The recursion over the number of customers is
//! exact for stations of one server (M. Reiser, S. S. Lavenberg, "Mean-value analysis of closed multichain queuing networks",
//! J. ACM 27(2), 1980): who arrives finds what there is on average with one customer less. A station of m servers is taken as
//! one server m times as fast, followed by a delay of (m−1)/m of the demand (A. Seidmann, P. J. Schweitzer,
//! S. Shalev-Oren, "Computerized closed queueing network models of flexible manufacturing systems", Large Scale Systems 12,
//! 1987): right with one customer and at saturation, and a little too slow between.
//!
//! What no solution exceeds are the asymptotic bounds (P. J. Denning, J. P. Buzen, "The operational analysis of queueing
//! network models", ACM Computing Surveys 10(3), 1978): no station does more than its servers can, and no customer is
//! quicker than alone.

/// No more customers are solved for: the recursion takes a step for each.
pub const MAX_CUSTOMERS: u32 = 10_000_000;
const US_PER_S: f64 = 1e6;

/// How customers are served at a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// At once, however many there are.
    Delay,
    /// By so many servers from one queue, in the order of their arrival.
    Queue {
        /// How many.
        servers: u32,
    },
}

/// A kind of station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Station {
    /// What it stands for.
    pub name: &'static str,
    /// How customers are served.
    pub serving: Serving,
    /// So many equal ones, of which a customer visits any with the same chance.
    pub copies: u32,
    /// What an operation demands of all copies together, in microseconds of one server.
    pub demand_us: f64,
}

/// How a network works with so many customers.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Operations a second.
    pub ops_per_s: f64,
    /// From the beginning of an operation to its end.
    pub response_us: f64,
    /// Stations in their order.
    pub stations: Vec<Load>,
}

/// How a kind of station works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// What it stands for.
    pub name: &'static str,
    /// Time that an operation spends at all copies together, waiting or served.
    pub residence_us: f64,
    /// Part of its servers that is busy, 0 to 1; None for a delay.
    pub utilisation: Option<f64>,
}

impl Station {
    /// A delay.
    pub fn delay(name: &'static str, demand_us: f64) -> Station {
        Station { name, serving: Serving::Delay, copies: 1, demand_us }
    }

    /// Queues, so many of them, with so many servers each.
    pub fn queues(name: &'static str, copies: u32, servers: u32, demand_us: f64) -> Station {
        Station {
            name,
            serving: Serving::Queue { servers: servers.max(1) },
            copies: copies.max(1),
            demand_us,
        }
    }

    /// Operations a second that all its servers can do; None for what is no bound.
    pub fn most_per_s(&self) -> Option<f64> {
        match self.serving {
            Serving::Queue { servers } if self.demand_us > 0.0 => {
                Some(f64::from(servers) * f64::from(self.copies) / self.demand_us * US_PER_S)
            }
            _ => None,
        }
    }

    /// What an operation demands of the one server that stands for a copy's servers, and what it waits besides.
    fn parts(&self) -> (f64, f64) {
        let each = self.demand_us / f64::from(self.copies);
        match self.serving {
            Serving::Delay => (0.0, each),
            Serving::Queue { servers } => {
                let queued = each / f64::from(servers);
                (queued, each - queued)
            }
        }
    }
}

/// The network with so many customers, at most [`MAX_CUSTOMERS`]; without any nothing happens.
pub fn solve(stations: &[Station], customers: u32) -> Solution {
    let parts: Vec<(f64, f64)> = stations.iter().map(Station::parts).collect();
    let mut queues = vec![0.0; stations.len()];
    let mut residences = vec![0.0; stations.len()];
    let (mut per_us, mut response) = (0.0, 0.0);
    for count in 1..=customers.min(MAX_CUSTOMERS) {
        response = 0.0;
        for (index, station) in stations.iter().enumerate() {
            let (queued, besides) = parts[index];
            residences[index] = (queued * (1.0 + queues[index]) + besides) * f64::from(station.copies);
            response += residences[index];
        }
        per_us = if response > 0.0 { f64::from(count) / response } else { 0.0 };
        for (queue, (queued, _)) in queues.iter_mut().zip(&parts) {
            *queue = per_us * queued * (1.0 + *queue);
        }
    }
    let ops_per_s = per_us * US_PER_S;
    let load = |(station, residence_us): (&Station, f64)| Load {
        name: station.name,
        residence_us,
        utilisation: match station.serving {
            Serving::Delay => None,
            Serving::Queue { .. } => Some(station.most_per_s().map_or(0.0, |most| ops_per_s / most)),
        },
    };
    let stations = stations.iter().zip(residences).map(load).collect();
    Solution { ops_per_s, response_us: response, stations }
}

/// The asymptotic bound: operations a second that no number of customers exceeds, and that so many cannot exceed.
pub fn bound(stations: &[Station], customers: u32) -> f64 {
    let alone_us: f64 = stations.iter().map(|station| station.demand_us).sum();
    let unhindered = f64::from(customers) / alone_us * US_PER_S;
    stations.iter().filter_map(Station::most_per_s).fold(unhindered, f64::min)
}

/// The station that bounds the network however many customers there are.
pub fn bottleneck(stations: &[Station]) -> Option<&Station> {
    let most = |station: &&Station| station.most_per_s().unwrap_or(f64::INFINITY);
    stations
        .iter()
        .filter(|station| station.most_per_s().is_some())
        .min_by(|a, b| most(a).total_cmp(&most(b)))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn near(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() <= wanted.abs() * 1e-9
    }

    #[test]
    fn one_station_alone_is_always_busy() {
        let solution = solve(&[Station::queues("only", 1, 1, 50.0)], 7);
        assert!(near(solution.ops_per_s, 20_000.0) && near(solution.response_us, 350.0), "{solution:?}");
        assert_eq!(solution.stations[0].utilisation.map(|part| near(part, 1.0)), Some(true));
    }

    #[test]
    fn customers_that_only_wait_do_not_hinder_each_other() {
        let solution = solve(&[Station::delay("wait", 2000.0)], 10);
        assert!(near(solution.ops_per_s, 5000.0) && near(solution.response_us, 2000.0));
        assert_eq!(
            (solution.stations[0].utilisation, bottleneck(&[Station::delay("wait", 1.0)])),
            (None, None)
        );
    }

    #[test]
    fn a_balanced_network_of_k_stations_does_n_of_n_plus_k_minus_1() {
        // The known solution: X(N) = N / (D (N + K − 1)).
        for (stations, customers) in [(2, 1), (3, 5), (4, 100)] {
            let network: Vec<Station> = (0..stations).map(|_| Station::queues("one", 1, 1, 100.0)).collect();
            let wanted = f64::from(customers) / (f64::from(customers) + f64::from(stations) - 1.0) * 10_000.0;
            assert!(near(solve(&network, customers).ops_per_s, wanted));
            let copies = [Station::queues("all", stations, 1, 100.0 * f64::from(stations))];
            assert!(near(solve(&copies, customers).ops_per_s, wanted), "copies are stations");
        }
    }

    #[test]
    fn one_server_and_thinking_customers_are_the_machine_repairman() {
        // M/M/1//N: X = (1 − p0) / S.
        let (service, think) = (100.0, 1000.0);
        let network = [Station::queues("server", 1, 1, service), Station::delay("think", think)];
        for customers in [1, 5, 20, 60] {
            let exact = repairman(service, think, 1, customers);
            assert!(near(solve(&network, customers).ops_per_s, exact), "{customers}");
        }
    }

    #[test]
    fn several_servers_are_right_at_both_ends_and_never_too_quick_between() {
        let (service, think) = (100.0, 1000.0);
        for servers in [2, 4, 12] {
            let network = [Station::queues("servers", 1, servers, service), Station::delay("think", think)];
            for customers in [1, servers, 5 * servers, 11 * servers, 15 * servers, 40 * servers] {
                let exact = repairman(service, think, servers, customers);
                let ratio = solve(&network, customers).ops_per_s / exact;
                assert!(ratio < 1.0 + 1e-9 && ratio > 0.9, "{servers} servers, {customers}: {ratio}");
                if customers == 1 || customers == 40 * servers {
                    assert!(ratio > 0.999, "{servers} servers, {customers}: {ratio}");
                }
            }
        }
    }

    /// The exact rate of M/M/m//N, from its birth-death chain.
    fn repairman(service: f64, think: f64, servers: u32, customers: u32) -> f64 {
        // Weights of 0, 1, … customers at the station, scaled as they grow.
        let (mut weight, mut sum, mut busy) = (1.0, 1.0, 0.0);
        for present in 1..=customers {
            let arrivals = f64::from(customers - present + 1) / think;
            let served = f64::from(present.min(servers)) / service;
            weight *= arrivals / served;
            sum += weight;
            busy += weight * f64::from(present.min(servers));
            if sum > 1e200 {
                (weight, sum, busy) = (weight / 1e200, sum / 1e200, busy / 1e200);
            }
        }
        busy / sum / service * US_PER_S
    }

    #[test]
    fn more_customers_never_do_less_and_never_more_than_the_bound() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..200 {
            let station = |rng: &mut StdRng| {
                let demand = rng.random_range(0.0..500.0);
                match rng.random_range(0..3) {
                    0 => Station::delay("wait", demand),
                    1 => Station::queues("one", rng.random_range(1..20), 1, demand),
                    _ => Station::queues("many", rng.random_range(1..20), rng.random_range(2..16), demand),
                }
            };
            let network: Vec<Station> = (0..rng.random_range(1..6)).map(|_| station(&mut rng)).collect();
            let mut before = 0.0;
            for customers in [1, 2, 3, 10, 50, 400, 3000] {
                let solution = solve(&network, customers);
                let most = bound(&network, customers);
                assert!(solution.ops_per_s <= most * (1.0 + 1e-9), "{network:?} {customers}");
                assert!(solution.ops_per_s >= before * (1.0 - 1e-9), "{network:?} {customers}");
                let sum: f64 = solution.stations.iter().map(|load| load.residence_us).sum();
                assert!(near(sum, solution.response_us), "Little's law holds station by station");
                before = solution.ops_per_s;
            }
        }
    }

    #[test]
    fn the_bottleneck_is_what_can_do_least() {
        let network = [
            Station::queues("many", 4, 12, 480.0),
            Station::queues("one", 1, 1, 20.0),
            Station::delay("wait", 1e6),
        ];
        assert_eq!(bottleneck(&network).map(|station| station.name), Some("one"));
        assert!(near(bound(&network, u32::MAX), 50_000.0) && near(solve(&network, 0).ops_per_s, 0.0));
        let near_saturation = solve(&network, 200_000).ops_per_s;
        assert!(near_saturation > 49_900.0, "{near_saturation}");
    }
}
