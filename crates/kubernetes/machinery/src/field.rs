//! Paths into objects and the errors found there, printed as kube-apiserver prints them
//! (`apimachinery/pkg/util/validation/field`).

use std::fmt;

use serde_json::Value;

use crate::json::{go_float, go_quote};
use crate::status::Cause;

/// Where in an object something is: `spec.containers[0].image`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Path(String);

impl Path {
    /// A path that starts at `name`.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The empty path: the whole object.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether this is the whole object.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// A field below this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// A list item below this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// A map entry below this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The text of the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    /// Go prints the path of nothing as `<nil>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kind of a field error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A referenced value does not exist.
    NotFound,
    /// A required value is absent.
    Required,
    /// A value that has to be unique is not.
    Duplicate,
    /// A malformed or unacceptable value.
    Invalid,
    /// A value outside the accepted set.
    NotSupported,
    /// A value that is fine in form but not permitted here.
    Forbidden,
    /// A string or list longer than allowed.
    TooLong,
    /// More items than allowed.
    TooMany,
    /// A value of the wrong type.
    TypeInvalid,
    /// The check itself failed.
    Internal,
}

impl ErrorKind {
    /// The words at the start of the message.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// The `reason` of the cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// One error at one field path.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// Where.
    pub field: Path,
    /// The offending value; `None` leaves it out of the message.
    pub value: Option<Value>,
    /// What would be right, or why this is not.
    pub detail: String,
}

impl FieldError {
    /// A value that is malformed or unacceptable.
    pub fn invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::with_value(ErrorKind::Invalid, field, value, detail)
    }

    /// A value that has to be given; `detail` may be empty.
    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Self::without_value(ErrorKind::Required, field, detail)
    }

    /// A value that is not permitted here.
    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Self::without_value(ErrorKind::Forbidden, field, detail)
    }

    /// A value that has to be unique and is not.
    pub fn duplicate(field: &Path, value: impl Into<Value>) -> Self {
        Self::with_value(ErrorKind::Duplicate, field, value, "")
    }

    /// A reference to something that does not exist.
    pub fn not_found(field: &Path, value: impl Into<Value>) -> Self {
        Self::with_value(ErrorKind::NotFound, field, value, "")
    }

    /// A value outside the accepted set; `accepted` is printed quoted in the given order.
    pub fn not_supported<S: AsRef<str>>(
        field: &Path,
        value: impl Into<Value>,
        accepted: impl IntoIterator<Item = S>,
    ) -> Self {
        let accepted: Vec<String> = accepted.into_iter().map(|s| go_quote(s.as_ref())).collect();
        let detail = if accepted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", accepted.join(", "))
        };
        Self::with_value(ErrorKind::NotSupported, field, value, detail)
    }

    /// A string of more than `max` bytes.
    pub fn too_long(field: &Path, max: usize) -> Self {
        let detail = format!("may not be more than {max} bytes");
        Self::without_value(ErrorKind::TooLong, field, detail)
    }

    /// A list of `actual` items where `max` are allowed.
    pub fn too_many(field: &Path, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with_value(
            ErrorKind::TooMany,
            field,
            actual,
            format!("must have at most {max} {unit}"),
        )
    }

    /// A check that could not be made.
    pub fn internal(field: &Path, detail: impl Into<String>) -> Self {
        Self::without_value(ErrorKind::Internal, field, detail)
    }

    /// An error that shows its value.
    pub fn with_value(
        kind: ErrorKind,
        field: &Path,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.clone(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }

    /// An error that does not.
    pub fn without_value(kind: ErrorKind, field: &Path, detail: impl Into<String>) -> Self {
        Self {
            kind,
            field: field.clone(),
            value: None,
            detail: detail.into(),
        }
    }

    /// The message without the path, as a cause carries it.
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        let shows_value = !matches!(
            self.kind,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal
        );
        if let (true, Some(value)) = (shows_value, &self.value) {
            text.push_str(": ");
            match value {
                Value::String(s) => text.push_str(&go_quote(s)),
                // `Error.ErrorBody` prints floats with `%v`, in the exponent form of Go
                // (`apimachinery/pkg/util/validation/field/errors.go`).
                Value::Number(number) if !number.is_i64() => {
                    text.push_str(&go_float(number.as_f64().unwrap_or_default(), 6));
                }
                other => text.push_str(&crate::json::to_string(other)),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// This error as a cause of an `Invalid` status.
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.kind.reason().to_owned(),
            message: self.body(),
            field: self.field.to_string(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Errors as checks collect them (`field.ErrorList`).
pub trait ErrorList {
    /// Adds a [`FieldError::invalid`].
    fn invalid(&mut self, field: &Path, value: impl Into<Value>, detail: impl Into<String>);
    /// Adds a [`FieldError::required`].
    fn required(&mut self, field: &Path, detail: impl Into<String>);
    /// Adds a [`FieldError::forbidden`].
    fn forbidden(&mut self, field: &Path, detail: impl Into<String>);
    /// Adds a [`FieldError::not_supported`].
    fn not_supported<const N: usize>(
        &mut self,
        field: &Path,
        value: impl Into<Value>,
        accepted: [&str; N],
    );
}

impl ErrorList for Vec<FieldError> {
    fn invalid(&mut self, field: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(field, value, detail));
    }

    fn required(&mut self, field: &Path, detail: impl Into<String>) {
        self.push(FieldError::required(field, detail));
    }

    fn forbidden(&mut self, field: &Path, detail: impl Into<String>) {
        self.push(FieldError::forbidden(field, detail));
    }

    fn not_supported<const N: usize>(
        &mut self,
        field: &Path,
        value: impl Into<Value>,
        accepted: [&str; N],
    ) {
        self.push(FieldError::not_supported(field, value, accepted));
    }
}

/// All errors in one line: the only one bare, several in brackets, repeated messages once
/// (`utilerrors.Aggregate`).
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut messages: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.to_string();
        // `Aggregate` drops repeated messages, while the causes of the status keep them.
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
