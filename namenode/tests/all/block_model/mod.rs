//! Random sequences of writers, datanodes and recoveries on a few files against a small model of their blocks: every
//! answer must agree, and so must blocks, lengths and replicas in the end. Reports come at once, twice, late, never, or
//! to a namenode that does not own the datanode any more.

mod model;
mod pair;

use std::collections::BTreeMap;

use proptest::prelude::*;

use self::pair::Pair;
use crate::files::BLOCK;
use crate::model::{block_on, runner};
use crate::support::{FRESH_STORE, rounds};

/// Steps of a sequence, at most.
const STEPS: usize = 60;

/// What one does, on files and holders by number.
#[derive(Clone, Debug)]
pub enum Step {
    Create { file: u8, by: u8 },
    AddBlock { file: u8, by: u8, bytes: u64, again: bool },
    Complete { file: u8, by: u8, bytes: u64 },
    Abandon { file: u8, by: u8 },
    Fsync { file: u8, by: u8, bytes: i64 },
    Append { file: u8, by: u8, new_block: bool },
    Truncate { file: u8, by: u8, length: i64 },
    Concat { file: u8, source: u8 },
    Recover { file: u8, by: u8 },
    Synced { file: u8, bytes: u64, delete: bool, on: u8, late: bool },
    Mend { file: u8, by: u8, bytes: u64, on: u8 },
    Delete { file: u8 },
    Rename { file: u8, to: u8 },
    Tell { file: u8, on: u32, back: usize, what: Told, when: When },
    Deliver,
    Full { on: u32 },
    Reap,
    Wait { long: bool },
}

/// What a datanode has of a block.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    Whole,
    Short,
    Older,
    Gone,
}

/// When its report comes.
#[derive(Clone, Copy, Debug)]
pub enum When {
    Now,
    Twice,
    Late,
    Lost,
    ToOldOwner,
}

fn a_length() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 2 => Just(9), 4 => Just(100), 6 => Just(BLOCK), 1 => Just(BLOCK + 1)]
}

fn a_step() -> impl Strategy<Value = Step> {
    let (file, by, on) = (|| prop_oneof![3 => Just(0u8), 2 => Just(1), 1 => Just(2)], || 0u8..2, || 0u32..3);
    let what = prop_oneof![
        8 => Just(Told::Whole),
        1 => Just(Told::Short),
        1 => Just(Told::Older),
        1 => Just(Told::Gone)
    ];
    let when = prop_oneof![
        6 => Just(When::Now),
        1 => Just(When::Twice),
        2 => Just(When::Late),
        1 => Just(When::Lost),
        1 => Just(When::ToOldOwner)
    ];
    let often = prop_oneof![
        2 => (file(), by()).prop_map(|(file, by)| Step::Create { file, by }),
        8 => (file(), by(), a_length(), proptest::bool::weighted(0.1))
            .prop_map(|(file, by, bytes, again)| Step::AddBlock { file, by, bytes, again }),
        6 => (file(), by(), a_length()).prop_map(|(file, by, bytes)| Step::Complete { file, by, bytes }),
        12 => (file(), on(), 0usize..2, what, when)
            .prop_map(|(file, on, back, what, when)| Step::Tell { file, on, back, what, when }),
        2 => (file(), by(), -1i64..200).prop_map(|(file, by, bytes)| Step::Fsync { file, by, bytes }),
        3 => (file(), by(), any::<bool>())
            .prop_map(|(file, by, new_block)| Step::Append { file, by, new_block }),
        4 => (file(), by(), prop_oneof![-1i64..9000, Just(BLOCK as i64)])
            .prop_map(|(file, by, length)| Step::Truncate { file, by, length }),
        3 => (file(), by()).prop_map(|(file, by)| Step::Recover { file, by }),
    ];
    let seldom = prop_oneof![
        1 => (file(), by()).prop_map(|(file, by)| Step::Abandon { file, by }),
        2 => (file(), file()).prop_map(|(file, source)| Step::Concat { file, source }),
        4 => (file(), a_length(), proptest::bool::weighted(0.2), 0u8..8, proptest::bool::weighted(0.1))
            .prop_map(|(file, bytes, delete, on, late)| Step::Synced { file, bytes, delete, on, late }),
        2 => (file(), by(), a_length(), 0u8..8)
            .prop_map(|(file, by, bytes, on)| Step::Mend { file, by, bytes, on }),
        1 => file().prop_map(|file| Step::Delete { file }),
        1 => (file(), file()).prop_map(|(file, to)| Step::Rename { file, to }),
        1 => Just(Step::Deliver),
        1 => on().prop_map(|on| Step::Full { on }),
        1 => Just(Step::Reap),
        1 => any::<bool>().prop_map(|long| Step::Wait { long }),
    ];
    prop_oneof![3 => often, 1 => seldom]
}

/// One step after another.
pub fn sequences_agree_with_the_model() {
    let seen = sequences(rounds(300, 20_000), "mem");
    // What sequences are there for came about; what is seldom, in the long form.
    let common = [("AddBlock", "ok"), ("Complete", "true"), ("Append", "ok"), ("Recover", "false")];
    let seldom = [
        ("AddBlock", "NotReplicatedYet"),
        ("AddBlock", "Io"),
        ("Complete", "false"),
        ("Append", "RecoveryInProgress"),
        ("Truncate", "false"),
        ("Concat", "ok"),
        ("Recover", "AlreadyBeingCreated"),
        ("Synced", "ok"),
        ("Synced", "Io"),
        ("Mend", "ok"),
    ];
    for (call, outcome) in rounds(&common[..], &seldom[..]) {
        assert!(
            seen.contains_key(&((*call).into(), (*outcome).into())),
            "{call}: {outcome} is not in {seen:?}"
        );
    }
}

/// The same over the embedded store.
pub fn sequences_agree_over_lmdb() {
    sequences(rounds(40, 1000), "lmdb");
}

/// Answers how often each call came to what.
fn sequences(cases: u32, store: &'static str) -> BTreeMap<(String, String), usize> {
    FRESH_STORE.set(store);
    let seen = std::cell::RefCell::new(BTreeMap::new());
    let steps = proptest::collection::vec(a_step(), 1..STEPS);
    let run = runner(cases).run(&steps, |steps| {
        block_on(async {
            let mut pair = Pair::fresh().await;
            for step in &steps {
                pair.step(step).await;
            }
            pair.compare().await;
            // Then everything that was lost is told, and everything that was deleted is freed.
            pair.around(&Step::Reap).await;
            for on in 0..3 {
                pair.full(on).await;
            }
            pair.compare().await;
            assert_eq!(pair.model.known, pair.model.disks);
            for (outcome, count) in pair.seen {
                *seen.borrow_mut().entry(outcome).or_default() += count;
            }
        });
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    seen.into_inner()
}
