//! What the next operation is and what it is done to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::config::{Config, Hot, Pick};
use crate::disturb::Disturb;
use crate::mix::{Mix, Op};
use crate::namespace::mixed;
use crate::ops::Task;
use crate::popularity::{Spread, scattered};
use crate::tree::{ABSENT, Tree};

/// So often a file is drawn that is there; then the next lower one that is there is taken, which is the next older.
const MAX_DRAWS: u32 = 64;
/// In place of a hot phase.
const USUAL: usize = 0;

/// What all clients of a run share.
#[derive(Debug)]
pub struct Picks {
    /// What there is.
    pub tree: Tree,
    /// What is done.
    pub mix: Mix,
    pick: Pick,
    create_runs: &'static [(u32, f64)],
    /// As it is usually.
    spread: Spread,
    /// As it is in hot phases.
    hots: Vec<(Hot, Spread)>,
    /// Which of them is in force, from 1; [`USUAL`]: none.
    heat: AtomicUsize,
    /// Of every file's name, when clients go by the names that were there at first.
    first: Vec<u32>,
    /// The next file of [`Pick::Once`].
    cursor: AtomicU64,
    /// Tells what this run makes from what others made.
    run: u32,
    seed: u64,
}

impl Picks {
    /// `run` tells the names that the run makes from others'. What is usual must be in the configuration.
    pub fn new(config: &Config, mix: Mix, tree: Tree, run: u32) -> Picks {
        let hot = config.hot.filter(|_| config.pick == Pick::Popular);
        let mut hots: Vec<(Hot, Spread)> = Vec::new();
        for hot in config.disturb.iter().filter_map(Disturb::hot) {
            if hots.iter().all(|(known, _)| *known != hot) {
                hots.push((hot, Spread::new(&tree.spec, config.popularity, Some(hot))));
            }
        }
        let first = match config.pick {
            Pick::All => (0..tree.spec.files).map(|file| tree.generation(file)).collect(),
            _ => Vec::new(),
        };
        Picks {
            pick: config.pick,
            create_runs: config.workload.create_runs(),
            spread: Spread::new(&tree.spec, config.popularity, hot),
            hots,
            heat: AtomicUsize::new(USUAL),
            first,
            cursor: AtomicU64::new(0),
            run,
            seed: config.seed,
            tree,
            mix,
        }
    }

    /// From now on operations go to few directories as a disturbance of the configuration has it.
    pub fn heat(&self, hot: Hot) {
        if let Some(place) = self.place(hot) {
            self.heat.store(place, Ordering::Relaxed);
        }
    }

    /// From now on they go where they go usually, unless something else is hot meanwhile.
    pub fn cool(&self, hot: Hot) {
        if let Some(place) = self.place(hot) {
            // Otherwise it is over already.
            let _ = self.heat.compare_exchange(place, USUAL, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn place(&self, hot: Hot) -> Option<usize> {
        self.hots.iter().position(|(known, _)| *known == hot).map(|index| index + 1)
    }

    /// A file, whether it is there or not.
    fn draw_file(&self, rng: &mut StdRng) -> u32 {
        let hot = self.heat.load(Ordering::Relaxed).checked_sub(1).and_then(|index| self.hots.get(index));
        hot.map_or(&self.spread, |(_, spread)| spread).draw(&self.tree.spec, rng)
    }

    /// A file that is there, with its generation; None: there is none.
    fn present_file(&self, rng: &mut StdRng) -> Option<(u32, u32)> {
        let known =
            |file| Some((file, self.tree.generation(file))).filter(|(_, generation)| *generation != ABSENT);
        let mut file = 0;
        for _ in 0..MAX_DRAWS {
            file = self.draw_file(rng);
            if let Some(found) = known(file) {
                return Some(found);
            }
        }
        let count = self.tree.spec.files;
        (0..=file).rev().chain((file + 1..count).rev()).find_map(known)
    }
}

/// What an operation leaves behind, to be noted when it was a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that matters.
    None,
    /// A file has the name of this generation.
    Renamed(u32, u32),
    /// A file is gone.
    Deleted(u32),
    /// There is a file that this client made.
    Created(Made),
}

/// A file that a client made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    dir: u32,
    count: u32,
}

/// Picks for one client.
#[derive(Debug)]
pub struct Picker {
    picks: Arc<Picks>,
    client: u32,
    rng: StdRng,
    /// Files that it made and has not deleted.
    made: Vec<Made>,
    /// How much it made.
    count: u32,
    /// The next file of [`Pick::All`].
    cursor: u64,
    /// The directory of a run of creates, and how many are left.
    create_run: (u32, u32),
}

impl Picker {
    /// For client number `client`.
    pub fn new(picks: Arc<Picks>, client: u32) -> Picker {
        let rng = StdRng::seed_from_u64(mixed(picks.seed) ^ mixed(u64::from(client) + 1));
        Picker { picks, client, rng, made: Vec::new(), count: 0, cursor: 0, create_run: (0, 0) }
    }

    /// Whose picks these are.
    pub fn client(&self) -> u32 {
        self.client
    }

    /// The next operation; None: there is nothing left to do it to.
    pub fn draw(&mut self) -> Option<(Task, Effect)> {
        let point = self.rng.random();
        let op = self.picks.mix.at(point);
        self.of(op)
    }

    /// The next operation of this kind.
    pub fn of(&mut self, op: Op) -> Option<(Task, Effect)> {
        let picks = self.picks.clone();
        let tree = &picks.tree;
        let task = |path| Task { op, path, to: None, variation: 0 };
        let file_task = |(file, generation)| task(tree.spec.file_path(&tree.base, file, generation));
        Some(match op {
            Op::Open | Op::StatFile | Op::ListFile => (file_task(self.file()?), Effect::None),
            Op::SetReplication | Op::ChmodFile | Op::Append => {
                let varied = Task { variation: self.rng.random(), ..file_task(self.file()?) };
                (varied, Effect::None)
            }
            Op::StatDir | Op::ListDir | Op::ChownDir | Op::ChmodDir => {
                let (file, _) = self.file()?;
                let path = tree.spec.dir_path(&tree.base, tree.spec.dir_of(file));
                (Task { variation: self.rng.random(), ..task(path) }, Effect::None)
            }
            Op::Create => {
                let made = Made { dir: self.create_dir(), count: self.counted() };
                let varied = Task { variation: self.rng.random(), ..task(self.made_path(made)) };
                (varied, Effect::Created(made))
            }
            Op::Mkdir => {
                let dir = tree.spec.dir_of(picks.draw_file(&mut self.rng));
                let count = self.counted();
                (task(self.made_path(Made { dir, count })), Effect::None)
            }
            Op::Rename => {
                let (file, generation) = self.file()?;
                // The generation that stands for "absent" is never reached.
                let next = (generation + 1) % ABSENT;
                let to = tree.spec.file_path(&tree.base, file, next);
                (Task { to: Some(to), ..file_task((file, generation)) }, Effect::Renamed(file, next))
            }
            Op::Delete => match self.made.pop() {
                Some(made) => (task(self.made_path(made)), Effect::None),
                None => {
                    let (file, generation) = self.file()?;
                    (file_task((file, generation)), Effect::Deleted(file))
                }
            },
        })
    }

    /// Notes what a success left behind.
    pub fn note(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Renamed(file, generation) => self.picks.tree.set_generation(file, generation),
            Effect::Deleted(file) => self.picks.tree.set_generation(file, ABSENT),
            Effect::Created(made) => self.made.push(made),
        }
    }

    fn file(&mut self) -> Option<(u32, u32)> {
        let picks = &self.picks;
        let count = u64::from(picks.tree.spec.files);
        match picks.pick {
            Pick::Popular => picks.present_file(&mut self.rng),
            Pick::Once => loop {
                let place = picks.cursor.fetch_add(1, Ordering::Relaxed);
                if place >= count {
                    return None;
                }
                let file = scattered(place, count) as u32;
                let generation = picks.tree.generation(file);
                if generation != ABSENT {
                    return Some((file, generation));
                }
            },
            Pick::All => loop {
                let place = usize::try_from(self.cursor).ok()?;
                let generation = *picks.first.get(place)?;
                self.cursor += 1;
                if generation != ABSENT {
                    return Some((place as u32, generation));
                }
            },
        }
    }

    fn counted(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    fn made_path(&self, Made { dir, count }: Made) -> String {
        let Picks { tree, run, .. } = &*self.picks;
        tree.spec.new_path(&tree.base, dir, *run, self.client, count)
    }

    /// Where the next file is made.
    fn create_dir(&mut self) -> u32 {
        let picks = &self.picks;
        if self.create_run.1 == 0 {
            let dir = picks.tree.spec.dir_of(picks.draw_file(&mut self.rng));
            let (point, mut end) = (self.rng.random::<f64>(), 0.0);
            let run = picks.create_runs.iter().find(|(_, share)| {
                end += share;
                point < end
            });
            self.create_run = (dir, run.map_or(1, |(length, _)| *length));
        }
        self.create_run.1 -= 1;
        self.create_run.0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::config::Popularity;
    use crate::namespace::Spec;

    pub fn config(workload: &str, pick: Pick) -> Config {
        Config { pick, ..Config::new("hdfs://h:1", "/load", workload.parse().expect("one")) }
    }

    pub fn picks(config: &Config, files: u32) -> Arc<Picks> {
        let tree = Tree::absent("/load", Spec { files, ..Spec::default() });
        (0..files).for_each(|file| tree.set_generation(file, 0));
        Arc::new(Picks::new(config, config.check().expect("sound"), tree, 1))
    }

    #[test]
    fn one_seed_is_one_sequence_of_operations() {
        let config = config("spotify", Pick::Popular);
        let all = |client: u32, seed: u64| -> Vec<Task> {
            let picks = picks(&Config { seed, ..config.clone() }, 5000);
            let mut picker = Picker::new(picks, client);
            (0..1000).map(|_| picker.draw().expect("there are files").0).collect()
        };
        assert_eq!(all(0, 1), all(0, 1));
        assert!(all(0, 1) != all(1, 1) && all(0, 1) != all(0, 2));
    }

    #[test]
    fn a_hot_phase_moves_the_draws_and_then_all_is_as_before() {
        let disturb = ["hot:90/2@1s+1s", "hot:60/1@3s+1s"].map(|text| text.parse().expect("well formed"));
        let config = Config { disturb: disturb.to_vec(), ..config("spotify", Pick::Popular) };
        let picks = picks(&config, 16 * 100);
        let [first, second] = ["90/2", "60/1"].map(|text| text.parse().expect("percents"));
        // Percent of the operations that the most liked directories get.
        let top = |count: usize| -> u64 {
            let mut picker = Picker::new(picks.clone(), 0);
            let mut hits = HashMap::new();
            for _ in 0..20_000 {
                let (task, _) = picker.of(Op::Open).expect("there are files");
                *hits.entry(task.path.rsplit_once('/').map(|(dir, _)| dir.to_owned())).or_insert(0) += 1;
            }
            let mut hits: Vec<u64> = hits.into_values().collect();
            hits.sort_unstable_by(|a, b| b.cmp(a));
            hits[..count].iter().sum::<u64>() / 200
        };
        assert!(top(2) < 5);
        picks.heat(first);
        assert!((88..92).contains(&top(2)));
        picks.heat(second);
        picks.cool(first);
        assert!((58..62).contains(&top(1)), "the end of another does not matter");
        picks.cool(second);
        assert!(top(2) < 5);
    }

    #[test]
    fn once_takes_every_file_once_and_all_does_so_for_each_client() {
        for (pick, wanted) in [(Pick::Once, 100), (Pick::All, 200)] {
            let picks = picks(&config("rename", pick), 100);
            let mut pickers = [0, 1].map(|client| Picker::new(picks.clone(), client));
            let mut from = HashMap::new();
            let mut count = 0;
            loop {
                let tasks: Vec<_> = pickers.iter_mut().filter_map(Picker::draw).collect();
                if tasks.is_empty() {
                    break;
                }
                count += tasks.len();
                for ((task, effect), picker) in tasks.into_iter().zip(&mut pickers) {
                    *from.entry(task.path).or_insert(0) += 1;
                    picker.note(effect);
                }
            }
            assert_eq!((count, from.len()), (wanted, 100));
            assert!(from.values().all(|times| *times == wanted / 100));
        }
    }

    #[test]
    fn what_was_renamed_or_deleted_is_known_to_all() {
        let picks = picks(&config("pangu", Pick::Popular), 1);
        let mut pickers = [0, 1].map(|client| Picker::new(picks.clone(), client));
        let (task, effect) = pickers[0].of(Op::Rename).expect("a file");
        pickers[0].note(effect);
        let (opened, _) = pickers[1].of(Op::Open).expect("a file");
        assert_eq!(Some(opened.path), task.to);
        let (_, effect) = pickers[1].of(Op::Delete).expect("a file");
        pickers[1].note(effect);
        assert!(pickers[0].of(Op::Open).is_none());
    }

    #[test]
    fn when_the_young_are_gone_the_next_older_is_taken() {
        let popularity = Popularity::Age(10.0);
        let picks = picks(&Config { popularity, ..config("spotify", Pick::Popular) }, 100);
        let mut picker = Picker::new(picks.clone(), 0);
        (60..100).for_each(|file| picks.tree.set_generation(file, ABSENT));
        assert_eq!(picker.file(), Some((59, 0)));
        // At the end whatever is left.
        (0..60).for_each(|file| picks.tree.set_generation(file, ABSENT));
        assert_eq!(picker.file(), None);
        picks.tree.set_generation(99, 3);
        assert_eq!(picker.file(), Some((99, 3)));
    }

    #[test]
    fn a_client_deletes_what_it_made_first() {
        let picks = picks(&config("spotify", Pick::Popular), 100);
        let mut picker = Picker::new(picks, 0);
        let (made, effect) = picker.of(Op::Create).expect("always");
        picker.note(effect);
        assert_eq!(picker.of(Op::Delete).map(|(task, _)| task.path), Some(made.path));
        assert!(matches!(picker.of(Op::Delete), Some((_, Effect::Deleted(_)))));
    }

    #[test]
    fn creates_of_pangu_come_in_runs() {
        let picks = picks(&config("pangu", Pick::Popular), 16 * 1024);
        let mut picker = Picker::new(picks, 0);
        let dirs: Vec<u32> = (0..20_000).map(|_| picker.create_dir()).collect();
        let lengths: HashSet<usize> = dirs.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
        assert!(lengths.contains(&50) && lengths.contains(&1000), "{lengths:?}");
    }
}
