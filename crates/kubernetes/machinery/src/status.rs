//! `metav1.Status`: every answer of the API that is not an object.
//!
//! The constructors follow `apimachinery/pkg/api/errors`; the message texts are compared by clients.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field::{FieldError, aggregate};
use crate::gvk::{GroupResource, GroupVersionKind};
use crate::json::go_quote;

/// The answer to a request that failed, or that succeeded without an object to return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Always `Status`.
    #[serde(default)]
    pub kind: String,
    /// Always `v1`.
    #[serde(default, rename = "apiVersion")]
    pub api_version: String,
    /// List metadata; only an expired continue token fills it.
    #[serde(default)]
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What happened, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// HTTP status code.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// Metadata of a `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatusMeta {
    /// A fresh continue token, offered when the given one has expired.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// Which object a status is about and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Details {
    /// Object name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural resource, or the kind for validation errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Object uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(default, rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u16,
}

/// One reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cause {
    /// For programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Where in the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

impl Status {
    /// A failure with neither details nor a list of causes.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: StatusMeta::default(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
        }
    }

    /// A success that has no object to show.
    pub fn success(details: Details) -> Self {
        Self {
            status: "Success".into(),
            details: Some(details),
            ..Self::failure(0, "", String::new())
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(details);
        self
    }

    /// Adds a cause, keeping the details there are.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.details.get_or_insert_default().causes.push(Cause {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        });
        self
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", go_quote(name));
        Self::failure(404, "NotFound", message).with_details(about(resource, name))
    }

    /// 404: there is no such resource in a group that is served.
    pub fn unknown_resource() -> Self {
        Self::failure(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(Details::default())
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", go_quote(name));
        Self::failure(409, "AlreadyExists", message).with_details(about(resource, name))
    }

    /// 409: every generated name was taken.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go_quote(name)
        );
        let details = Details {
            retry_after_seconds: 1,
            ..about(resource, name)
        };
        Self::failure(409, "AlreadyExists", message).with_details(details)
    }

    /// 409: the operation lost a race or a precondition.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {why}",
            go_quote(name)
        );
        Self::failure(409, "Conflict", message).with_details(about(resource, name))
    }

    /// 409: the object changed since it was read.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: the object does not pass validation.
    pub fn invalid(kind: &GroupVersionKind, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_as(&kind.group, &kind.kind, name, errors)
    }

    /// 422 for something that is named like a kind, such as an options object.
    pub fn invalid_as(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let what = crate::gvk::qualify(kind, group);
        let mut message = format!("{what} {} is invalid", go_quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(errors));
        }
        Self::failure(422, "Invalid", message).with_details(Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..Details::default()
        })
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 401: the request is not authenticated.
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// 403: `resource` is `None` for paths that are no resources; an empty name is left out.
    pub fn forbidden(resource: Option<&GroupResource>, name: &str, why: &str) -> Self {
        let (message, details) = match resource {
            None => (format!("forbidden: {why}"), Details::default()),
            Some(resource) if name.is_empty() => (
                format!("{resource} is forbidden: {why}"),
                about(resource, ""),
            ),
            Some(resource) => (
                format!("{resource} {} is forbidden: {why}", go_quote(name)),
                about(resource, name),
            ),
        };
        Self::failure(403, "Forbidden", message).with_details(details)
    }

    /// 405: the resource has no such verb.
    pub fn method_not_supported(resource: &GroupResource, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {}",
            go_quote(&resource.to_string())
        );
        Self::failure(405, "MethodNotAllowed", message).with_details(about(resource, ""))
    }

    /// 406: no representation the client accepts.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::failure(406, "NotAcceptable", message)
    }

    /// 410: the version asked for has been compacted away.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 413: the body is over the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// 415: the body is in a format that is not understood.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// 500 with a reason: something broke inside.
    pub fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let details = Details {
            causes: vec![Cause {
                message: why.into(),
                ..Cause::default()
            }],
            ..Details::default()
        };
        Self::failure(500, "InternalError", message).with_details(details)
    }

    /// 500 as the API gives it for plain Go errors: no reason, no details.
    pub fn plain_500(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    /// 504: the request took too long.
    pub fn timeout(message: &str, retry_after_seconds: u16) -> Self {
        Self::failure(504, "Timeout", format!("Timeout: {message}")).with_details(Details {
            retry_after_seconds,
            ..Details::default()
        })
    }
}

fn about(resource: &GroupResource, name: &str) -> Details {
    Details {
        name: name.into(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Details::default()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
