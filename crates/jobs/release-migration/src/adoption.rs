//! Which operators report their images. Only for these is completion known exactly when the version stays the same and
//! the images change.

#[cfg(test)]
mod tests;

use std::fmt;

use api::openshift::ClusterOperator;
use serde::Serialize;

/// The version name under which an operator reports its own image.
pub const OPERATOR_IMAGE: &str = "operator-image";

/// Suffix of version names that are images.
pub const IMAGE_SUFFIX: &str = "-image";

/// Operators by whether they report images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Adoption {
    /// Operators that report at least their own image.
    pub reporting: Vec<String>,
    /// Operators that do not.
    pub silent: Vec<String>,
}

impl Adoption {
    /// Computes it from ClusterOperators: from the manifests of a release, which declare the expected versions, or from
    /// the live objects.
    pub fn of<'a>(operators: impl IntoIterator<Item = (&'a str, &'a ClusterOperator)>) -> Self {
        let mut adoption = Self::default();
        for (name, operator) in operators {
            // Images of operands alone do not count: the operator that reports them may itself be the old one.
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

    /// The number of operators.
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
