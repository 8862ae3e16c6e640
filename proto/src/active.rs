//! Which namenode is obeyed: one at a time, the newest that claims to be active.

use crate::hdfs::NnhaStatusHeartbeatProto;
use crate::hdfs::nnha_status_heartbeat_proto::State;

/// The namenode that is obeyed, by its place in the list, and the highest txid with which one was accepted.
#[derive(Debug, Default)]
pub struct Active {
    held: Option<usize>,
    /// A claim of another namenode needs a higher one, also after this one gave up.
    txid: Option<u64>,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing changed.
    Same,
    /// It is obeyed from now on.
    Taken,
    /// It gave up: nobody is obeyed.
    GivenUp,
    /// It claims to be active, with a txid that is not above this one.
    Refused(u64),
}

impl Active {
    /// The namenode that is obeyed.
    pub fn held(&self) -> Option<usize> {
        self.held
    }

    /// A namenode answered `versionRequest`: one that claims to be active is obeyed if nobody else is.
    pub fn at_start(&mut self, who: usize, claims: bool) -> Verdict {
        if claims && self.held.is_none() {
            self.held = Some(who);
            return Verdict::Taken;
        }
        Verdict::Same
    }

    /// A namenode answered a heartbeat.
    pub fn at_heartbeat(&mut self, who: usize, status: &NnhaStatusHeartbeatProto) -> Verdict {
        let claims = status.state() == State::Active;
        match (claims, self.held == Some(who)) {
            (true, true) => {
                self.txid = Some(status.txid);
                Verdict::Same
            }
            (true, false) => match self.txid {
                Some(seen) if status.txid <= seen => Verdict::Refused(seen),
                _ => {
                    (self.held, self.txid) = (Some(who), Some(status.txid));
                    Verdict::Taken
                }
            },
            (false, true) => {
                self.held = None;
                Verdict::GivenUp
            }
            (false, false) => Verdict::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, txid: u64) -> NnhaStatusHeartbeatProto {
        NnhaStatusHeartbeatProto { state: state.into(), txid }
    }

    #[test]
    fn the_first_that_claims_is_taken_whatever_its_txid() {
        let mut active = Active::default();
        assert_eq!(active.at_start(1, false), Verdict::Same);
        assert_eq!(active.at_start(1, true), Verdict::Taken);
        assert_eq!(active.at_start(0, true), Verdict::Same);
        assert_eq!(active.held(), Some(1));
        // No txid was seen yet: a first claim in a heartbeat wins.
        assert_eq!(active.at_heartbeat(0, &status(State::Active, 0)), Verdict::Taken);
    }

    #[test]
    fn another_needs_a_higher_txid_for_ever() {
        let mut active = Active::default();
        assert_eq!(active.at_heartbeat(0, &status(State::Active, 5)), Verdict::Taken);
        assert_eq!(active.at_heartbeat(1, &status(State::Active, 5)), Verdict::Refused(5));
        assert_eq!(active.at_heartbeat(0, &status(State::Standby, 5)), Verdict::GivenUp);
        assert_eq!(active.held(), None);
        assert_eq!(active.at_heartbeat(1, &status(State::Active, 4)), Verdict::Refused(5));
        assert_eq!(active.at_heartbeat(1, &status(State::Active, 6)), Verdict::Taken);
        assert_eq!(active.at_heartbeat(0, &status(State::Active, 6)), Verdict::Refused(6));
        assert_eq!(active.at_heartbeat(0, &status(State::Observer, 9)), Verdict::Same);
        assert_eq!(active.held(), Some(1));
    }

    #[test]
    fn the_held_ones_own_txid_is_taken_as_it_comes() {
        let mut active = Active::default();
        active.at_heartbeat(0, &status(State::Active, 9));
        assert_eq!(active.at_heartbeat(0, &status(State::Active, 3)), Verdict::Same);
        assert_eq!(active.at_heartbeat(1, &status(State::Active, 4)), Verdict::Taken);
    }
}
