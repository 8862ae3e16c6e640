//! Changes of rows, and how several of them on one key fold into one.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::key::Key;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 8 * 1024;
/// The `max` of a merge that leaves the first counter alone.
pub const KEEP_MAX: i64 = i64::MIN;

/// A stored row: version, two counters, value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Row {
    /// Never used twice for any row: incarnation of the writing namenode << 40 | counter.
    pub version: u64,
    /// The counter that a merge raises.
    pub max: i64,
    /// The counter that a merge adds to.
    pub add: i64,
    /// A small `prost` message, ≤ [`MAX_VALUE_BYTES`].
    pub value: Bytes,
}

impl Row {
    /// The row after a merge; its version stays.
    pub fn merged(&self, max: i64, add: i64) -> Row {
        Row { max: self.max.max(max), add: self.add.saturating_add(add), ..self.clone() }
    }
}

/// What must be true of a stored row for a commit to go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing (a blind write).
    Nothing,
    /// It exists with this version; its counters may have moved.
    Version(u64),
    /// It exists with this version and these counters (`max`, `add`).
    Exact(u64, i64, i64),
    /// There is no such row.
    Absent,
}

impl Check {
    /// Whether a stored row satisfies the check.
    pub fn holds(&self, row: Option<&Row>) -> bool {
        match (self, row) {
            (Check::Nothing, _) | (Check::Absent, None) => true,
            (Check::Version(v), Some(row)) => row.version == *v,
            (Check::Exact(v, max, add), Some(row)) => row.version == *v && row.max == *max && row.add == *add,
            _ => false,
        }
    }
}

/// What a commit does to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the row is only checked.
    Keep,
    /// Writes a row that was absent.
    Insert(Row),
    /// Replaces a row that was there.
    Put(Row),
    /// Removes the row.
    Delete,
    /// Raises `max` and adds `add`, at the version that is there.
    Merge {
        /// New lower bound of the first counter; [`KEEP_MAX`] leaves it.
        max: i64,
        /// Added to the second counter.
        add: i64,
    },
}

/// One key's part of a commit: a check and an effect, made atomically with all others of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row's key.
    pub key: Key,
    /// What must hold.
    pub check: Check,
    /// What is done.
    pub effect: Effect,
}

impl Change {
    /// The row after this change, given the row before it.
    pub fn applied(&self, before: Option<&Row>) -> Option<Row> {
        match &self.effect {
            Effect::Keep => before.cloned(),
            Effect::Insert(row) | Effect::Put(row) => Some(row.clone()),
            Effect::Delete => None,
            Effect::Merge { max, add } => before.map(|row| row.merged(*max, *add)),
        }
    }
}

/// How firmly an operation holds a row it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Not checked at commit.
    Loose,
    /// Must still have the version read; counters may move.
    Held,
    /// Must be unchanged, counters included.
    HeldExact,
}

/// The folded change of one key, together with the row that its check speaks of.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The row as it was before any change in this fold; `None` = absent.
    pub base: Option<Row>,
    pub hold: Hold,
    pub effect: Effect,
    /// Whether an `Insert` stood here: then the key must be absent, whatever came after.
    inserted: bool,
}

impl Slot {
    pub fn new(base: Option<Row>) -> Slot {
        Slot { base, hold: Hold::Loose, effect: Effect::Keep, inserted: false }
    }

    pub fn is_written(&self) -> bool {
        !matches!(self.effect, Effect::Keep) || self.inserted
    }

    /// The row as it stands after the changes so far.
    pub fn current(&self) -> Option<Row> {
        match &self.effect {
            Effect::Keep if self.inserted => None,
            Effect::Keep => self.base.clone(),
            Effect::Insert(row) | Effect::Put(row) => Some(row.clone()),
            Effect::Delete => None,
            Effect::Merge { max, add } => self.base.as_ref().map(|row| row.merged(*max, *add)),
        }
    }

    pub fn hold(&mut self, hold: Hold) {
        self.hold = self.hold.max(hold);
    }

    /// Folds one more effect onto this key (contract rule 5). `Err` says what the operation got wrong.
    pub fn fold(&mut self, next: Effect) -> Result<(), &'static str> {
        let now = std::mem::replace(&mut self.effect, Effect::Keep);
        let (effect, hold) = match (now, next) {
            (now, Effect::Keep) => (now, Hold::Loose),
            (Effect::Keep, Effect::Insert(row)) if self.base.is_none() => {
                self.inserted = true;
                (Effect::Insert(row), Hold::Loose)
            }
            (Effect::Delete, Effect::Insert(row)) => (Effect::Put(row), Hold::HeldExact),
            (Effect::Insert(_), Effect::Put(row)) => (Effect::Insert(row), Hold::Loose),
            (Effect::Insert(row), Effect::Merge { max, add }) => {
                (Effect::Insert(row.merged(max, add)), Hold::Loose)
            }
            (Effect::Insert(_), Effect::Delete) => (Effect::Keep, Hold::Loose),
            (Effect::Put(row), Effect::Merge { max, add }) => {
                (Effect::Put(row.merged(max, add)), Hold::HeldExact)
            }
            (Effect::Merge { max: a, add: b }, Effect::Merge { max, add }) => {
                (Effect::Merge { max: a.max(max), add: b.saturating_add(add) }, Hold::Held)
            }
            (Effect::Put(_) | Effect::Merge { .. }, Effect::Put(row)) => (Effect::Put(row), Hold::HeldExact),
            (Effect::Put(_) | Effect::Merge { .. }, Effect::Delete) => (Effect::Delete, Hold::HeldExact),
            (Effect::Keep, next) if self.base.is_some() => match next {
                Effect::Insert(_) => return Err("insert of a row that exists"),
                Effect::Merge { .. } => (next, Hold::Held),
                _ => (next, Hold::HeldExact),
            },
            _ => return Err("insert of a row that exists, or change of one that does not"),
        };
        self.effect = effect;
        self.hold(hold);
        Ok(())
    }

    fn check(&self) -> Check {
        match (&self.base, self.hold) {
            (None, _) if self.is_written() => Check::Absent,
            (None, _) | (_, Hold::Loose) => Check::Nothing,
            (Some(row), Hold::Held) => Check::Version(row.version),
            (Some(row), Hold::HeldExact) => Check::Exact(row.version, row.max, row.add),
        }
    }
}

/// Changes by key: one operation's, or a whole group's.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    pub slots: BTreeMap<Key, Slot>,
}

impl Fold {
    /// The changes that a commit has to make, in lock order; rows that are neither checked nor written drop out.
    pub fn changes(&self) -> Vec<Change> {
        let mut all: Vec<Change> = self
            .slots
            .iter()
            .map(|(key, slot)| Change { key: key.clone(), check: slot.check(), effect: slot.effect.clone() })
            .filter(|c| c.check != Check::Nothing || c.effect != Effect::Keep)
            .collect();
        all.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
        all
    }

    pub fn writes_anything(&self) -> bool {
        self.slots.values().any(Slot::is_written)
    }
}
