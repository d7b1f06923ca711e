//! Virtual machines: the architecture of the image they start from.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataSource, DataVolume, Named, labels};
use golden_images::action::label;
use golden_images::vm::{VmInputs, decide, pointer_target, references};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use runtime::Absent as _;
use serde_json::{Value, json};

use crate::review::{Refusal, allowed};

/// Sets the architecture of a virtual machine that names none, and warns about mismatches.
pub(super) async fn review(client: &Client, machine: &Value) -> Result<Value, Refusal> {
    let namespace = machine["metadata"]["namespace"].as_str();
    let namespace = namespace.unwrap_or_default();
    let from = references(machine, namespace);
    let mut sources: BTreeMap<Named, DataSource> = BTreeMap::new();
    for name in &from.sources {
        let Some(source) = get::<DataSource>(client, name).await? else {
            continue;
        };
        if let Some(to) = pointer_target(&source, &name.namespace)
            && let Some(target) = get(client, &to).await?
        {
            sources.insert(to, target);
        }
        sources.insert(name.clone(), source);
    }
    let mut volumes = BTreeMap::new();
    for name in &from.volumes {
        let claim = get::<PersistentVolumeClaim>(client, name).await?;
        let mut label = claim.and_then(|it| architecture(&it));
        if label.is_none() {
            let import = get::<DataVolume>(client, name).await?;
            label = import.and_then(|it| architecture(&it));
        }
        if let Some(label) = label {
            volumes.insert(name.clone(), label);
        }
    }
    let decision = decide(&VmInputs {
        machine,
        namespace,
        sources: &|name| sources.get(name),
        volumes: &|name| volumes.get(name).map(String::as_str),
        // Without a known source, KubeVirt's default applies.
        default: None,
        // No nodes: the warning about an architecture without nodes is the controller's. Admission would have to wait
        // for a cache, and a VM may well be created before its nodes.
        nodes: &BTreeSet::new(),
    });
    let path = "/spec/template/spec/architecture";
    let patch = decision
        .set
        .filter(|_| machine.pointer("/spec/template/spec").is_some())
        .map(|it| json!({ "op": "add", "path": path, "value": it }));
    let warnings = decision.warnings.iter().map(ToString::to_string);
    Ok(allowed(patch.into_iter().collect(), warnings.collect()))
}

fn architecture<K: Resource>(object: &K) -> Option<String> {
    label(object.meta(), labels::ARCHITECTURE).map(str::to_owned)
}

/// Gets an object; `None` if it does not exist or its kind is not installed.
pub(super) async fn get<K>(client: &Client, of: &Named) -> Result<Option<K>, Refusal>
where
    K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
{
    let api: Api<K> = Api::namespaced(client.clone(), &of.namespace);
    let what = format!("getting {} {}/{}", K::kind(&()), of.namespace, of.name);
    let found = api.get(&of.name).await.not_found_as_none();
    found.map_err(Refusal::api(what))
}
