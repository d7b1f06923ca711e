//! Pods.

mod print;
mod qos;
#[cfg(test)]
mod tests;
mod update;

use machinery::field::Path;
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::builtin::entry::Capability::{DeleteReturnsObject, Generation, Status};
use crate::builtin::entry::{Entry, Errors, selectable_text};
use crate::builtin::pod_spec::{container, defaults, validate, warnings};
use crate::builtin::value::{Read, existing, keep, object_at, set};
use crate::kind::{Grace, Part, WriteContext};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["po"],
    categories: &["all"],
    capabilities: &[Generation, Status, DeleteReturnsObject],
    default,
    prepare_create,
    prepare_update,
    validate,
    validate_update: update::validate,
    // Updates emit no warnings: pods are rarely edited by hand.
    warnings: |pod, old| {
        if old.is_some() {
            return Vec::new();
        }
        let mut all = warnings::about_name(pod.name(), "the Pod's hostname");
        all.extend(warnings::about(&Path::root(), pod));
        all
    },
    selectable: &[
        selectable_text!("spec.nodeName"),
        ("spec.host", |pod| pod.text("spec.nodeName").to_owned()),
        selectable_text!("spec.restartPolicy"),
        selectable_text!("spec.schedulerName"),
        selectable_text!("spec.serviceAccountName"),
        ("spec.hostNetwork", |pod| {
            pod.is_true("spec.hostNetwork").to_string()
        }),
        selectable_text!("status.phase"),
        ("status.podIP", |pod| first_ip(pod).to_owned()),
        ("status.podIPs", |_| String::new()),
        selectable_text!("status.nominatedNodeName"),
    ],
    columns: print::COLUMNS,
    grace,
    status_resets: &[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ],
    ..Entry::new("", "v1", "Pod", "pods")
};

fn first_ip(pod: &Value) -> &str {
    match pod.items("status.podIPs").first() {
        Some(address) => address.text("ip"),
        None => pod.text("status.podIP"),
    }
}

fn default(pod: &mut Value) {
    if object_at(pod, "spec").is_none() {
        return;
    }
    if let Some(spec) = existing(pod, "spec") {
        defaults::pod_only(spec);
        defaults::pod_spec(spec);
    }
    sync_ips(pod, "podIP", "podIPs");
    sync_ips(pod, "hostIP", "hostIPs");
}

/// Keeps the singular and the plural form of addresses consistent: either one fills the other.
fn sync_ips(pod: &mut Value, one: &str, many: &str) {
    let Some(status) = existing(pod, "status") else {
        return;
    };
    let single = status.text(one).to_owned();
    let first = status
        .items(many)
        .first()
        .map(|address| address.text("ip").to_owned());
    match first {
        None if !single.is_empty() => set(status, many, json!([{ "ip": single }])),
        Some(first) if single.is_empty() => set(status, one, first),
        // A client that knows only the singular form has changed it.
        Some(first) if first != single => set(status, many, json!([{ "ip": single }])),
        _ => {}
    }
}

fn prepare_create(pod: &mut Value, context: WriteContext<'_>) {
    // Computed once at creation: kubelets have set up cgroups by it, so that later updates keep it.
    let class = qos::class(pod.at("spec"));
    set(
        pod,
        "status",
        json!({ "phase": "Pending", "qosClass": class }),
    );
    // Written by the server, because the scheduler ignores gated pods and would never report them.
    if pod.count("spec.schedulingGates") > 0 {
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": format_time(context.now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        set(pod, "status.conditions", json!([condition]));
    }
}

fn prepare_update(new: &mut Value, old: &Value, part: Part<'_>, _: WriteContext<'_>) {
    match part {
        Part::Main => keep(new, old, "status"),
        Part::Status => {
            keep(new, old, "spec");
            keep(new, old, "metadata.deletionTimestamp");
            keep(new, old, "metadata.ownerReferences");
            if new.text("status.qosClass").is_empty() {
                keep(new, old, "status.qosClass");
            }
            if new.number("status.observedGeneration") == 0 && old.has("status.observedGeneration")
            {
                keep(new, old, "status.observedGeneration");
            }
        }
        Part::Other("ephemeralcontainers") => {
            let added = new.at("spec.ephemeralContainers").clone();
            keep(new, old, "spec");
            keep(new, old, "status");
            keep_metadata(new, old);
            if !added.is_null() {
                set(new, "spec.ephemeralContainers", added);
            }
        }
        Part::Other("resize") => update::keep_all_but_resources(new, old),
        // Binding and eviction change spec and status together.
        Part::Other(_) => {}
    }
}

/// Restores the metadata that subresources never change (`ResetObjectMetaForStatus`).
pub(crate) fn keep_metadata(new: &mut Value, old: &Value) {
    for field in [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        keep(new, old, &format!("metadata.{field}"));
    }
}

fn check_metadata_and_spec(pod: &Value) -> Errors {
    let spec = pod.at("spec");
    let path = Path::new("spec");
    let mut errors = validate::check_annotations(
        &Path::new("metadata.annotations"),
        pod.at("metadata.annotations"),
        spec,
    );
    errors += validate::check_spec(&path, spec, Some(pod.at("metadata")));
    if spec.text("serviceAccountName").is_empty() {
        for (i, volume) in spec.items("volumes").iter().enumerate() {
            for (j, source) in volume.items("projected.sources").iter().enumerate() {
                if source.has("serviceAccountToken") {
                    let path = path
                        .child("volumes")
                        .index(i)
                        .child("projected")
                        .child("sources");
                    errors.forbidden(
                        &path.index(j).child("serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (i, container) in spec.items(field).iter().enumerate() {
            errors += container::check_image_space(&path.child(field).index(i), container);
        }
    }
    errors
}

fn validate(pod: &Value) -> Errors {
    let mut errors = check_metadata_and_spec(pod);
    let path = Path::new("spec");
    if pod.count("spec.ephemeralContainers") > 0 {
        let path = path.child("ephemeralContainers");
        errors.forbidden(&path, "cannot be set on create");
    }
    if !pod.text("spec.nodeName").is_empty() && pod.count("spec.schedulingGates") > 0 {
        errors.forbidden(
            &path.child("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        );
    }
    errors
}

/// A running pod gets a grace period; others are deleted at once.
fn grace(pod: &Value, requested: Option<i64>) -> Grace {
    let seconds = requested
        .or_else(|| pod.int("spec.terminationGracePeriodSeconds"))
        .unwrap_or_default();
    let idle = pod.text("spec.nodeName").is_empty()
        || matches!(pod.text("status.phase"), "Failed" | "Succeeded");
    // Without a kubelet that has to stop containers there is no grace period, but the deletion is
    // recorded all the same.
    Grace::Seconds(match seconds {
        _ if idle => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    })
}
