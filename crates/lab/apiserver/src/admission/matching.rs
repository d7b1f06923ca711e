//! Matching of webhooks to requests: rules, selectors, and equivalent versions.

use std::sync::Arc;

use machinery::gvk::GroupVersionKind;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::Value;

use super::attributes::{Attributes, Operation};
use crate::builtin::value::Read;
use crate::resource::Resource;
use crate::subresources;

/// Operations on resources that a webhook matches.
#[derive(Debug, Clone, Default)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Names of objects; empty matches all.
    names: Vec<String>,
}

/// The requests that a webhook or policy matches.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether no rules match all requests rather than none.
    all_without_rules: bool,
    /// Whether `matchPolicy` is `Exact`, rather than `Equivalent`.
    exact: bool,
    /// Namespace selector.
    namespaces: LabelSelector,
    /// Object selector.
    objects: LabelSelector,
}

impl Selection {
    /// The selection of a webhook.
    pub(super) fn of_hook(hook: &Value) -> Result<Self, String> {
        Self::read(hook, "rules")
    }

    /// The selection of a policy.
    pub(super) fn of_policy(constraints: &Value) -> Result<Self, String> {
        Self::read(constraints, "resourceRules")
    }

    /// The narrowing of a policy by a binding.
    pub(super) fn of_binding(resources: &Value) -> Result<Self, String> {
        Ok(Self {
            all_without_rules: true,
            ..Self::read(resources, "resourceRules")?
        })
    }

    fn read(owner: &Value, rules: &str) -> Result<Self, String> {
        let selector = |field: &str| match owner.at(field) {
            Value::Null => Ok(LabelSelector::everything()),
            selector => LabelSelector::from_label_selector_object(selector),
        };
        let read = |field: &str| owner.items(field).iter().map(Rule::read).collect();
        Ok(Self {
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            all_without_rules: false,
            exact: owner.text("matchPolicy") == "Exact",
            namespaces: selector("namespaceSelector")?,
            objects: selector("objectSelector")?,
        })
    }
}

/// Inputs of rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleInputs<'a> {
    pub(super) operation: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
    pub(super) subresource: &'a str,
    /// Whether the object is namespaced; a namespace itself is not.
    pub(super) namespaced: bool,
}

impl Rule {
    pub(super) fn read(rule: &Value) -> Self {
        let texts = |field: &str| rule.texts(field).into_iter().map(str::to_owned).collect();
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: rule.text("scope").to_owned(),
            names: texts("resourceNames"),
        }
    }

    /// Whether it matches objects of a name.
    fn names(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|known| known == name)
    }

    pub(super) fn matches(&self, inputs: &RuleInputs<'_>) -> bool {
        let has =
            |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let in_scope = match self.scope.as_str() {
            "Namespaced" => inputs.namespaced,
            "Cluster" => !inputs.namespaced,
            _ => true,
        };
        in_scope
            && has(&self.operations, inputs.operation)
            && has(&self.groups, inputs.group)
            && has(&self.versions, inputs.version)
            && self.resources.iter().any(|resource| {
                let (main, sub) = resource.split_once('/').unwrap_or((resource, ""));
                (main == "*" || main == inputs.plural) && (sub == "*" || sub == inputs.subresource)
            })
    }
}

/// How a webhook is called for a request.
#[derive(Clone)]
pub(super) struct Invocation {
    /// Group of the resource in the matching rule.
    pub(super) group: String,
    /// Its version.
    pub(super) version: String,
    /// Its plural.
    pub(super) plural: String,
    /// The kind sent to the webhook.
    pub(super) kind: GroupVersionKind,
    /// The resource to convert to, when it is not the requested one.
    pub(super) converted: Option<Arc<Resource>>,
}

/// Whether a selection matches a request, and in which version.
pub(super) fn find(
    selection: &Selection,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<Option<Invocation>, Status> {
    // A missing namespace is only an error for webhooks that would have been called.
    let in_namespace = namespace_matches(&selection.namespaces, attributes, object);
    if matches!(in_namespace, Ok(false)) || !object_matches(&selection.objects, object, old) {
        return Ok(None);
    }
    let exact = selection.exact;
    // Exclusions win over rules, and match equivalent versions as well; otherwise a request through
    // another version would get past them.
    if by_rules(&selection.excluded, exact, attributes).is_some() {
        return Ok(None);
    }
    let invocation = if selection.rules.is_empty() && selection.all_without_rules {
        Some(as_requested(attributes))
    } else {
        by_rules(&selection.rules, exact, attributes)
    };
    match invocation {
        None => Ok(None),
        found => in_namespace.map(|_| found),
    }
}

fn rule_inputs<'a>(attributes: &'a Attributes<'_>) -> RuleInputs<'a> {
    let target = &attributes.target;
    RuleInputs {
        operation: attributes.operation.as_str(),
        group: target.group,
        version: target.version,
        plural: target.plural,
        subresource: target.subresource,
        namespaced: !attributes.namespace().is_empty() && !attributes.is_namespace(),
    }
}

/// The invocation in the requested version.
fn as_requested(attributes: &Attributes<'_>) -> Invocation {
    let target = &attributes.target;
    Invocation {
        group: target.group.to_owned(),
        version: target.version.to_owned(),
        plural: target.plural.to_owned(),
        kind: target.kind.clone(),
        converted: None,
    }
}

fn by_rules(rules: &[Rule], exact: bool, attributes: &Attributes<'_>) -> Option<Invocation> {
    if rules.is_empty() {
        return None;
    }
    let inputs = rule_inputs(attributes);
    if rules
        .iter()
        .any(|rule| rule.matches(&inputs) && rule.names(attributes.name))
    {
        return Some(as_requested(attributes));
    }
    if exact {
        return None;
    }
    equivalent(rules, attributes)
}

/// `matchPolicy: Equivalent`: the same objects are served in other versions, and a rule for one of
/// these matches them all.
fn equivalent(rules: &[Rule], attributes: &Attributes<'_>) -> Option<Invocation> {
    let own = attributes.target.resource?;
    let snapshot = attributes.context.state.registry.snapshot();
    let others: Vec<&Arc<Resource>> = snapshot
        .groups()
        .values()
        .flat_map(|group| &group.versions)
        .flat_map(|version| &version.resources)
        .filter(|other| other.prefix == own.prefix && other.info.gvk != own.info.gvk)
        .collect();
    let inputs = rule_inputs(attributes);
    let subresource = inputs.subresource;
    for rule in rules.iter().filter(|rule| rule.names(attributes.name)) {
        for other in &others {
            let info = &other.info;
            let same = RuleInputs {
                group: &info.gvk.group,
                version: &info.gvk.version,
                plural: &info.plural,
                ..inputs
            };
            let has_part = subresource.is_empty()
                || subresources::of(other)
                    .iter()
                    .any(|s| s.name == subresource);
            if has_part && rule.matches(&same) {
                let whole = attributes.target.whole;
                return Some(Invocation {
                    group: info.gvk.group.clone(),
                    version: info.gvk.version.clone(),
                    plural: info.plural.clone(),
                    kind: if whole {
                        info.gvk.clone()
                    } else {
                        attributes.target.kind.clone()
                    },
                    converted: whole.then(|| Arc::clone(other)),
                });
            }
        }
    }
    None
}

/// Matches the labels of the request's namespace, or of the namespace that is written.
fn namespace_matches(
    selector: &LabelSelector,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<bool, Status> {
    let name = attributes.namespace();
    if (name.is_empty() && !attributes.is_namespace()) || selector.is_empty() {
        return Ok(true);
    }
    let written = attributes.is_namespace()
        && attributes.target.subresource.is_empty()
        && attributes.operation != Operation::Delete;
    // The labels that the request sets, not the stored ones: removing a label in the same request
    // must not be judged by it.
    if written {
        return Ok(selector.matches_object(object));
    }
    let entry = attributes
        .context
        .state
        .store
        .get(&format!("/registry/namespaces/{name}"));
    let namespace = entry.and_then(|entry| entry.object().ok()).ok_or_else(|| {
        Status::not_found(&machinery::gvk::GroupResource::new("", "namespaces"), name)
    })?;
    Ok(selector.matches_object(&namespace))
}

/// Matches if the old or the new object has the labels.
pub(super) fn object_matches(
    selector: &LabelSelector,
    object: &Value,
    old: Option<&Value>,
) -> bool {
    selector.is_empty()
        || (!object.is_null() && selector.matches_object(object))
        || old.is_some_and(|old| selector.matches_object(old))
}
