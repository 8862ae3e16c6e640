//! What a command leaves behind: a file that can be read back, tables to read, a page to look at.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::Result;
use crate::model::report::Model;
use crate::report::Report;
use crate::scale::report::Scale;
use crate::{model, page, saved, scale, show};

/// Of whichever command.
#[derive(Debug, Clone, PartialEq)]
pub enum Findings {
    /// Of a run, or of a replay.
    Run(Box<Report>),
    /// Of runs on more and more namenodes.
    Scale(Box<Scale>),
    /// Of the capacity model.
    Model(Box<Model>),
}

/// What each kind has that the others do not.
#[derive(Deserialize)]
struct Probe {
    points: Option<IgnoredAny>,
    clusters: Option<IgnoredAny>,
}

impl Findings {
    /// Reads a file of any kind.
    pub fn read(path: &Path) -> Result<Findings> {
        match saved::peek(path, "report")? {
            Probe { points: Some(_), .. } => Ok(Scale::read(path)?.into()),
            Probe { clusters: Some(_), .. } => Ok(Model::read(path)?.into()),
            Probe { .. } => Ok(Report::read(path)?.into()),
        }
    }

    /// Writes it whole, or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        match self {
            Findings::Run(report) => report.write(path),
            Findings::Scale(scale) => scale.write(path),
            Findings::Model(model) => model.write(path),
        }
    }

    /// As tables.
    pub fn show(&self) -> String {
        match self {
            Findings::Run(report) => show::show(report),
            Findings::Scale(scale) => scale::show::show(scale),
            Findings::Model(model) => model::show::show(model),
        }
    }

    /// As a page.
    pub fn page(&self) -> String {
        match self {
            Findings::Run(report) => page::run::page(report),
            Findings::Scale(scale) => page::scale::page(scale),
            Findings::Model(model) => page::model::page(model),
        }
    }
}

impl From<Report> for Findings {
    fn from(report: Report) -> Findings {
        Findings::Run(Box::new(report))
    }
}

impl From<Scale> for Findings {
    fn from(scale: Scale) -> Findings {
        Findings::Scale(Box::new(scale))
    }
}

impl From<Model> for Findings {
    fn from(model: Model) -> Findings {
        Findings::Model(Box::new(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::tests::model;
    use crate::report::tests::sample;
    use crate::scale::report::tests::point;
    use crate::scale::tests::config;

    #[test]
    fn a_file_tells_what_it_is() {
        let path = std::env::temp_dir().join(format!("trellis-findings-{}.json", std::process::id()));
        let scale = Scale::of(config(), vec![point(0, 1, 100.0)]);
        for findings in [Findings::from(sample()), scale.into(), model().into()] {
            findings.write(&path).expect("written");
            let back = Findings::read(&path).expect("ours");
            // Figures may come back in another last digit.
            assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&findings));
            assert_eq!(back.show(), findings.show());
        }
        std::fs::write(&path, "{\"schema\": 1}").expect("written");
        let error = Findings::read(&path).expect_err("nothing").to_string();
        std::fs::remove_file(&path).expect("it is there");
        assert!(error.contains("is no report: missing field"), "{error}");
    }
}
