//! Random sequences of writers, datanodes, recoveries and looks at replicas on a few files against a small model of their
//! blocks: every answer must agree, and so must blocks, lengths and replicas in the end. Reports come at once, twice,
//! late, never, or to a namenode that does not own the datanode any more; commands are carried out, or forgotten. In the
//! end every block has as many replicas as its file wants, and no other.

mod datanodes;
mod model;
mod pair;

use std::collections::BTreeMap;

use proptest::prelude::*;

use self::pair::Pair;
use crate::files::BLOCK;
use crate::model::{block_on, runner};
use crate::support::{FRESH_STORE, rounds};

/// Steps of a sequence, at most.
const STEPS: usize = 80;

/// What one does, on files and holders by number; datanodes by the bits of a mask.
#[derive(Clone, Debug)]
pub enum Step {
    Create {
        file: u8,
        by: u8,
    },
    /// The next block, which its writer will write so many bytes to. `lie`: what it says of the one before.
    AddBlock {
        file: u8,
        by: u8,
        bytes: u64,
        lie: Option<u64>,
        again: bool,
    },
    Complete {
        file: u8,
        by: u8,
        lie: Option<u64>,
    },
    Abandon {
        file: u8,
        by: u8,
    },
    Fsync {
        file: u8,
        by: u8,
        bytes: i64,
    },
    Append {
        file: u8,
        by: u8,
        new_block: bool,
        more: u64,
    },
    Truncate {
        file: u8,
        by: u8,
        length: i64,
    },
    Concat {
        file: u8,
        source: u8,
    },
    Recover {
        file: u8,
        by: u8,
    },
    Synced {
        file: u8,
        bytes: u64,
        delete: bool,
        on: u8,
        late: bool,
    },
    Mend {
        file: u8,
        by: u8,
        bytes: u64,
        on: u8,
    },
    Delete {
        file: u8,
    },
    Rename {
        file: u8,
        to: u8,
    },
    Setrep {
        file: u8,
        replication: u32,
    },
    /// A reader met bad bytes.
    Bad {
        file: u8,
        on: u8,
        back: usize,
    },
    Tell {
        file: u8,
        on: u8,
        back: usize,
        what: Told,
        when: When,
    },
    Deliver,
    Full {
        on: u32,
    },
    Reap,
    Wait {
        long: bool,
    },
    /// The leader looks after replicas.
    Look,
    /// Datanodes do what they were told; or they were told and forget it.
    Carry {
        when: When,
        forget: bool,
    },
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
    prop_oneof![1 => Just(0), 2 => Just(9), 4 => Just(100), 6 => Just(BLOCK)]
}

/// Where files are cut: often in the same places.
fn a_cut() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(50),
        4 => Just(BLOCK as i64 + 1),
        1 => Just(BLOCK as i64),
        3 => 0i64..9000,
        1 => Just(-1)
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let (file, on) = (|| prop_oneof![3 => Just(0u8), 2 => Just(1), 1 => Just(2)], || 0u32..3);
    let by = || prop_oneof![4 => Just(0u8), 1 => Just(1)];
    let some = || prop_oneof![2 => Just(7u8), 3 => 1u8..8];
    let back = || prop_oneof![3 => Just(0usize), 1 => 1usize..3];
    let lie = || proptest::option::weighted(0.1, prop_oneof![3 => a_length(), 1 => Just(BLOCK + 1)]);
    let what = prop_oneof![
        12 => Just(Told::Whole),
        1 => Just(Told::Short),
        1 => Just(Told::Older),
        1 => Just(Told::Gone)
    ];
    let when = || {
        prop_oneof![
            6 => Just(When::Now),
            1 => Just(When::Twice),
            2 => Just(When::Late),
            1 => Just(When::Lost),
            1 => Just(When::ToOldOwner)
        ]
    };
    let often = prop_oneof![
        6 => (file(), by(), a_length(), lie(), proptest::bool::weighted(0.1))
            .prop_map(|(file, by, bytes, lie, again)| Step::AddBlock { file, by, bytes, lie, again }),
        5 => (file(), by(), lie()).prop_map(|(file, by, lie)| Step::Complete { file, by, lie }),
        14 => (file(), some(), back(), what, when())
            .prop_map(|(file, on, back, what, when)| Step::Tell { file, on, back, what, when }),
        1 => (file(), by(), -1i64..200).prop_map(|(file, by, bytes)| Step::Fsync { file, by, bytes }),
        5 => (file(), by(), proptest::bool::weighted(0.3), a_length())
            .prop_map(|(file, by, new_block, more)| Step::Append { file, by, new_block, more }),
        3 => (file(), by(), a_cut()).prop_map(|(file, by, length)| Step::Truncate { file, by, length }),
        2 => (file(), by()).prop_map(|(file, by)| Step::Recover { file, by }),
        3 => Just(Step::Look),
        3 => (when(), proptest::bool::weighted(0.1)).prop_map(|(when, forget)| Step::Carry { when, forget }),
    ];
    let seldom = prop_oneof![
        2 => (file(), by()).prop_map(|(file, by)| Step::Create { file, by }),
        2 => (file(), by()).prop_map(|(file, by)| Step::Abandon { file, by }),
        4 => (file(), file()).prop_map(|(file, source)| Step::Concat { file, source }),
        9 => (file(), a_length(), proptest::bool::weighted(0.2), 0u8..8, proptest::bool::weighted(0.1))
            .prop_map(|(file, bytes, delete, on, late)| Step::Synced { file, bytes, delete, on, late }),
        3 => (file(), by(), a_length(), 0u8..8)
            .prop_map(|(file, by, bytes, on)| Step::Mend { file, by, bytes, on }),
        1 => file().prop_map(|file| Step::Delete { file }),
        1 => (file(), file()).prop_map(|(file, to)| Step::Rename { file, to }),
        3 => (file(), 1u32..4).prop_map(|(file, replication)| Step::Setrep { file, replication }),
        2 => (file(), 1u8..8, back()).prop_map(|(file, on, back)| Step::Bad { file, on, back }),
        2 => Just(Step::Deliver),
        1 => on().prop_map(|on| Step::Full { on }),
        1 => Just(Step::Reap),
        3 => any::<bool>().prop_map(|long| Step::Wait { long }),
    ];
    prop_oneof![3 => often, 1 => seldom]
}

/// What is to come about in every run, so that sequences stay as deep as they are meant to be: calls and their answers,
/// then what became of blocks and replicas.
const MUST_HAPPEN: [(&str, &str); 38] = [
    ("AddBlock", "ok"),
    ("AddBlock", "NotReplicatedYet"),
    ("AddBlock", "LeaseExpired"),
    ("AddBlock", "Io"),
    ("AddBlock", "the same again"),
    ("Complete", "true"),
    ("Complete", "false"),
    ("Complete", "Io"),
    ("Abandon", "ok"),
    ("Fsync", "ok"),
    ("Append", "to a partial block"),
    ("Append", "to a new block"),
    ("Append", "Io"),
    ("Append", "AlreadyBeingCreated"),
    ("Append", "RecoveryInProgress"),
    ("Append", "taken over"),
    ("Truncate", "true"),
    ("Truncate", "false"),
    ("Truncate", "the same again"),
    ("Truncate", "HadoopIllegalArgument"),
    ("Concat", "ok"),
    ("Recover", "true"),
    ("Recover", "false"),
    ("Recover", "AlreadyBeingCreated"),
    ("Synced", "ok"),
    ("Synced", "Io"),
    ("Synced", "cut"),
    ("Synced", "a joined block"),
    ("Mend", "ok"),
    ("Tell", "of a deleted block"),
    ("Tell", "of an outdated replica"),
    ("Tell", "one too many"),
    ("Look", "copied"),
    ("Look", "excess removed"),
    ("Look", "corrupt removed"),
    ("Carry", "deleted"),
    ("Carry", "outdated deleted"),
    ("Carry", "copied"),
];

/// One step after another.
pub fn sequences_agree_with_the_model() {
    let seen = sequences(rounds(200, 20_000), "mem");
    let calls: usize = seen.values().sum();
    let nowhere: usize =
        seen.iter().filter(|((_, what), _)| what == "FileNotFound").map(|(_, count)| count).sum();
    assert!(nowhere * 10 < calls, "{nowhere} of {calls} met no file: {seen:?}");
    for (call, outcome) in MUST_HAPPEN {
        assert!(seen.contains_key(&(call.into(), outcome.into())), "{call}: {outcome} is not in {seen:?}");
    }
}

/// The same over the embedded store.
pub fn sequences_agree_over_lmdb() {
    sequences(rounds(25, 1000), "lmdb");
}

/// The same with a log in front of it.
pub fn sequences_agree_over_a_log() {
    sequences(rounds(25, 1000), "lmdb-log");
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
            pair.converge().await;
            for (outcome, count) in pair.seen {
                *seen.borrow_mut().entry(outcome).or_default() += count;
            }
        });
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    seen.into_inner()
}
