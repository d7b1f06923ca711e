//! What can be switched on and off.

use std::fmt;
use std::str::FromStr;

use chassis::{Error, Manager};

use crate::{Options, governance, images};

/// One thing Medley does. A new one is a variant, its name, and the line that starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Job {
    /// Plans, applies and watches the tuning of other people's operators.
    Governance,
    /// Imports golden images: the layer of CDI.
    ImagesCdi,
}

impl Job {
    /// All there are.
    pub const ALL: &[Self] = &[Self::Governance, Self::ImagesCdi];

    /// How it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Governance => "governance",
            Self::ImagesCdi => "images-cdi",
        }
    }

    /// Whether it is done unless somebody says what to do. What others do in most clusters is not.
    pub fn is_default(self) -> bool {
        match self {
            Self::Governance => true,
            Self::ImagesCdi => false,
        }
    }

    /// Starts its controllers.
    pub(crate) async fn start(self, manager: &Manager, options: &Options) -> Result<(), Error> {
        match self {
            Self::Governance => {
                governance::start(manager, governance::Options::new(options)?).await
            }
            Self::ImagesCdi => {
                images::cdi::start(manager, &options.imports).await;
                Ok(())
            }
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Job {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|job| job.name() == text).copied();
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|job| job.name()).collect();
            format!("no such controller; there are: {}", names.join(", "))
        })
    }
}
