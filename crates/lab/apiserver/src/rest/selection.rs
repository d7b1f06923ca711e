//! Label and field selectors of a list, watch or deletecollection.

use machinery::json::go_quote;
use machinery::meta;
use machinery::selector::{FieldSelector, LabelSelector};
use machinery::status::Status;
use serde_json::Value;

use crate::request::ListOptions;
use crate::resource::Resource;

/// The two selectors of a request.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    name: Option<String>,
}

impl Selection {
    /// Parses the selectors; unsupported fields are rejected.
    pub(crate) fn parse(options: &ListOptions, resource: &Resource) -> Result<Self, Status> {
        let labels = LabelSelector::parse(&options.label_selector).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(&options.field_selector).map_err(Status::bad_request)?;
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            if !resource.is_selectable(field) {
                let message = if resource.custom.is_some() {
                    format!("field label not supported: {field}")
                } else {
                    unsupported_builtin(resource, field)
                };
                return Err(Status::bad_request(message));
            }
        }
        Ok(Self {
            labels,
            fields,
            name: None,
        })
    }

    /// Restricts to one name, for a watch of a single object.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Whether everything matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.name.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object matches.
    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.name
            .as_deref()
            .is_none_or(|name| name == meta::name(object))
            && self.labels.matches_object(object)
            && self
                .fields
                .matches(|field| resource.field_of(object, field))
    }
}

/// The error of kinds with field labels of their own.
fn unsupported_builtin(resource: &Resource, field: &str) -> String {
    let gvk = &resource.info.gvk;
    let own = [
        "Pod",
        "Node",
        "ReplicationController",
        "Event",
        "Namespace",
        "Secret",
        "Service",
    ];
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("batch", "Job") => format!("field label {} not supported for Job", go_quote(field)),
        ("events.k8s.io" | "certificates.k8s.io", _) => {
            format!("field label not supported: {field}")
        }
        ("", kind) if own.contains(&kind) => format!("field label not supported: {field}"),
        _ => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            go_quote(field)
        ),
    }
}
