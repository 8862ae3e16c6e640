//! Changes of rows, and how several of them on one key fold into one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::key::Key;
use crate::schema::TableId;

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
    pub fn merged(self, max: i64, add: i64) -> Row {
        Row { max: self.max.max(max), add: self.add.saturating_add(add), ..self }
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
            Effect::Merge { max, add } => before.map(|row| row.clone().merged(*max, *add)),
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
    /// False when nobody read `base` in this run: it is but a version that the operation was given, or an insert
    /// believes that there is none.
    pub read: bool,
    pub hold: Hold,
    pub effect: Effect,
    /// Whether an `Insert` stood here: then the key must be absent, whatever came after.
    inserted: bool,
}

impl Slot {
    /// A row as it was read (`None` = absent).
    pub fn new(base: Option<Row>) -> Slot {
        Slot { base, read: true, hold: Hold::Loose, effect: Effect::Keep, inserted: false }
    }

    /// A key that is believed to be absent; nobody looked.
    pub fn unread() -> Slot {
        Slot { read: false, ..Slot::new(None) }
    }

    /// A row that must have this version, whatever else it holds.
    pub fn given(version: u64) -> Slot {
        let base = Some(Row { version, ..Row::default() });
        Slot { read: false, hold: Hold::Held, ..Slot::new(base) }
    }

    /// False when `base` is but a version, without counters or value.
    pub fn is_known(&self) -> bool {
        self.read || self.base.is_none()
    }

    pub fn is_written(&self) -> bool {
        !matches!(self.effect, Effect::Keep) || self.inserted
    }

    /// Whether the key must be absent and stays so: the operation inserted the row and deleted it again.
    pub fn is_insert_undone(&self) -> bool {
        self.inserted && self.effect == Effect::Keep
    }

    /// The row as it stands after the changes so far.
    pub fn current(&self) -> Option<Cow<'_, Row>> {
        match &self.effect {
            Effect::Keep if self.inserted => None,
            Effect::Keep => self.base.as_ref().map(Cow::Borrowed),
            Effect::Insert(row) | Effect::Put(row) => Some(Cow::Borrowed(row)),
            Effect::Delete => None,
            Effect::Merge { max, add } => {
                self.base.as_ref().map(|row| Cow::Owned(row.clone().merged(*max, *add)))
            }
        }
    }

    /// The same, taken out.
    pub fn into_current(self) -> Option<Row> {
        match self.effect {
            Effect::Keep if self.inserted => None,
            Effect::Keep => self.base,
            Effect::Insert(row) | Effect::Put(row) => Some(row),
            Effect::Delete => None,
            Effect::Merge { max, add } => self.base.map(|row| row.merged(max, add)),
        }
    }

    pub fn hold(&mut self, hold: Hold) {
        self.hold = self.hold.max(hold);
    }

    /// Folds one more effect onto this key (contract rule 5). `Err` says what the operation got wrong, and leaves the
    /// slot as it was.
    pub fn fold(&mut self, next: Effect) -> Result<(), &'static str> {
        if !self.is_known() && next != Effect::Keep {
            return Err("change of a row of which only the version is known");
        }
        let (effect, hold) = match (&self.effect, next) {
            (_, Effect::Keep) => return Ok(()),
            (Effect::Keep, Effect::Insert(row)) if self.base.is_none() => {
                self.inserted = true;
                (Effect::Insert(row), Hold::Loose)
            }
            (Effect::Delete, Effect::Insert(row)) => (Effect::Put(row), Hold::HeldExact),
            (_, Effect::Insert(_)) => return Err("insert of a row that exists"),
            (Effect::Insert(_), Effect::Put(row)) => (Effect::Insert(row), Hold::Loose),
            (Effect::Insert(row), Effect::Merge { max, add }) => {
                (Effect::Insert(row.clone().merged(max, add)), Hold::Loose)
            }
            (Effect::Insert(_), Effect::Delete) => (Effect::Keep, Hold::Loose),
            (Effect::Put(row), Effect::Merge { max, add }) => {
                (Effect::Put(row.clone().merged(max, add)), Hold::HeldExact)
            }
            (Effect::Merge { max: a, add: b }, Effect::Merge { max, add }) => {
                (Effect::Merge { max: (*a).max(max), add: b.saturating_add(add) }, Hold::Held)
            }
            // A Put carries the counters that its operation saw: the sum, when a Merge stood here.
            (Effect::Put(_) | Effect::Merge { .. }, next) => (next, Hold::HeldExact),
            (Effect::Keep, next) if self.base.is_some() => match next {
                Effect::Merge { .. } => (next, Hold::Held),
                _ => (next, Hold::HeldExact),
            },
            (Effect::Keep | Effect::Delete, _) => return Err("change of a row that does not exist"),
        };
        self.effect = effect;
        self.hold(hold);
        Ok(())
    }

    pub fn check(&self) -> Check {
        match (&self.base, self.hold) {
            (None, _) if self.is_written() => Check::Absent,
            (None, _) | (_, Hold::Loose) => Check::Nothing,
            (Some(row), Hold::Held) => Check::Version(row.version),
            (Some(row), Hold::HeldExact) if self.is_known() => Check::Exact(row.version, row.max, row.add),
            (Some(row), Hold::HeldExact) => Check::Version(row.version),
        }
    }
}

/// Changes by key: one operation's, or a whole group's.
#[derive(Clone, Debug, Default)]
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

    /// The keys that are written, those that must stay absent included.
    pub fn written(&self) -> impl Iterator<Item = &Key> {
        self.slots.iter().filter(|(_, slot)| slot.is_written()).map(|(key, _)| key)
    }

    /// Whether a commit has to be made: something is written, or held at a version that nobody has read. Rows that
    /// were read and are held by an operation that writes nothing need none: its fetch was one snapshot.
    pub fn must_commit(&self) -> bool {
        self.slots.values().any(|slot| slot.is_written() || !slot.is_known())
    }

    /// A counter that is added to without anything beside it that a second run would collide with (contract rule 5):
    /// after `MaybeCommitted` it might be added twice.
    pub fn unguarded_add(&self) -> Option<&Key> {
        let guards = |slot: &Slot| matches!(slot.effect, Effect::Insert(_) | Effect::Put(_) | Effect::Delete);
        if self.slots.values().any(guards) {
            return None;
        }
        let adds = |slot: &Slot| matches!(slot.effect, Effect::Merge { add, .. } if add != 0);
        let is_added_to = |(key, slot): &(&Key, &Slot)| adds(slot) && key.table() != TableId::LeaseHolders;
        self.slots.iter().find(is_added_to).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: u64, max: i64, add: i64) -> Row {
        Row { version, max, add, value: Bytes::new() }
    }

    fn insert(version: u64) -> Effect {
        Effect::Insert(row(version, 0, 0))
    }

    fn put(version: u64, max: i64, add: i64) -> Effect {
        Effect::Put(row(version, max, add))
    }

    fn merge(max: i64, add: i64) -> Effect {
        Effect::Merge { max, add }
    }

    /// Folds effects one after another; gives the check, the effect, and the row that stands then.
    fn folded(base: Option<Row>, effects: &[Effect]) -> Result<(Check, Effect, Option<Row>), &'static str> {
        let mut slot = Slot::new(base);
        for effect in effects {
            let before = slot.clone();
            if let Err(why) = slot.fold(effect.clone()) {
                assert_eq!((slot.effect, slot.hold), (before.effect, before.hold), "{effect:?} half applied");
                return Err(why);
            }
        }
        Ok((slot.check(), slot.effect.clone(), slot.into_current()))
    }

    #[test]
    fn changes_of_one_key_fold_as_rule_5_says() {
        let base = || Some(row(1, 10, 20));
        let exact = Check::Exact(1, 10, 20);
        let version = Check::Version(1);
        let cases = [
            (None, vec![insert(2)], Check::Absent, insert(2), Some(row(2, 0, 0))),
            (
                None,
                vec![insert(2), put(3, 4, 5)],
                Check::Absent,
                Effect::Insert(row(3, 4, 5)),
                Some(row(3, 4, 5)),
            ),
            (
                None,
                vec![insert(2), merge(7, 1)],
                Check::Absent,
                Effect::Insert(row(2, 7, 1)),
                Some(row(2, 7, 1)),
            ),
            (None, vec![insert(2), Effect::Delete], Check::Absent, Effect::Keep, None),
            (None, vec![insert(2), Effect::Delete, insert(3)], Check::Absent, insert(3), Some(row(3, 0, 0))),
            (
                None,
                vec![insert(2), Effect::Delete, insert(3), Effect::Delete],
                Check::Absent,
                Effect::Keep,
                None,
            ),
            (base(), vec![put(2, 1, 1)], exact.clone(), put(2, 1, 1), Some(row(2, 1, 1))),
            (base(), vec![merge(11, 2)], version.clone(), merge(11, 2), Some(row(1, 11, 22))),
            (base(), vec![merge(KEEP_MAX, 2)], version.clone(), merge(KEEP_MAX, 2), Some(row(1, 10, 22))),
            (base(), vec![merge(11, 2), merge(9, 3)], version, merge(11, 5), Some(row(1, 11, 25))),
            (base(), vec![put(2, 1, 1), merge(5, 2)], exact.clone(), put(2, 5, 3), Some(row(2, 5, 3))),
            (base(), vec![merge(11, 2), put(2, 11, 22)], exact.clone(), put(2, 11, 22), Some(row(2, 11, 22))),
            (base(), vec![put(2, 1, 1), put(3, 2, 2)], exact.clone(), put(3, 2, 2), Some(row(3, 2, 2))),
            (base(), vec![Effect::Delete], exact.clone(), Effect::Delete, None),
            (base(), vec![put(2, 1, 1), Effect::Delete], exact.clone(), Effect::Delete, None),
            (base(), vec![merge(11, 2), Effect::Delete], exact.clone(), Effect::Delete, None),
            (base(), vec![Effect::Delete, insert(2)], exact.clone(), put(2, 0, 0), Some(row(2, 0, 0))),
            (
                base(),
                vec![Effect::Delete, insert(2), merge(3, 4)],
                exact.clone(),
                put(2, 3, 4),
                Some(row(2, 3, 4)),
            ),
            (base(), vec![Effect::Delete, insert(2), Effect::Delete], exact, Effect::Delete, None),
        ];
        for (base, effects, check, effect, current) in cases {
            let case = format!("{base:?} {effects:?}");
            assert_eq!(folded(base, &effects), Ok((check, effect, current)), "{case}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let base = || Some(row(1, 10, 20));
        for (base, effects) in [
            (base(), vec![insert(2)]),
            (base(), vec![put(2, 0, 0), insert(3)]),
            (base(), vec![merge(0, 1), insert(3)]),
            (base(), vec![Effect::Delete, put(2, 0, 0)]),
            (base(), vec![Effect::Delete, Effect::Delete]),
            (base(), vec![Effect::Delete, merge(0, 1)]),
            (None, vec![insert(2), insert(3)]),
            (None, vec![put(2, 0, 0)]),
            (None, vec![Effect::Delete]),
            (None, vec![merge(0, 1)]),
            (None, vec![insert(2), Effect::Delete, put(3, 0, 0)]),
        ] {
            let case = format!("{base:?} {effects:?}");
            assert!(folded(base, &effects).is_err(), "{case}");
        }
        assert!(Slot::given(7).fold(merge(0, 1)).is_err(), "the counters of a given row are not known");
    }

    #[test]
    fn the_strictest_check_stands() {
        let mut slot = Slot::new(Some(row(1, 10, 20)));
        slot.fold(merge(0, 1)).unwrap();
        assert_eq!(slot.check(), Check::Version(1));
        slot.hold(Hold::HeldExact);
        slot.hold(Hold::Held);
        assert_eq!(slot.check(), Check::Exact(1, 10, 20));
        let mut loose = Slot::new(Some(row(1, 10, 20)));
        assert_eq!(loose.check(), Check::Nothing);
        loose.fold(Effect::Keep).unwrap();
        assert_eq!(loose.check(), Check::Nothing);
        assert_eq!(Slot::given(7).check(), Check::Version(7));
    }

    #[test]
    fn checks_hold_or_not() {
        let (stored, merged) = (row(1, 10, 20), row(1, 10, 21));
        assert!(Check::Nothing.holds(None) && Check::Nothing.holds(Some(&stored)));
        assert!(Check::Absent.holds(None) && !Check::Absent.holds(Some(&stored)));
        assert!(Check::Version(1).holds(Some(&merged)) && !Check::Version(2).holds(Some(&stored)));
        assert!(
            Check::Exact(1, 10, 20).holds(Some(&stored)) && !Check::Exact(1, 10, 20).holds(Some(&merged))
        );
        assert!(!Check::Version(1).holds(None) && !Check::Exact(1, 10, 20).holds(None));
    }

    #[test]
    fn adds_need_company() {
        let mut fold = Fold::default();
        let (stat, other) = (crate::schema::root_stat().key, crate::schema::root_inode().key);
        let mut slot = Slot::new(Some(row(1, 0, 0)));
        slot.fold(merge(5, 1)).unwrap();
        fold.slots.insert(stat.clone(), slot);
        assert_eq!(fold.unguarded_add(), Some(&stat));
        fold.slots.insert(other, {
            let mut s = Slot::new(None);
            s.fold(insert(9)).unwrap();
            s
        });
        assert_eq!(fold.unguarded_add(), None);
        let mut holder = Fold::default();
        let mut slot = Slot::new(Some(row(1, 0, 0)));
        slot.fold(merge(5, 1)).unwrap();
        holder.slots.insert(crate::schema::lease_holder("c").key, slot);
        assert_eq!(holder.unguarded_add(), None);
    }
}
