//! The initial nodes of a cluster.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use fleet::Fleet;

/// Value of `--fleet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FleetChoice {
    /// The built-in mixed fleet.
    Demo,
    /// No nodes.
    None,
    /// A file.
    File(PathBuf),
}

impl FromStr for FleetChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "demo" => Self::Demo,
            "none" => Self::None,
            path => Self::File(path.into()),
        })
    }
}

impl FleetChoice {
    /// Loads the fleet.
    pub(crate) fn load(&self) -> anyhow::Result<Option<Fleet>> {
        match self {
            Self::Demo => Fleet::demo().map(Some).context("reading the demo fleet"),
            Self::None => Ok(None),
            Self::File(path) => {
                let text = std::fs::read_to_string(path).with_context(|| {
                    format!(
                        "reading the fleet {}; --fleet takes a YAML file, demo or none",
                        path.display()
                    )
                })?;
                Fleet::parse(&text)
                    .map(Some)
                    .with_context(|| format!("reading the fleet {}", path.display()))
            }
        }
    }
}
