//! Many threads that write, take over, read and delete the same few blocks.

use std::sync::atomic::{AtomicU64, Ordering};

use trellis_datanode::store::{Block, BlockStore, Event, ReplicaReader, ReplicaState, Target};
use trellis_proto::checksum::Checksum;

use super::{Fixture, bytes, read, report};

const THREADS: u64 = 6;
const STEPS: u64 = 400;
const BLOCKS: u64 = 3;

/// A number without a pattern (splitmix64).
fn draw(thread: u64, step: u64) -> u64 {
    let mut mixed = (thread << 32 | step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) >> 1
}

/// What can be read of a replica has the right sums, whoever changes it meanwhile. A cut under the reader is seen as
/// a wrong or short chunk of a replica that is no longer what was opened.
fn verify(store: &dyn BlockStore, mut reader: Box<dyn ReplicaReader>) {
    let opened = reader.replica().clone();
    let mut data = vec![0; opened.len as usize];
    let mut sums = vec![0; reader.checksum().sums_len(data.len())];
    let whole = reader.read(0, &mut data).is_ok() && reader.read_sums(0, &mut sums).is_ok();
    if !whole || reader.checksum().verify(&data, &sums).is_err() {
        // It takes its turn after whoever is cutting.
        drop(store.read(opened.block));
        let now = store.replica(opened.block.id);
        assert!(now.is_none_or(|now| now.block.stamp != opened.block.stamp), "{opened:?} is wrong");
    }
}

#[test]
fn nothing_is_lost_or_stuck_when_all_want_the_same_blocks() {
    let fixture = Fixture::new(2);
    let store = fixture.store();
    let stamps = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let stamps = &stamps;
            scope.spawn(move || {
                let mut writers = Vec::new();
                for step in 0..STEPS {
                    let number = draw(thread, step);
                    let id = number % BLOCKS;
                    let known = store.replica(id);
                    let (stamp, len) = known.as_ref().map_or((0, 0), |r| (r.block.stamp, r.len));
                    let block = Block { id, stamp };
                    let next = stamps.fetch_add(1, Ordering::Relaxed);
                    let opened = match number / BLOCKS % 9 {
                        0 => {
                            let new = Block { id, stamp: next };
                            store.create_rbw(new, &Target::default(), Checksum::DEFAULT).ok()
                        }
                        1 => {
                            let new = Block { id, stamp: next };
                            store.create_temporary(new, &Target::default(), Checksum::DEFAULT).ok()
                        }
                        2 => store.append(block, next, len).ok(),
                        3 => store.recover_rbw(block, next, 0, u64::MAX).ok(),
                        4 => store.recover_append(block, next, len).ok(),
                        5 => {
                            if let Ok(Some(info)) = store.init_recovery(block, next) {
                                // Another recovery may have come.
                                let _ = store.update_recovery(block, next, 0, info.len / 2);
                            }
                            None
                        }
                        6 => {
                            // It may have another stamp by now.
                            let _ = store.delete(&[block]);
                            None
                        }
                        _ => {
                            if let Ok(reader) = store.read(block) {
                                verify(store, reader);
                            }
                            None
                        }
                    };
                    writers.extend(opened);
                    let Some(mut writer) = writers.pop() else { continue };
                    // It may have been taken over.
                    let at = writer.len();
                    let wrote = writer.write(at, None, &bytes((number % 1500) as usize, number as u32));
                    if wrote.is_ok() && number.is_multiple_of(4) {
                        writer.acked().advance(writer.len());
                        let _ = writer.finish(); // the same
                    } else if number % 4 != 1 {
                        writers.push(writer);
                    }
                }
            });
        }
    });
    store.wait_for_deletions();
    let replicas = report(store);
    for (id, _, len, state) in &replicas {
        assert_eq!(read(store, *id).len() as u64, *len);
        assert!(matches!(state, ReplicaState::Finalized | ReplicaState::Rbw));
    }
    let used: u64 = store.storages().iter().map(|storage| storage.used).sum();
    let with_sums = |len: u64| if len == 0 { 0 } else { len + 7 + 4 * len.div_ceil(512) };
    assert_eq!(used, replicas.iter().map(|(_, _, len, _)| with_sums(*len)).sum::<u64>());
    let bad: Vec<Event> =
        fixture.take_events().into_iter().filter(|e| !matches!(e, Event::Deleted(_))).collect();
    assert_eq!(bad, []);
}
