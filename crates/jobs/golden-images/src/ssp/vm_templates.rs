//! VM templates: the bundled ones for every architecture of the cluster, each referring to the
//! DataSource of its architecture.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::Named;
use api::cdi::labels::ARCHITECTURE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Decision, SspContext};
use crate::action::{Action, Kind, label, name_of};
use crate::names;

/// The template parameters that name a DataSource, the newer one first.
const PARAMETERS: [&str; 2] = ["DATA_SOURCE_NAME", "SRC_PVC_NAME"];
/// Label and annotation of a template of an earlier version.
const DEPRECATED: &str = "template.kubevirt.io/deprecated";
/// Prefixes of the labels by which users find templates; deprecated ones lose them.
const SEARCH_LABELS: [&str; 3] = [
    "os.template.kubevirt.io/",
    "flavor.template.kubevirt.io/",
    "workload.template.kubevirt.io/",
];
/// The namespace of templates unless the SSP sets another.
const NAMESPACE: &str = "openshift";

/// The DataSources that templates refer to, with the architectures of those templates.
pub(super) fn data_sources(bundle: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for template in bundle {
        if !clones(template) {
            continue;
        }
        if let Some(name) = parameter(template).and_then(|index| text(template, index)) {
            let architectures = found.entry(name.to_owned()).or_default();
            architectures.insert(architecture(template).to_owned());
        }
    }
    found
}

/// Whether the VM of a template clones a DataSource.
fn clones(template: &Value) -> bool {
    let objects = template.get("objects").and_then(Value::as_array);
    objects.into_iter().flatten().any(|object| {
        let volumes = object.pointer("/spec/dataVolumeTemplates");
        let volumes = volumes.and_then(Value::as_array);
        volumes
            .into_iter()
            .flatten()
            .any(|volume| volume.pointer("/spec/sourceRef").is_some())
    })
}

/// The index of the parameter that names the DataSource.
fn parameter(template: &Value) -> Option<usize> {
    let all = template.get("parameters").and_then(Value::as_array)?;
    let find = |name: &&str| all.iter().position(|it| it["name"] == **name);
    PARAMETERS.iter().find_map(find)
}

fn text(template: &Value, index: usize) -> Option<&str> {
    let parameter = template.get("parameters")?.get(index)?;
    let name = parameter.get("value")?.as_str()?;
    (!name.is_empty()).then_some(name)
}

/// The architecture of a template; the oldest ones have no label and are for amd64.
fn architecture(template: &Value) -> &str {
    let known = template["metadata"]["labels"].get(ARCHITECTURE);
    known.and_then(Value::as_str).unwrap_or("amd64")
}

/// The architectures that templates are deployed for.
fn deployed(context: &SspContext<'_>) -> BTreeSet<String> {
    if context.cluster.multi_arch {
        let names = context.cluster.workload.iter();
        return names.map(|name| (*name).to_owned()).collect();
    }
    context.default().architecture.into_iter().collect()
}

/// Plans the writes of templates.
pub(super) fn apply(context: &SspContext<'_>, decision: &mut Decision) {
    let architectures = deployed(context);
    let mut wanted = BTreeMap::new();
    for template in context.facts.bundle {
        if architectures.contains(architecture(template)) {
            let object = object(context, template);
            wanted.insert(key(&object), object);
        }
    }
    let live: BTreeMap<Named, &Value> = context
        .facts
        .templates
        .iter()
        .map(|template| (key(template), template))
        .collect();
    for (of, object) in &wanted {
        match live.get(of) {
            None => decision.actions.push(Action::Create {
                kind: Kind::Template,
                object: object.clone(),
            }),
            Some(live) => {
                if let Some(patch) = difference(live, object) {
                    decision.actions.push(Action::Patch {
                        kind: Kind::Template,
                        of: of.clone(),
                        patch,
                        why: "it differs from the bundled version",
                    });
                }
            }
        }
    }
    for (of, template) in live {
        let Some(meta) = owned(context, template) else {
            continue;
        };
        if wanted.contains_key(&of) || meta.deletion_timestamp.is_some() {
            continue;
        }
        let name = architecture(template);
        if architectures.contains(name) {
            // Without templates of its own, Medley leaves those of the upstream operator as they are.
            if !context.facts.bundle.is_empty() {
                // Not deleted, as in upstream: VMs refer to the template that they were created from.
                deprecate(of, &meta, decision);
            }
            continue;
        }
        let left = context.cluster.multi_arch && !context.cluster.workload.contains(name);
        if left && context.grace(Kind::Template, &of, &meta, decision) {
            continue;
        }
        decision.actions.push(Action::Delete {
            kind: Kind::Template,
            of,
            why: "no node has its architecture",
        });
    }
}

/// Deletes all templates.
pub(super) fn delete_all(context: &SspContext<'_>, decision: &mut Decision) {
    for template in context.facts.templates {
        if owned(context, template).is_some_and(|meta| meta.deletion_timestamp.is_none()) {
            decision.actions.push(Action::Delete {
                kind: Kind::Template,
                of: key(template),
                why: "the SSP is being deleted",
            });
        }
    }
}

fn key(template: &Value) -> Named {
    let meta = serde_json::from_value::<ObjectMeta>(template["metadata"].clone());
    name_of(&meta.unwrap_or_default())
}

fn owned(context: &SspContext<'_>, template: &Value) -> Option<ObjectMeta> {
    let meta = serde_json::from_value::<ObjectMeta>(template["metadata"].clone()).ok()?;
    context.owns(&meta).then_some(meta)
}

/// A template as it should be in the cluster.
fn object(context: &SspContext<'_>, template: &Value) -> Value {
    let mut object = template.clone();
    let namespace = context.facts.ssp.spec.common_templates.namespace.as_deref();
    object["metadata"]["namespace"] = json!(namespace.unwrap_or(NAMESPACE));
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    for (name, value) in context.ownership() {
        object["metadata"]["annotations"][name] = json!(value);
    }
    if context.cluster.multi_arch
        && clones(template)
        && let Some(index) = parameter(template)
        && let Some(name) = text(template, index)
    {
        object["parameters"][index]["value"] =
            json!(names::for_architecture(name, architecture(template)));
    }
    object
}

/// The merge patch for a template that differs. Labels and annotations of other writers stay.
fn difference(live: &Value, wanted: &Value) -> Option<Value> {
    let mut patch = Map::new();
    let mut metadata = Map::new();
    for part in ["labels", "annotations"] {
        let mut own = Map::new();
        let known = wanted["metadata"].get(part).and_then(Value::as_object);
        for (name, value) in known.into_iter().flatten() {
            if live["metadata"][part].get(name) != Some(value) {
                own.insert(name.clone(), value.clone());
            }
        }
        if part == "annotations" {
            let mark = api::golden::names::UNWANTED_SINCE;
            if live["metadata"][part].get(mark).is_some() {
                own.insert(mark.to_owned(), Value::Null);
            }
        }
        if !own.is_empty() {
            metadata.insert(part.to_owned(), Value::Object(own));
        }
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    for part in ["objects", "parameters", "message"] {
        if let Some(value) = wanted.get(part)
            && live.get(part) != Some(value)
        {
            patch.insert(part.to_owned(), value.clone());
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Deprecates a template that is no longer bundled.
fn deprecate(of: Named, meta: &ObjectMeta, decision: &mut Decision) {
    let mut own = Map::new();
    if label(meta, DEPRECATED) != Some("true") {
        own.insert(DEPRECATED.to_owned(), json!("true"));
    }
    for name in meta.labels.iter().flatten().map(|(name, _)| name) {
        if SEARCH_LABELS.iter().any(|prefix| name.starts_with(prefix)) {
            own.insert(name.clone(), Value::Null);
        }
    }
    let annotated = crate::action::annotation(meta, DEPRECATED) == Some("true");
    if own.is_empty() && annotated {
        return;
    }
    decision.actions.push(Action::Patch {
        kind: Kind::Template,
        of,
        patch: json!({ "metadata": {
            "labels": own,
            "annotations": { DEPRECATED: "true" },
        } }),
        why: "it is no longer bundled",
    });
}
