//! What files hold: no blocks, blocks of simulated datanodes, or real ones.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::datanodes::MAX_DATANODES;
use crate::distribution::Distribution;
use crate::error::{Error, Result};

/// The size of files with blocks when none is asked for, bytes: one block, as in published runs.
const USUAL_SIZE: u64 = 64 << 10;
/// How many simulated datanodes there are when nothing else is asked for: namenodes take full reports of so many at once.
const USUAL_DATANODES: u32 = 6;

/// Where the blocks of files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blocks {
    /// Files have none.
    #[default]
    None,
    /// On datanodes that the load generator plays itself, without bytes.
    Simulated,
    /// On real datanodes, with bytes.
    Real,
}

/// What files hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Where their blocks are.
    pub blocks: Blocks,
    /// How long files are, bytes; 0 without blocks.
    pub sizes: Distribution,
    /// How long blocks are, bytes; None: as the namenode suggests.
    pub block_size: Option<u64>,
    /// Replicas of each block; None: as the namenode suggests.
    pub replication: Option<u16>,
    /// How many simulated datanodes there are.
    pub datanodes: u32,
}

/// What is asked for; None: as usual.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// Where the blocks of files are.
    pub blocks: Option<Blocks>,
    /// How long files are, bytes.
    pub sizes: Option<Distribution>,
    /// How long blocks are, bytes.
    pub block_size: Option<u64>,
    /// Replicas of each block.
    pub replication: Option<u16>,
    /// How many simulated datanodes there are.
    pub datanodes: Option<u32>,
}

impl Default for Contents {
    fn default() -> Self {
        Contents {
            blocks: Blocks::None,
            sizes: Distribution::fixed(0),
            block_size: None,
            replication: None,
            datanodes: USUAL_DATANODES,
        }
    }
}

/// All of it, as if it had been asked for.
impl From<&Contents> for Asked {
    fn from(contents: &Contents) -> Asked {
        Asked {
            blocks: Some(contents.blocks),
            sizes: Some(contents.sizes.clone()),
            block_size: contents.block_size,
            replication: contents.replication,
            datanodes: Some(contents.datanodes).filter(|_| contents.blocks == Blocks::Simulated),
        }
    }
}

impl Asked {
    /// What is asked for, and for the rest what is usual.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn over(&self, usual: &Contents) -> Result<Contents> {
        let blocks = self.blocks.unwrap_or(usual.blocks);
        let sizes = match (&self.sizes, blocks) {
            (Some(sizes), _) => sizes.clone(),
            (None, Blocks::None) => Distribution::fixed(0),
            (None, _) if usual.sizes.is_zero() => Distribution::fixed(USUAL_SIZE),
            (None, _) => usual.sizes.clone(),
        };
        let contents = Contents {
            blocks,
            sizes,
            block_size: self.block_size.or(usual.block_size),
            replication: self.replication.or(usual.replication),
            datanodes: match blocks {
                Blocks::Simulated => self.datanodes.unwrap_or(usual.datanodes),
                _ => USUAL_DATANODES,
            },
        };
        contents.check()?;
        Ok(contents)
    }
}

impl Contents {
    /// Says what is wrong with it.
    pub fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::refused(what));
        if self.blocks == Blocks::None && !self.sizes.is_zero() {
            return refused("--sizes needs blocks: say --blocks simulated, or --blocks real".to_owned());
        }
        if self.block_size == Some(0) || self.replication == Some(0) {
            return refused("--block-size and --replication are above zero".to_owned());
        }
        if !(1..=MAX_DATANODES).contains(&self.datanodes) {
            return refused(format!("--datanodes is from 1 to {MAX_DATANODES}"));
        }
        let copies = u32::from(self.replication.unwrap_or(1));
        if self.blocks == Blocks::Simulated && copies > self.datanodes {
            return refused(format!("{copies} replicas need as many --datanodes"));
        }
        Ok(())
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Blocks::None => "none",
            Blocks::Simulated => "simulated",
            Blocks::Real => "real",
        })
    }
}

impl FromStr for Blocks {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Blocks::None),
            "simulated" => Ok(Blocks::Simulated),
            "real" => Ok(Blocks::Real),
            _ => Err("there are none, simulated, real"),
        }
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contents { blocks, sizes, block_size, replication, datanodes } = self;
        match blocks {
            Blocks::None => return f.write_str("no blocks"),
            Blocks::Simulated => write!(f, "blocks on {datanodes} simulated datanodes, sizes {sizes}")?,
            Blocks::Real => write!(f, "real blocks, sizes {sizes}")?,
        }
        if let Some(bytes) = block_size {
            write!(f, ", blocks of {bytes} bytes")?;
        }
        match replication {
            Some(copies) => write!(f, ", {copies} replicas"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_counts_and_the_rest_is_as_usual() {
        let none = Contents::default();
        assert_eq!(Asked::default().over(&none).expect("sound"), none);
        let simulated = Asked { blocks: Some(Blocks::Simulated), ..Asked::default() };
        let made = simulated.over(&none).expect("sound");
        assert_eq!((made.blocks, made.sizes.to_string().as_str()), (Blocks::Simulated, "64k"));
        // A run on that namespace needs no options, and may say otherwise.
        assert_eq!(Asked::default().over(&made).expect("sound"), made);
        assert_eq!(Asked::from(&made).over(&none).expect("sound"), made);
        assert_eq!(Asked::from(&none).over(&made).expect("sound"), none);
        let without = Asked { blocks: Some(Blocks::None), ..Asked::default() }.over(&made).expect("sound");
        assert!(without.sizes.is_zero());
        let small = Asked { sizes: "1-5".parse().ok(), datanodes: Some(3), ..Asked::default() };
        let small = small.over(&made).expect("sound");
        assert_eq!(
            (small.sizes.to_string().as_str(), small.datanodes, small.blocks),
            ("1-5", 3, made.blocks)
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let none = Contents::default();
        let blocks = Some(Blocks::Simulated);
        for wrong in [
            Asked { sizes: "1k".parse().ok(), ..Asked::default() },
            Asked { block_size: Some(0), ..Asked::default() },
            Asked { replication: Some(0), ..Asked::default() },
            Asked { blocks, datanodes: Some(0), ..Asked::default() },
            Asked { blocks, datanodes: Some(MAX_DATANODES + 1), ..Asked::default() },
            Asked { blocks, replication: Some(4), datanodes: Some(3), ..Asked::default() },
        ] {
            assert!(wrong.over(&none).is_err(), "{wrong:?}");
        }
    }
}
