//! A list of field errors, as validation collects them.

use std::ops::{AddAssign, Deref};

use machinery::field::{FieldError, Path};
use machinery::status::Status;
use serde_json::Value;

/// Errors found in an object, in the order they are reported (`field.ErrorList`).
///
/// A check returns its errors and the caller appends them with `+=`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The error if the condition holds.
    pub(crate) fn when(wrong: bool, error: impl FnOnce() -> FieldError) -> Self {
        wrong.then(error).into_iter().collect()
    }

    /// An `Invalid` status with these errors, if there are any.
    pub(crate) fn reject(&self, group: &str, kind: &str, name: &str) -> Result<(), Status> {
        if self.is_empty() {
            return Ok(());
        }
        Err(Status::invalid_as(group, kind, name, self))
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Appends [`FieldError::invalid`].
    pub(crate) fn invalid(
        &mut self,
        field: &Path,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.push(FieldError::invalid(field, value, detail));
    }

    /// Appends [`FieldError::required`].
    pub(crate) fn required(&mut self, field: &Path, detail: impl Into<String>) {
        self.push(FieldError::required(field, detail));
    }

    /// Appends [`FieldError::forbidden`].
    pub(crate) fn forbidden(&mut self, field: &Path, detail: impl Into<String>) {
        self.push(FieldError::forbidden(field, detail));
    }

    /// Appends [`FieldError::duplicate`].
    pub(crate) fn duplicate(&mut self, field: &Path, value: impl Into<Value>) {
        self.push(FieldError::duplicate(field, value));
    }

    /// Appends [`FieldError::not_found`].
    pub(crate) fn not_found(&mut self, field: &Path, value: impl Into<Value>) {
        self.push(FieldError::not_found(field, value));
    }

    /// Appends [`FieldError::not_supported`].
    pub(crate) fn not_supported<S: AsRef<str>>(
        &mut self,
        field: &Path,
        value: impl Into<Value>,
        accepted: impl IntoIterator<Item = S>,
    ) {
        self.push(FieldError::not_supported(field, value, accepted));
    }

    /// Appends [`FieldError::too_long`].
    pub(crate) fn too_long(&mut self, field: &Path, max: usize) {
        self.push(FieldError::too_long(field, max));
    }

    /// Appends [`FieldError::too_many`].
    pub(crate) fn too_many(&mut self, field: &Path, actual: usize, max: usize) {
        self.push(FieldError::too_many(field, actual, max));
    }
}

impl Deref for Errors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.0
    }
}

impl<I: IntoIterator<Item = FieldError>> AddAssign<I> for Errors {
    fn add_assign(&mut self, more: I) {
        self.0.extend(more);
    }
}

impl From<FieldError> for Errors {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl From<Vec<FieldError>> for Errors {
    fn from(errors: Vec<FieldError>) -> Self {
        Self(errors)
    }
}

impl FromIterator<FieldError> for Errors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        Self(errors.into_iter().collect())
    }
}

impl IntoIterator for Errors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
