//! Which operators report their images: only of these is it known when they have arrived at the same
//! version with other images.

#[cfg(test)]
mod tests;

use std::fmt;

use api::openshift::ClusterOperator;
use serde::Serialize;

/// The version under which an operator reports its own image.
pub const OPERATOR_IMAGE: &str = "operator-image";

/// How the names of versions end that are images.
pub const IMAGE_SUFFIX: &str = "-image";

/// Who reports images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Adoption {
    /// Operators that report at least their own.
    pub reporting: Vec<String>,
    /// Operators that do not.
    pub silent: Vec<String>,
}

impl Adoption {
    /// Of operators: of their manifests in a release, which say who has to report, or of what they say
    /// in a cluster.
    pub fn of<'a>(operators: impl IntoIterator<Item = (&'a str, &'a ClusterOperator)>) -> Self {
        let mut adoption = Self::default();
        for (name, operator) in operators {
            let list = if operator.version(OPERATOR_IMAGE).is_some() {
                &mut adoption.reporting
            } else {
                &mut adoption.silent
            };
            list.push(name.to_owned());
        }
        adoption.reporting.sort();
        adoption.silent.sort();
        adoption
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.reporting.len() + self.silent.len()
    }
}

impl fmt::Display for Adoption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (some, all) = (self.reporting.len(), self.total());
        if some == all {
            return write!(f, "all {all} operators report images");
        }
        write!(
            f,
            "{some} of {all} operators report images; completion is only exact for these"
        )
    }
}
