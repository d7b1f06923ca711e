//! Field ownership: the bridge from requests to `machinery::apply`.

use machinery::apply::{self, FieldSet};
use machinery::status::Status;
use serde_json::Value;

use super::context::Context;
use crate::kind::Part;
use crate::resource::Resource;

/// The field manager and part of a write.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    /// Field manager.
    pub(crate) manager: String,
    /// `apiVersion` of the endpoint.
    pub(crate) api_version: String,
    /// Empty for the main resource.
    pub(crate) subresource: String,
    /// Fields that this part never owns.
    pub(crate) reset: FieldSet,
}

impl Ownership {
    /// Ownership for a write to a part.
    pub(crate) fn new(context: &Context, resource: &Resource, given: &str, part: Part<'_>) -> Self {
        let subresource = match part {
            Part::Main => "",
            Part::Status => "status",
            Part::Other(name) => name,
        };
        Self {
            manager: context.manager(given),
            api_version: resource.api_version(),
            subresource: subresource.to_owned(),
            reset: resource.strategy.reset_fields(part),
        }
    }

    fn request<'a>(&'a self, context: &Context, resource: &'a Resource) -> apply::Request<'a> {
        apply::Request {
            versions: resource,
            manager: &self.manager,
            api_version: &self.api_version,
            kind: &resource.info.gvk.kind,
            subresource: &self.subresource,
            reset: &self.reset,
            now: context.now,
        }
    }

    /// Records the fields of a create, PUT or patch.
    pub(crate) fn update(
        &self,
        context: &Context,
        resource: &Resource,
        live: Option<&Value>,
        new: &mut Value,
    ) {
        apply::update(&self.request(context, resource), live, new);
    }

    /// Merges an applied configuration into the live object.
    pub(crate) fn apply(
        &self,
        context: &Context,
        resource: &Resource,
        live: Option<&Value>,
        config: &Value,
        force: bool,
    ) -> Result<Value, Status> {
        apply::apply(&self.request(context, resource), live, config, force).map_err(Status::from)
    }
}

/// Records changes by the server itself.
pub(crate) fn record_update(
    context: &Context,
    resource: &Resource,
    part: Part<'_>,
    live: &Value,
    new: &mut Value,
) {
    Ownership::new(context, resource, "", part).update(context, resource, Some(live), new);
}
