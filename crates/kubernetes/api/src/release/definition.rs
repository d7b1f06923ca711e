//! The CustomResourceDefinition of ReleasePolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::{NAME, PayloadSource, ReleasePolicy};
use crate::definition::schema::{
    Schema, atomic_list, boolean, int32, int64, map_list, name, object, one_of, text, time,
};
use crate::definition::{Definition, conditions, only};

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &["relp"],
        description: "ReleasePolicy configures how Medley verifies that a cluster has completed the update to a release, and reports the result. Only the object named default is used; without it, the field defaults apply.",
        columns: &[
            ("Mode", ".spec.mode"),
            ("Version", ".status.target.version"),
            (
                "Complete",
                ".status.conditions[?(@.type==\"Complete\")].status",
            ),
            ("Agrees", ".status.conditions[?(@.type==\"Agrees\")].status"),
            (
                "Status",
                ".status.conditions[?(@.type==\"Progressing\")].message",
            ),
        ],
        name: only("ReleasePolicy", NAME),
        spec: spec(),
        status: Some(status()),
    };
    crd.build::<ReleasePolicy>()
}

fn spec() -> Schema {
    let image = format!(
        "The release image: a pull specification, or {} for the release the cluster runs or is updating to. It is read from its registry.",
        PayloadSource::DESIRED
    );
    let config_map = object(json!({
        "namespace": name(253).about("The namespace."),
        "name": name(253).about("The name."),
    }));
    let payload = object(json!({
        "configMap": config_map.required(&["namespace", "name"])
            .about("The ConfigMap with the release manifests; its keys are file names."),
        "folder": name(4096).about("A folder in the operator's file system, below one given to `medley run --payload-folder`."),
        "image": name(1024).about(&image),
    }));
    let payload = payload.rule(
        "[has(self.configMap), has(self.folder), has(self.image)].filter(it, it).size() <= 1",
        "say one of configMap, folder and image",
    );
    let spec = object(json!({
        "mode": one_of(["Observe", "Own"]).default("Observe")
            .about("What Medley does with the ClusterVersion: only read it, beside the cluster version operator (Observe), or maintain its status in clusters without that operator (Own)."),
        "payload": payload
            .about("Where the manifests of the release are read from. Defaults to a ConfigMap in namespace openshift-cluster-version with the label medley.dev/release-payload=true whose annotation medley.dev/release-image is the release image."),
        "workerPools": one_of(["Ignore", "Require"]).default("Ignore")
            .about("Whether an update is complete before all MachineConfigPools are updated: worker pools do not block completion, as in OpenShift (Ignore), or they do (Require)."),
    }));
    spec.about("The desired configuration.")
}

fn status() -> Schema {
    let undone = object(json!({
        "name": text(), "from": text(), "to": text(), "reason": text(), "message": text(),
    }));
    let operator = object(json!({
        "name": text(), "state": text(), "reportsImage": boolean(), "waitingSince": time(),
        "undone": atomic_list(undone.required(&["name", "to", "reason"])),
    }));
    let pool = object(json!({
        "name": text(), "machines": int32(), "updated": int32(), "done": boolean(), "message": text(),
    }));
    let took = object(json!({ "operator": text(), "tookSeconds": atomic_list(int64()) }));
    let target = object(json!({
        "version": text(), "image": text(), "architecture": text(), "change": text(),
        "startedTime": time(), "completionTime": time(),
    }));
    let progress = object(json!({
        "operators": int32(), "arrived": int32(), "reporting": int32(), "manifests": int32(), "done": int32(),
    }));
    let progress = progress.required(&["operators", "arrived", "reporting", "manifests", "done"]);
    let status = object(json!({
        "observedGeneration": int64(),
        "conditions": conditions(),
        "target": target.about("The release the cluster runs or is updating to."),
        "progress": progress.about("The progress of the update."),
        "operators": map_list(&["name"], operator.required(&["name", "state"]))
            .about("The ClusterOperators of the release."),
        "pools": map_list(&["name"], pool.required(&["name", "machines", "updated", "done"]))
            .about("The MachineConfigPools."),
        "history": map_list(&["operator"], took.required(&["operator"]))
            .about("How long recent updates waited for operators."),
    }));
    status.about("The observed state.")
}
