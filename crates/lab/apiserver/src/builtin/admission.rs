//! Built-in admission of objects, before webhooks: the plugins that are enabled by default and need
//! no controller.

use machinery::gvk::GroupResource;
use machinery::json::go_quote;
use serde_json::{Value, json};

use crate::builtin::resources;
use crate::builtin::value::{Read, keep, object_at, same, set};

/// Cluster-scoped objects that admission reads.
pub(crate) trait Lookup {
    /// One object by name.
    fn get(&self, resource: &GroupResource, name: &str) -> Option<Value>;
    /// All objects.
    fn list(&self, resource: &GroupResource) -> Vec<Value>;
}

/// Mutates a new object, or returns why it is rejected. Runs again when a webhook has changed the
/// object.
pub(crate) fn admit_create(
    resource: &GroupResource,
    object: &mut Value,
    lookup: &dyn Lookup,
) -> Result<(), String> {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => {
            // The order of `pkg/kubeapiserver/options/plugins.go`, where it matters: tolerations of
            // the runtime class are merged with the default ones.
            priority(object, lookup)?;
            default_tolerations(object);
            runtime_class(object, lookup)?;
        }
        ("", "nodes") => taint_new_node(object),
        ("", "persistentvolumeclaims") => {
            protect(object, "kubernetes.io/pvc-protection");
            default_storage_class(object, lookup);
        }
        ("", "persistentvolumes") => protect(object, "kubernetes.io/pv-protection"),
        ("networking.k8s.io", "ingresses") => default_ingress_class(object, lookup),
        _ => {}
    }
    Ok(())
}

/// Mutates a changed object.
pub(crate) fn admit_update(resource: &GroupResource, object: &mut Value, old: &Value) {
    if (resource.group.as_str(), resource.resource.as_str()) != ("", "pods") {
        return;
    }
    default_tolerations(object);
    for field in ["spec.priority", "spec.preemptionPolicy"] {
        // A client that PUTs a manifest without these computed fields must not fail with "may not
        // change".
        if !object.has(field) && old.has(field) {
            keep(object, old, field);
        }
    }
}

/// Validates a new object that is valid for its kind.
pub(crate) fn validate_create(
    resource: &GroupResource,
    object: &Value,
    lookup: &dyn Lookup,
) -> Result<(), String> {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => check_overhead(object, lookup),
        ("scheduling.k8s.io", "priorityclasses") => only_default(object, lookup),
        _ => Ok(()),
    }
}

/// Validates a changed object that is valid for its kind.
pub(crate) fn validate_update(
    resource: &GroupResource,
    object: &Value,
    old: &Value,
    lookup: &dyn Lookup,
) -> Result<(), String> {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "persistentvolumeclaims") => resize(object, old, lookup).map_err(ToOwned::to_owned),
        ("scheduling.k8s.io", "priorityclasses") => only_default(object, lookup),
        _ => Ok(()),
    }
}

/// `DefaultTolerationSeconds`: pods stay on an unreachable node for five minutes.
fn default_tolerations(pod: &mut Value) {
    let mut tolerations = pod.items("spec.tolerations").to_vec();
    let before = tolerations.len();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        // Only tolerations of the client count, not the one just added for the other key.
        let tolerated = tolerations[..before].iter().any(|toleration| {
            (toleration.text("key") == key || toleration.text("key").is_empty())
                && matches!(toleration.text("effect"), "NoExecute" | "")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                // `--default-not-ready-toleration-seconds` and its counterpart, in
                // `plugin/pkg/admission/defaulttolerationseconds`. Without them a taint of a node
                // that misses one heartbeat would evict its pods at once.
                "tolerationSeconds": 300,
            }));
        }
    }
    if tolerations.len() > before {
        set(pod, "spec.tolerations", tolerations);
    }
}

fn priority_classes() -> GroupResource {
    GroupResource::new("scheduling.k8s.io", "priorityclasses")
}

/// Of several default classes the one with the lowest priority is used.
fn default_priority_class(lookup: &dyn Lookup) -> Option<Value> {
    let classes = lookup.list(&priority_classes()).into_iter();
    classes
        .filter(|class| class.is_true("globalDefault"))
        .min_by_key(|class| class.number("value"))
}

/// There may be one default class only; updating that one is allowed.
fn only_default(class: &Value, lookup: &dyn Lookup) -> Result<(), String> {
    if !class.is_true("globalDefault") {
        return Ok(());
    }
    match default_priority_class(lookup) {
        Some(known) if known.name() != class.name() => Err(format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            known.name()
        )),
        _ => Ok(()),
    }
}

/// `Priority`: resolves the priority class to its value.
fn priority(pod: &mut Value, lookup: &dyn Lookup) -> Result<(), String> {
    let named = pod.text("spec.priorityClassName").to_owned();
    let class = if named.is_empty() {
        default_priority_class(lookup)
    } else {
        let class = lookup.get(&priority_classes(), &named);
        Some(class.ok_or_else(|| format!("no PriorityClass with name {named} was found"))?)
    };
    let (priority, policy) = match &class {
        Some(class) => (class.number("value"), class.text("preemptionPolicy")),
        None => (0, "PreemptLowerPriority"),
    };
    // Otherwise any user could preempt the pods of others by a number, without the permission to
    // use a class.
    if let Some(given) = pod.int("spec.priority").filter(|given| *given != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority \
             admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    let given = pod
        .maybe_text("spec.preemptionPolicy")
        .filter(|given| *given != policy);
    if let (Some(given), false) = (given, policy.is_empty()) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(class) = class.as_ref().filter(|_| named.is_empty()) {
        set(pod, "spec.priorityClassName", class.name());
    }
    set(pod, "spec.priority", priority);
    if !policy.is_empty() {
        set(pod, "spec.preemptionPolicy", policy);
    }
    Ok(())
}

const OVERHEAD_DIFFERS: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OVERHEAD_WITHOUT_CLASS: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// The class a pod names.
fn named_class(pod: &Value, lookup: &dyn Lookup) -> Result<Option<Value>, String> {
    let Some(name) = pod.maybe_text("spec.runtimeClassName") else {
        return Ok(None);
    };
    let resource = GroupResource::new("node.k8s.io", "runtimeclasses");
    let class = lookup.get(&resource, name);
    let missing = || format!("pod rejected: RuntimeClass {} not found", go_quote(name));
    class.map(Some).ok_or_else(missing)
}

/// Whether two resource lists are equal as quantities.
fn same_amounts(left: &Value, right: &Value) -> bool {
    let amounts = |list: &Value| -> Vec<_> {
        let entries = list.entries("").into_iter();
        entries
            .map(|(name, amount)| (name.to_owned(), resources::quantity(amount)))
            .collect()
    };
    amounts(left) == amounts(right)
}

/// `RuntimeClass`, validating: the overhead of a pod has to be that of its class.
fn check_overhead(pod: &Value, lookup: &dyn Lookup) -> Result<(), String> {
    match named_class(pod, lookup)? {
        Some(class) if class.has("overhead") => {
            if same_amounts(pod.at("spec.overhead"), class.at("overhead.podFixed")) {
                Ok(())
            } else {
                Err(OVERHEAD_DIFFERS.to_owned())
            }
        }
        _ if pod.has("spec.overhead") => Err(OVERHEAD_WITHOUT_CLASS.to_owned()),
        _ => Ok(()),
    }
}

/// `RuntimeClass`: copies overhead and scheduling of the class to the pod.
fn runtime_class(pod: &mut Value, lookup: &dyn Lookup) -> Result<(), String> {
    let Some(class) = named_class(pod, lookup)? else {
        return Ok(());
    };
    let overhead = class.at("overhead.podFixed");
    if class.has("overhead") {
        if pod.count("spec.overhead") > 0 && !same_amounts(pod.at("spec.overhead"), overhead) {
            return Err(OVERHEAD_DIFFERS.to_owned());
        }
        keep(
            pod,
            &json!({ "spec": { "overhead": overhead } }),
            "spec.overhead",
        );
    }
    if !class.has("scheduling") {
        return Ok(());
    }
    for (key, value) in class.entries("scheduling.nodeSelector") {
        if let Some(own) = pod
            .entry("spec.nodeSelector", key)
            .filter(|own| *own != value)
        {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                 pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or_default(),
                own.as_str().unwrap_or_default()
            ));
        }
    }
    let selector = class
        .map("scheduling.nodeSelector")
        .cloned()
        .unwrap_or_default();
    if let (false, Some(own)) = (selector.is_empty(), object_at(pod, "spec.nodeSelector")) {
        own.extend(selector);
    }
    let all: Vec<Value> = pod
        .items("spec.tolerations")
        .iter()
        .chain(class.items("scheduling.tolerations"))
        .cloned()
        .collect();
    set(pod, "spec.tolerations", merge_tolerations(&all));
    Ok(())
}

/// Tolerations without those that another covers.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let covered = merged.iter().any(|other| covers(other, toleration))
            || all[i + 1..]
                .iter()
                .any(|other| other != toleration && covers(other, toleration));
        if !covered {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether one toleration includes the other.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if same(wide, narrow) {
        return true;
    }
    let all = wide.text("key").is_empty() && wide.text("operator") == "Exists";
    if wide.text("key") != narrow.text("key") && !all {
        return false;
    }
    let effect = wide.text("effect");
    if effect != narrow.text("effect") && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute" {
        match (
            wide.int("tolerationSeconds"),
            narrow.int("tolerationSeconds"),
        ) {
            (Some(_), None) => return false,
            (Some(wide), Some(narrow)) if wide < narrow => return false,
            _ => {}
        }
    }
    match wide.text("operator") {
        "Exists" => true,
        // As upstream, a toleration without an operator is never covered, although it means
        // `Equal`.
        "" | "Equal" => {
            narrow.text("operator") == "Equal" && wide.text("value") == narrow.text("value")
        }
        _ => false,
    }
}

/// `TaintNodesByCondition`: a new node accepts no pods until it is ready.
fn taint_new_node(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let mut taints = node.items("spec.taints").to_vec();
    let known = |taint: &Value| taint.text("key") == key && taint.text("effect") == "NoSchedule";
    if !taints.iter().any(known) {
        // The scheduler must not place pods on a node before its kubelet reports conditions; the
        // node lifecycle controller removes the taint.
        taints.push(json!({ "key": key, "effect": "NoSchedule" }));
        set(node, "spec.taints", taints);
    }
}

/// `StorageObjectInUseProtection`: adds the protection finalizer.
fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = object.items("metadata.finalizers").to_vec();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.into());
        set(object, "metadata.finalizers", finalizers);
    }
}

/// The newest of the objects marked as default; among equals by name.
fn newest_default(objects: Vec<Value>, marks: &[&str]) -> Option<Value> {
    let marked = |object: &Value| {
        marks
            .iter()
            .any(|mark| object.annotation(mark) == Some("true"))
    };
    let mut defaults: Vec<Value> = objects.into_iter().filter(marked).collect();
    defaults.sort_by(|a, b| {
        let created = |object: &Value| object.text("metadata.creationTimestamp").to_owned();
        created(b)
            .cmp(&created(a))
            .then_with(|| a.name().cmp(b.name()))
    });
    defaults.into_iter().next()
}

/// `DefaultStorageClass`: sets the default class of claims without one.
fn default_storage_class(claim: &mut Value, lookup: &dyn Lookup) {
    let named = claim.has("spec.storageClassName")
        || claim
            .annotation("volume.beta.kubernetes.io/storage-class")
            .is_some();
    if named {
        return;
    }
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let classes = lookup.list(&GroupResource::new("storage.k8s.io", "storageclasses"));
    if let Some(class) = newest_default(classes, &marks) {
        set(claim, "spec.storageClassName", class.name());
    }
}

/// `PersistentVolumeClaimResize`: only bound claims can grow, and only if their class allows it.
fn resize(claim: &Value, old: &Value, lookup: &dyn Lookup) -> Result<(), &'static str> {
    let size = |claim: &Value| resources::quantity(claim.at("spec.resources.requests.storage"));
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old.text("status.phase") != "Bound" {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let class = storage_class(claim);
    let grows = !class.is_empty()
        && class == storage_class(old)
        && lookup
            .get(
                &GroupResource::new("storage.k8s.io", "storageclasses"),
                class,
            )
            .is_some_and(|class| class.is_true("allowVolumeExpansion"));
    if grows {
        Ok(())
    } else {
        Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions \
             the pvc must support resize",
        )
    }
}

fn storage_class(claim: &Value) -> &str {
    claim
        .annotation("volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| claim.text("spec.storageClassName"))
}

/// `DefaultIngressClass`: sets the default class of ingresses without one, if it is unambiguous.
fn default_ingress_class(ingress: &mut Value, lookup: &dyn Lookup) {
    let named = ingress.has("spec.ingressClassName")
        || ingress.annotation("kubernetes.io/ingress.class").is_some();
    if named {
        return;
    }
    let mark = "ingressclass.kubernetes.io/is-default-class";
    let classes = lookup.list(&GroupResource::new("networking.k8s.io", "ingressclasses"));
    if let Some(class) = newest_default(classes, &[mark]) {
        set(ingress, "spec.ingressClassName", class.name());
    }
}
