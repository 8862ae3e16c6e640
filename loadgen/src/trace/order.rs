//! The order in which lines run: as in the trace wherever it matters, at once wherever it does not.
//!
//! A line holds its path and all directories above it. It holds its path alone when it changes it (a rename both paths, a
//! concat all), everything else together with others. So of two lines one waits for the other exactly if they name the
//! same path and one of them changes it, or if one changes a path above the other's. Who waits, waits in the order of the
//! trace, and nobody overtakes; whatever a line waits for stands before it, so that none waits for ever.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Lines that were begun and have not ended, each with something of the caller's that goes with it.
#[derive(Debug)]
pub struct Order<T> {
    hasher: RandomState,
    /// By a hash of the path. Two paths of one hash wait for each other without need.
    paths: HashMap<u64, Holders>,
    lines: Vec<Option<Line<T>>>,
    free: Vec<usize>,
    /// How many had to wait.
    pub waited: u64,
}

/// Of a line that was begun; to be given back when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(usize);

#[derive(Debug)]
struct Line<T> {
    holds: Vec<Hold>,
    /// So many of them are still to come.
    missing: usize,
    /// While it waits.
    waiting: Option<T>,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    path: u64,
    alone: bool,
}

#[derive(Debug, Default)]
struct Holders {
    together: u32,
    alone: bool,
    waiting: VecDeque<(usize, bool)>,
}

/// How a line holds a path, and everything above it.
#[derive(Debug, Clone, Copy)]
pub struct Want<'a> {
    /// An absolute path without repeated slashes.
    pub path: &'a str,
    /// Directories from this depth on are held alone, too; the path's own depth, and more, is the path itself.
    pub alone_from: usize,
}

impl<'a> Want<'a> {
    /// The path is read.
    pub fn read(path: &'a str) -> Want<'a> {
        Want { path, alone_from: usize::MAX }
    }

    /// The path is changed.
    pub fn change(path: &'a str) -> Want<'a> {
        Want { path, alone_from: depth(path) }
    }
}

fn depth(path: &str) -> usize {
    if path == "/" { 0 } else { path.matches('/').count() }
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order {
            hasher: RandomState::new(),
            paths: HashMap::new(),
            lines: Vec::new(),
            free: Vec::new(),
            waited: 0,
        }
    }
}

impl<T> Order<T> {
    /// Lines that have not ended.
    pub fn len(&self) -> usize {
        self.lines.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins the next line of the trace: gives back what goes with it if it may run at once.
    pub fn begin<'a>(
        &mut self,
        wants: impl Iterator<Item = Want<'a>>,
        with: impl FnOnce(Ticket) -> T,
    ) -> Option<T> {
        let mut holds = Vec::new();
        wants.for_each(|want| self.add(&mut holds, want));
        // The same path more than once would wait for itself.
        holds.sort_unstable_by_key(|hold| (hold.path, !hold.alone));
        holds.dedup_by_key(|hold| hold.path);
        let place = self.free.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() - 1
        });
        let mut missing = 0;
        for Hold { path, alone } in &holds {
            let holders = self.paths.entry(*path).or_default();
            if !holders.take(*alone) {
                holders.waiting.push_back((place, *alone));
                missing += 1;
            }
        }
        let with = with(Ticket(place));
        self.waited += u64::from(missing > 0);
        let (ready, waiting) = if missing == 0 { (Some(with), None) } else { (None, Some(with)) };
        self.lines[place] = Some(Line { holds, missing, waiting });
        ready
    }

    fn add(&self, holds: &mut Vec<Hold>, Want { path, alone_from }: Want<'_>) {
        let mut hold = |path: &str, depth: usize| {
            holds.push(Hold { path: self.hasher.hash_one(path), alone: depth >= alone_from });
        };
        hold("/", 0);
        if path != "/" {
            let ends = path.match_indices('/').skip(1).map(|(end, _)| end).chain([path.len()]);
            ends.zip(1..).for_each(|(end, depth)| hold(&path[..end], depth));
        }
    }

    /// Ends a line: what goes with those that may run now is appended.
    pub fn end(&mut self, ticket: Ticket, ready: &mut Vec<T>) {
        let Some(line) = self.lines.get_mut(ticket.0).and_then(Option::take) else { return };
        self.free.push(ticket.0);
        for Hold { path, alone } in line.holds {
            let Some(holders) = self.paths.get_mut(&path) else { continue };
            holders.leave(alone);
            while let Some((place, alone)) = holders.next() {
                let Some(line) = self.lines.get_mut(place).and_then(Option::as_mut) else { continue };
                line.missing -= 1;
                if line.missing == 0 {
                    ready.extend(line.waiting.take());
                }
                debug_assert!(!alone || holders.together == 0);
            }
            if holders.is_free() {
                self.paths.remove(&path);
            }
        }
    }

    /// What goes with lines that still wait.
    pub fn waiting(&mut self) -> impl Iterator<Item = T> {
        self.lines.iter_mut().flatten().filter_map(|line| line.waiting.take())
    }
}

impl Holders {
    /// Holds it, unless somebody does who cannot do so together, or somebody waits.
    fn take(&mut self, alone: bool) -> bool {
        let can = self.waiting.is_empty() && self.can(alone);
        if can {
            self.hold(alone);
        }
        can
    }

    fn can(&self, alone: bool) -> bool {
        !self.alone && (!alone || self.together == 0)
    }

    fn hold(&mut self, alone: bool) {
        match alone {
            true => self.alone = true,
            false => self.together += 1,
        }
    }

    fn leave(&mut self, alone: bool) {
        match alone {
            true => self.alone = false,
            false => self.together -= 1,
        }
    }

    /// Who waits for it and has it now.
    fn next(&mut self) -> Option<(usize, bool)> {
        let (place, alone) = *self.waiting.front()?;
        self.can(alone).then(|| {
            self.hold(alone);
            self.waiting.pop_front();
            (place, alone)
        })
    }

    fn is_free(&self) -> bool {
        !self.alone && self.together == 0 && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[derive(Debug, Clone)]
    struct Op {
        number: usize,
        /// With the depth from which directories are held alone.
        paths: Vec<(String, usize)>,
    }

    impl Op {
        fn wants(&self) -> impl Iterator<Item = Want<'_>> {
            self.paths.iter().map(|(path, alone_from)| Want { path, alone_from: *alone_from })
        }

        /// Paths that it changes.
        fn changes(&self) -> impl Iterator<Item = &str> {
            let end = |path: &str, depth: usize| {
                path.match_indices('/').nth(depth).map_or(path.len(), |(end, _)| end)
            };
            self.paths.iter().flat_map(move |(path, alone_from)| {
                (*alone_from..=depth(path)).map(move |depth| &path[..end(path, depth)])
            })
        }

        /// As the guarantee has it.
        fn conflicts(&self, other: &Op) -> bool {
            let is_in = |path: &str, dir: &str| {
                path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let one_way =
                |a: &Op, b: &Op| a.changes().any(|dir| b.paths.iter().any(|(path, _)| is_in(path, dir)));
            one_way(self, other) || one_way(other, self)
        }
    }

    fn change(number: usize, paths: &[&str]) -> Op {
        Op { number, paths: paths.iter().map(|path| ((*path).to_owned(), depth(path))).collect() }
    }

    fn read(number: usize, path: &str) -> Op {
        Op { number, paths: vec![(path.to_owned(), usize::MAX)] }
    }

    /// Begins all, and ends what runs in an order of its own; checks at each step that only what may run does.
    fn run(ops: &[Op], seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut order = Order::default();
        let (mut running, mut done) = (Vec::new(), HashSet::new());
        let mut left = ops.iter();
        loop {
            let more = left.len() > 0 && (running.is_empty() || rng.random_bool(0.6));
            if more {
                let op = left.next().expect("there are more").clone();
                running.extend(order.begin(op.clone().wants(), |ticket| (ticket, op)));
            } else if running.is_empty() {
                break;
            } else {
                let (ticket, op): (Ticket, Op) = running.swap_remove(rng.random_range(0..running.len()));
                done.insert(op.number);
                order.end(ticket, &mut running);
            }
            for (_, op) in &running {
                let before = ops[..op.number].iter().filter(|before| before.conflicts(op));
                before.for_each(|before| {
                    assert!(done.contains(&before.number), "{op:?} runs before {before:?} has ended")
                });
            }
            // And nothing waits without need: whoever waits, waits for somebody.
            let begun = ops.len() - left.len();
            for op in ops[..begun].iter().filter(|op| {
                !done.contains(&op.number) && !running.iter().any(|(_, r)| r.number == op.number)
            }) {
                assert!(
                    ops[..op.number].iter().any(|before| !done.contains(&before.number)),
                    "{op:?} waits for nobody"
                );
            }
        }
        assert_eq!(done.len(), ops.len());
        assert!(order.is_empty() && order.paths.is_empty());
    }

    #[test]
    fn lines_run_in_the_order_of_the_trace_wherever_it_matters() {
        for seed in 0..300 {
            let mut rng = StdRng::seed_from_u64(seed);
            let path = |rng: &mut StdRng| -> String {
                let depth = rng.random_range(1..4);
                (0..depth).map(|_| ["/a", "/b"][rng.random_range(0..2)]).collect()
            };
            let ops: Vec<Op> = (0..60)
                .map(|number| match rng.random_range(0..6) {
                    0 => change(number, &[&path(&mut rng)]),
                    1 => change(number, &[&path(&mut rng), &path(&mut rng)]),
                    2 => Op { number, paths: vec![(path(&mut rng), 1)] },
                    _ => read(number, &path(&mut rng)),
                })
                .collect();
            run(&ops, seed);
        }
    }

    #[test]
    fn what_does_not_matter_runs_at_once() {
        let mut order = Order::default();
        let ops = [
            read(0, "/d/a"),
            read(1, "/d"),
            change(2, &["/d/b"]),
            change(3, &["/d/c", "/e/c"]),
            read(4, "/d"),
            change(5, &["/f"]),
        ];
        for op in &ops {
            assert!(order.begin(op.wants(), |_| op.number).is_some(), "{op:?}");
        }
        assert_eq!((order.waited, order.len()), (0, ops.len()));
        for op in [change(6, &["/d"]), read(7, "/d/x"), read(8, "/f/g"), change(9, &["/"])] {
            assert!(order.begin(op.wants(), |_| op.number).is_none(), "{op:?}");
        }
        assert_eq!((order.waited, order.waiting().collect::<Vec<_>>()), (4, vec![6, 7, 8, 9]));
    }

    #[test]
    fn a_path_and_one_below_it_can_be_of_one_line() {
        let mut order = Order::default();
        let wants = [Want::change("/a"), Want::change("/a/b"), Want::read("/")];
        assert!(order.begin(wants.into_iter(), |_| ()).is_some());
    }
}
