//! CustomResourceDefinitions: defaults, and everything the server checks when one is written
//! (`apis/apiextensions/validation`).
//!
//! Upstream checks an internal form in which schema, subresources, columns and selectable fields that
//! all versions share are lifted to `spec`; errors name the paths of that form, so
//! `spec.validation.openAPIV3Schema` is where the schema of a single version is reported.

mod conversion;
mod names;
mod prepare;
mod versions;

use serde_json::{Value, json};

use super::check::{Checks, check_structural, unrecognized_formats, versions_text};
use super::names::{dns1035_label, dns1123_subdomain};
use super::node::Node;
use super::types::Schema;
use crate::field::{ErrorKind, ErrorList, FieldError, Path};
use crate::json::go_quote;

pub use prepare::{default_crd, prepare_create, prepare_update};

/// Everything wrong with a new CRD, after [`default_crd`] and [`prepare_create`].
///
/// The name is checked here; the rest of the metadata is for the checks that all kinds share.
pub fn validate_crd(crd: &Value, checks: &Checks<'_>) -> Vec<FieldError> {
    let Some(view) = View::of(crd) else {
        return vec![FieldError::required(&Path::new("spec"), "")];
    };
    let mut errors = names::object_name(crd, view.spec);
    errors.extend(spec(&view, checks));
    errors.extend(status(crd));
    errors.extend(approval(crd, None));
    errors.extend(preserve_unknown_fields(view.spec, None));
    errors
}

/// Everything wrong with a changed CRD, after [`default_crd`] and [`prepare_update`].
pub fn validate_crd_update(new: &Value, old: &Value, checks: &Checks<'_>) -> Vec<FieldError> {
    let (Some(view), Some(old_view)) = (View::of(new), View::of(old)) else {
        return vec![FieldError::required(&Path::new("spec"), "")];
    };
    let path = Path::new("spec");
    let mut errors = spec(&view, checks);
    let of_spec = |key| {
        let old = old_view.spec.text(key);
        (path.child(key), view.spec.text(key), old)
    };
    let of_names = |key| {
        let at = path.child("names").child(key);
        (at, view.name(key), old_view.name(key))
    };
    let mut immutable = Vec::new();
    // Before it is established, no object exists that a new scope or kind could orphan.
    if is_condition_true(old, "Established") {
        immutable.extend([of_spec("scope"), of_names("kind")]);
    }
    immutable.extend([of_spec("group"), of_names("plural")]);
    for (at, new, old) in immutable {
        if new != old {
            errors.invalid(&at, new, "field is immutable");
        }
    }
    errors.extend(status(new));
    errors.extend(approval(new, Some(old)));
    errors.extend(preserve_unknown_fields(view.spec, Some(old_view.spec)));
    errors
}

/// Everything wrong with a status written through the subresource. Stored versions may go here.
pub fn validate_crd_status_update(new: &Value) -> Vec<FieldError> {
    names::accepted(new)
}

/// Warnings about a CRD: formats that mean nothing, unless `old` had them already.
pub fn crd_warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let formats = |crd: &Value| -> Vec<String> {
        let Some(view) = View::of(crd) else {
            return Vec::new();
        };
        let schemas = view
            .shared("schema")
            .into_iter()
            .chain(view.own_all("schema"));
        schemas
            .filter_map(|validation| validation.get("openAPIV3Schema"))
            .flat_map(unrecognized_formats)
            .collect()
    };
    // Only new ones: a controller that applies its CRD at each start would
    // otherwise log the same warnings every time.
    let known = old.map(formats).unwrap_or_default();
    formats(crd)
        .into_iter()
        .filter(|format| !known.contains(format))
        .map(|format| format!("unrecognized format {}", go_quote(&format)))
        .collect()
}

/// Whether a condition of the CRD is true.
pub fn is_condition_true(crd: &Value, condition: &str) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| {
        c.get("type") == Some(&condition.into()) && c.get("status") == Some(&"True".into())
    })
}

/// A CRD's spec in the internal form.
struct View<'a> {
    spec: Node<'a>,
    versions: &'a [Value],
}

impl<'a> View<'a> {
    fn of(crd: &'a Value) -> Option<Self> {
        let spec = Node::of(crd.get("spec")?)?;
        Some(Self {
            spec,
            versions: spec.list("versions"),
        })
    }

    fn name(&self, key: &str) -> &'a str {
        self.spec.child("names").map_or("", |names| names.text(key))
    }

    /// The value of `key` in a version; an empty list is as good as none.
    fn value(version: &'a Value, key: &str) -> Option<&'a Value> {
        version
            .get(key)
            // Upstream's conversion compares with `Semantic.DeepEqual`, for which a nil and an empty list are equal.
            .filter(|v| !v.is_null() && v.as_array().is_none_or(|list| !list.is_empty()))
    }

    /// Whether all versions have the same value of `key`, so that it is lifted to the top level.
    fn is_shared(&self, key: &str) -> bool {
        let mut values = self.versions.iter().map(|v| Self::value(v, key));
        match values.next() {
            Some(first) => values.all(|value| value == first),
            None => true,
        }
    }

    /// What all versions share.
    fn shared(&self, key: &str) -> Option<&'a Value> {
        let first = self.versions.first().filter(|_| self.is_shared(key))?;
        Self::value(first, key)
    }

    /// The per-version value of `key`.
    fn own(&self, version: &'a Value, key: &str) -> Option<&'a Value> {
        Self::value(version, key).filter(|_| !self.is_shared(key))
    }

    fn own_all(&self, key: &str) -> Vec<&'a Value> {
        self.versions
            .iter()
            .filter_map(|version| self.own(version, key))
            .collect()
    }

    fn invalid_versions(&self, path: &Path, detail: &str) -> FieldError {
        let shown = match self.spec.get("versions") {
            Some(_) => versions_text(self.versions, &|key| !self.is_shared(key)),
            None => "null".to_owned(),
        };
        let detail = format!("{shown}: {detail}");
        FieldError::without_value(ErrorKind::Invalid, &path.child("versions"), detail)
    }
}

fn has_status(subresources: Option<&Value>) -> bool {
    subresources
        .and_then(|s| s.get("status"))
        .is_some_and(|s| !s.is_null())
}

fn one_of(path: &Path, value: &str, accepted: [&str; 2]) -> Option<FieldError> {
    match value {
        "" => Some(FieldError::required(path, "")),
        value if accepted.contains(&value) => None,
        value => Some(FieldError::not_supported(path, value, accepted)),
    }
}

fn spec(view: &View<'_>, checks: &Checks<'_>) -> Vec<FieldError> {
    let path = Path::new("spec");
    let spec = view.spec;
    let mut errors = Vec::new();
    let group = spec.text("group");
    let at_group = path.child("group");
    let wrong = dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(&at_group, "");
    } else if !wrong.is_empty() {
        errors.invalid(&at_group, group, wrong.join(","));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.invalid(&at_group, group, detail);
    }
    errors.extend(one_of(
        &path.child("scope"),
        spec.text("scope"),
        ["Cluster", "Namespaced"],
    ));
    errors.extend(versions::schemas_present(view, &path));
    let preserve = spec.flag("preserveUnknownFields");
    if preserve && versions::has_defaults(view) {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&path.child("preserveUnknownFields"), true, detail);
    }
    errors.extend(versions::each(view, &path, checks));
    errors.extend(names::required(view.spec, &path));
    errors.extend(names::check(spec.child("names"), &path.child("names")));
    let any_status = view
        .versions
        .iter()
        .any(|v| has_status(v.get("subresources")));
    if let Some(schema) = view.shared("schema").and_then(|s| s.get("openAPIV3Schema")) {
        errors.extend(check_structural(
            schema,
            any_status,
            &path.child("validation"),
            checks,
        ));
    }
    let subresources = view.shared("subresources");
    errors.extend(versions::subresources(
        subresources,
        &path.child("subresources"),
    ));
    let columns = view.shared("additionalPrinterColumns");
    errors.extend(versions::columns(
        columns,
        &path.child("additionalPrinterColumns"),
    ));
    if let Some(fields) = view.shared("selectableFields") {
        let at = path.child("selectableFields");
        if let Some(schema) = view.shared("schema") {
            errors.extend(versions::selectable(fields, schema, &at));
        } else {
            let detail = "may only be set when validations.schema is included";
            errors.invalid(&at, "", detail);
        }
    }
    errors.extend(conversion::check(spec, preserve, &path.child("conversion")));
    errors
}

fn status(crd: &Value) -> Vec<FieldError> {
    let mut errors = names::accepted(crd);
    let path = Path::new("status").child("storedVersions");
    let stored = crd
        .pointer("/status/storedVersions")
        .cloned()
        .unwrap_or_default();
    let names: Vec<&str> = stored
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if names.is_empty() {
        let detail = "must have at least one stored version";
        errors.invalid(&path, stored.clone(), detail);
        return errors;
    }
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let versions: Vec<Node<'_>> = versions
        .into_iter()
        .flatten()
        .filter_map(Node::of)
        .collect();
    for (i, version) in versions.iter().enumerate() {
        let name = version.text("name");
        // Each stored version refers to one version of the CRD: the first of that name.
        let again = versions[..i]
            .iter()
            .any(|earlier| earlier.text("name") == name);
        if version.flag("storage") && (again || !names.contains(&name)) {
            let detail = format!("must have the storage version {name}");
            errors.invalid(&path, stored.clone(), detail);
        }
    }
    for (i, name) in names.iter().enumerate() {
        if !versions.iter().any(|version| version.text("name") == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and \
                 removes {name} from status.storedVersions"
            );
            errors.invalid(&path.index(i), *name, detail);
        }
    }
    errors
}

const APPROVAL: &str = "api-approved.kubernetes.io";
const APPROVAL_HELP: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

fn approval_state(crd: &Value) -> Approval {
    let note = crd
        .get("metadata")
        .and_then(|m| m.get("annotations"))
        .and_then(|a| a.get(APPROVAL))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_url = note.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !scheme.is_empty()
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !host.is_empty()
            && !host.contains(' ')
    });
    if note.is_empty() {
        Approval::Missing
    } else if note.starts_with("unapproved") {
        Approval::Bypassed
    } else if is_url {
        Approval::Approved
    } else {
        Approval::Invalid
    }
}

/// Groups of the Kubernetes community need a note of approval.
fn approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    let group = crd
        .pointer("/spec/group")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let community = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|front| front.is_empty() || front.ends_with('.'))
    });
    let state = approval_state(crd);
    // An unchanged annotation is tolerated even if invalid: existing CRDs must stay updatable.
    if !community || old.is_some_and(|old| approval_state(old) == state) {
        return None;
    }
    let path = Path::new("metadata").child("annotations").key(APPROVAL);
    let needed = format!(
        "protected groups must have approval annotation {}",
        go_quote(APPROVAL)
    );
    match state {
        Approval::Approved | Approval::Bypassed => None,
        Approval::Missing => Some(FieldError::required(
            &path,
            format!("{needed}, {APPROVAL_HELP}"),
        )),
        Approval::Invalid => {
            let note = crd
                .pointer("/metadata/annotations")
                .and_then(|a| a.get(APPROVAL));
            let detail = format!(
                "{needed} with either a URL or a reason starting with \"unapproved\", {APPROVAL_HELP}"
            );
            Some(FieldError::invalid(
                &path,
                note.cloned().unwrap_or_default(),
                detail,
            ))
        }
    }
}

fn preserve_unknown_fields(spec: Node<'_>, old: Option<Node<'_>>) -> Option<FieldError> {
    let key = "preserveUnknownFields";
    // CRDs from v1beta1 may keep the field; new ones may not set it.
    if !spec.flag(key) || old.is_some_and(|old| old.flag(key)) {
        return None;
    }
    let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                  spec.versions[*].schema instead";
    Some(FieldError::invalid(
        &Path::new("spec").child(key),
        json!(true),
        detail,
    ))
}
