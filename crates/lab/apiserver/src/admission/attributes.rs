//! The attributes of a request that admission uses besides the objects.

use std::sync::Arc;

use machinery::gvk::{GroupResource, GroupVersionKind};
use machinery::status::Status;
use serde_json::{Map, Value, json};

use super::hooks::Hooks;
use crate::request::{DeleteOptions, Propagation};
use crate::resource::Resource;
use crate::rest::Context;

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// POST, and writes that create a missing object.
    Create,
    /// PUT and PATCH.
    Update,
    /// DELETE, of one object or of each of a collection.
    Delete,
}

impl Operation {
    /// Its name in rules and reviews.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The option object of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Options<'a> {
    /// `CreateOptions` or `UpdateOptions`; patches appear as one of these.
    Write(&'static str),
    /// `DeleteOptions`, with the effective grace period of the kind.
    Delete(&'a DeleteOptions, Option<i64>),
}

/// The target of a request.
#[derive(Clone)]
pub(crate) struct Target<'a> {
    /// API group.
    pub(crate) group: &'a str,
    /// Version.
    pub(crate) version: &'a str,
    /// Plural.
    pub(crate) plural: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Kind of the sent object.
    pub(crate) kind: GroupVersionKind,
    /// The resource; reviews, which are not stored, have none.
    pub(crate) resource: Option<&'a Resource>,
    /// Whether the objects are those of the resource, not of a kind of its own such as a scale.
    pub(crate) whole: bool,
}

impl<'a> Target<'a> {
    /// An object of a resource, or a subresource with the object's kind.
    pub(crate) fn object(resource: &'a Resource, subresource: &'a str) -> Self {
        Self {
            group: &resource.info.gvk.group,
            version: &resource.info.gvk.version,
            plural: &resource.info.plural,
            subresource,
            kind: resource.info.gvk.clone(),
            resource: Some(resource),
            whole: true,
        }
    }

    /// A subresource with a kind of its own, such as a scale or a binding.
    pub(crate) fn below(
        resource: &'a Resource,
        subresource: &'a str,
        kind: GroupVersionKind,
    ) -> Self {
        Self {
            kind,
            whole: false,
            ..Self::object(resource, subresource)
        }
    }

    /// Group and plural, as errors name it.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group, self.plural)
    }

    /// Whether this is the main resource of a built-in kind, which plugins apply to.
    pub(crate) fn is_plain(&self) -> bool {
        self.subresource.is_empty() && self.whole
    }

    /// Whether the objects configure admission; those are exempt, because otherwise a broken
    /// webhook could not be removed.
    fn configures_admission(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
            && matches!(
                self.kind.kind.as_str(),
                "MutatingWebhookConfiguration"
                    | "ValidatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            )
    }
}

/// A request as admission sees it.
#[derive(Clone)]
pub(crate) struct Attributes<'a> {
    /// The request.
    pub(crate) context: &'a Context,
    /// Its target.
    pub(crate) target: Target<'a>,
    /// Its operation.
    pub(crate) operation: Operation,
    /// Its namespace; for namespaces their own name.
    pub(crate) namespace: &'a str,
    /// Its object; empty when the name is still to be generated, and for collections.
    pub(crate) name: &'a str,
    /// Its options.
    pub(crate) options: Options<'a>,
    /// Whether it is a dry run.
    pub(crate) dry_run: bool,
}

impl Attributes<'_> {
    /// The webhooks to consider; `None` for requests of the server itself and for the configuration
    /// of admission.
    pub(crate) fn hooks(&self) -> Result<Option<Arc<Hooks>>, Status> {
        // Upstream's loopback client does pass webhooks. Here they are exempt, because a webhook of
        // an earlier run, which may not be up yet, must not keep the server from starting.
        if self.context.internal || self.target.configures_admission() {
            return Ok(None);
        }
        self.context
            .state
            .hooks
            .current(&self.context.state)
            .map(Some)
    }

    /// The namespace of the request; for a namespace its own name.
    pub(crate) fn namespace(&self) -> &str {
        if self.namespace.is_empty() && self.is_namespace() {
            self.name
        } else {
            self.namespace
        }
    }

    /// Whether the target is a namespace.
    pub(crate) fn is_namespace(&self) -> bool {
        self.target.group.is_empty() && self.target.plural == "namespaces"
    }

    /// A rejection by a plugin, which names the object as far as its name is known.
    pub(crate) fn forbidden(&self, object: &Value, why: &str) -> Status {
        let name = if self.name.is_empty() {
            Resource::display_name(object).into_owned()
        } else {
            self.name.to_owned()
        };
        let name = if name.is_empty() { "Unknown" } else { &name };
        Status::forbidden(Some(&self.target.group_resource()), name, why)
    }

    /// The option object.
    pub(crate) fn shown_options(&self) -> Value {
        let (kind, mut fields) = match self.options {
            Options::Write(kind) => (kind, self.write_options()),
            Options::Delete(options, grace) => ("DeleteOptions", delete_options(options, grace)),
        };
        fields.insert("kind".into(), kind.into());
        fields.insert("apiVersion".into(), "meta.k8s.io/v1".into());
        Value::Object(fields)
    }

    fn write_options(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let query = &self.context.query;
        if self.dry_run {
            fields.insert("dryRun".into(), json!(["All"]));
        }
        for name in ["fieldManager", "fieldValidation"] {
            if !query.text(name).is_empty() {
                fields.insert(name.into(), query.text(name).into());
            }
        }
        fields
    }
}

fn delete_options(options: &DeleteOptions, grace: Option<i64>) -> Map<String, Value> {
    let mut fields = Map::new();
    if options.dry_run {
        fields.insert("dryRun".into(), json!(["All"]));
    }
    if let Some(seconds) = grace.or(options.grace_period_seconds) {
        fields.insert("gracePeriodSeconds".into(), seconds.into());
    }
    if let Some(policy) = options.propagation {
        let policy = match policy {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        };
        fields.insert("propagationPolicy".into(), policy.into());
    }
    if let Some(orphan) = options.orphan_dependents {
        fields.insert("orphanDependents".into(), orphan.into());
    }
    let wanted = &options.preconditions;
    let mut preconditions = Map::new();
    if let Some(uid) = &wanted.uid {
        preconditions.insert("uid".into(), uid.as_str().into());
    }
    if let Some(version) = &wanted.resource_version {
        preconditions.insert("resourceVersion".into(), version.as_str().into());
    }
    if !preconditions.is_empty() {
        fields.insert("preconditions".into(), preconditions.into());
    }
    fields
}
