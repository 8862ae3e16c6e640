//! Several changes of one key in one operation (rule 5).

use std::collections::HashMap;

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{DirStat, DirStats, TableKey, dir_stat};
use trellis_metastore::tx::{RowRef, Stop, Tx, View};

use super::*;

/// The parent under which the rows of the tests lie.
const PARENT: u64 = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Insert,
    Put,
    Merge,
    Delete,
}

const STEPS: [Step; 4] = [Step::Insert, Step::Put, Step::Merge, Step::Delete];

/// One row's life: whether it is there at the start, and what is done to it.
#[derive(Clone, Debug)]
struct Life {
    key: TableKey<DirStats>,
    present: bool,
    steps: Vec<Step>,
}

/// Every sequence of up to three steps that an operation may make.
fn lives() -> Vec<Life> {
    let mut all = Vec::new();
    for present in [false, true] {
        let mut longest = vec![vec![]];
        for _ in 0..3 {
            longest = longest
                .iter()
                .flat_map(|steps: &Vec<Step>| STEPS.map(|step| [steps.as_slice(), &[step]].concat()))
                .filter(|steps| legal(present, steps))
                .collect();
            all.extend(longest.iter().map(|steps| (present, steps.clone())));
        }
    }
    let life = |(i, (present, steps)): (usize, (bool, Vec<Step>))| Life {
        key: dir_stat(PARENT, format!("{i:03}").as_bytes()),
        present,
        steps,
    };
    all.into_iter().enumerate().map(life).collect()
}

/// An insert needs the row absent, anything else needs it there.
fn legal(mut present: bool, steps: &[Step]) -> bool {
    steps.iter().all(|step| {
        let legal = present != (*step == Step::Insert);
        present = *step != Step::Delete;
        legal
    })
}

/// Rows that were fetched.
struct Rows(HashMap<Key, Option<Row>>);

impl View for Rows {
    fn read(&mut self, key: &Key, visit: &mut dyn FnMut(Option<RowRef<'_>>)) -> Result<(), Stop> {
        visit(self.0.get(key).ok_or(Stop::Miss)?.as_ref().map(RowRef::from));
        Ok(())
    }
    fn scan(&mut self, _: &Scan, _: &mut dyn FnMut(&[u8], RowRef<'_>)) -> Result<u64, Stop> {
        Err(Stop::Miss)
    }
}

async fn fetch(store: &Arc<dyn Store>, lives: &[Life]) -> Rows {
    let keys: Vec<Key> = lives.iter().map(|life| life.key.key.clone()).collect();
    let fetched = store.fetch(&keys, &[]).await.unwrap();
    Rows(keys.into_iter().zip(fetched.rows).collect())
}

fn step(tx: &mut Tx<'_>, life: &Life, place: usize) -> Result<(), Stop> {
    let value = DirStat { id: place as u64 + 1, quota_of: 0 };
    let place = place as i64;
    tx.get(&life.key, Hold::Loose)?;
    match life.steps[place as usize] {
        Step::Insert => tx.insert_counted(&life.key, &value, 5, place),
        Step::Put => tx.put(&life.key, &value),
        Step::Merge => tx.merge(&life.key, 7 + place, 10),
        Step::Delete => tx.delete(&life.key),
    }
}

/// The rows that are there at the start.
async fn begin(store: &Arc<dyn Store>, lives: &[Life], versions: &Versions) {
    let mut rows = fetch(store, lives).await;
    let mut tx = Tx::read_write(&mut rows, versions);
    for life in lives.iter().filter(|life| life.present) {
        tx.insert_counted(&life.key, &DirStat { id: 77, quota_of: 3 }, 6, 60).unwrap();
    }
    store.commit(&tx.into_changes()).await.unwrap();
}

pub async fn rule_05_changes_of_one_key_fold_into_what_they_do_one_by_one(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let versions = Versions::of_incarnation(3);
    let folded = lives();
    let one_by_one: Vec<Life> = folded
        .iter()
        .map(|life| Life { key: dir_stat(PARENT + 1, life.key.key.rest()), ..life.clone() })
        .collect();
    begin(&store, &folded, &versions).await;
    begin(&store, &one_by_one, &versions).await;
    let mut rows = fetch(&store, &folded).await;
    let mut tx = Tx::read_write(&mut rows, &versions);
    for life in &folded {
        (0..life.steps.len()).for_each(|place| step(&mut tx, life, place).unwrap());
    }
    store.commit(&tx.into_changes()).await.unwrap();
    for place in 0..3 {
        let mut rows = fetch(&store, &one_by_one).await;
        let mut tx = Tx::read_write(&mut rows, &versions);
        let going_on = one_by_one.iter().filter(|life| life.steps.len() > place);
        going_on.for_each(|life| step(&mut tx, life, place).unwrap());
        store.commit(&tx.into_changes()).await.unwrap();
    }
    let (folded_rows, single_rows) = (fetch(&store, &folded).await, fetch(&store, &one_by_one).await);
    for (one, other) in folded.iter().zip(&one_by_one) {
        let row = |rows: &Rows, life: &Life| {
            rows.0[&life.key.key].as_ref().map(|row| (row.max, row.add, row.value.clone()))
        };
        assert_eq!(row(&folded_rows, one), row(&single_rows, other), "{one:?}");
    }
}

pub async fn rule_05_a_fold_has_the_strictest_of_its_checks(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let versions = Versions::of_incarnation(3);
    let lives = lives();
    begin(&store, &lives, &versions).await;
    let mut rows = fetch(&store, &lives).await;
    let folded: Vec<Vec<Change>> = lives
        .iter()
        .map(|life| {
            let mut tx = Tx::read_write(&mut rows, &versions);
            (0..life.steps.len()).for_each(|place| step(&mut tx, life, place).unwrap());
            tx.into_changes()
        })
        .collect();
    // Then others get in between: a merge of every row that is there, an insert of every one that is not.
    let mut tx = Tx::read_write(&mut rows, &versions);
    for life in &lives {
        tx.get(&life.key, Hold::Loose).unwrap();
        match life.present {
            true => tx.merge(&life.key, KEEP_MAX, 1).unwrap(),
            false => tx.insert(&life.key, &DirStat::default()).unwrap(),
        }
    }
    store.commit(&tx.into_changes()).await.unwrap();
    for (life, changes) in lives.iter().zip(folded) {
        let only_merges = life.steps.iter().all(|step| *step == Step::Merge);
        let expected = match life.present && only_merges {
            true => Ok(()),
            false => Err(StoreError::Conflict(vec![life.key.key.clone()])),
        };
        assert_eq!(store.commit(&changes).await, expected, "{life:?}");
    }
}
