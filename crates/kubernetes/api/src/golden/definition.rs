//! The CustomResourceDefinition of GoldenImagePolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::{GoldenImagePolicy, NAME};
use crate::definition::schema::{
    Schema, atomic_list, int32, int64, map_list, name, object, one_of, text, time,
};
use crate::definition::{DIGEST, Definition, conditions, only};
use crate::mode::ModeSetting;
use crate::ssp::GOLDEN_NAMESPACE;

/// A non-negative Go duration.
// A pattern and not `format: duration`, which also accepts `2 days`; Go's
// parser, and so other controllers, would not.
const DURATION: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$";
/// An architecture as in GOARCH.
const ARCHITECTURE: &str = "^[a-z0-9]([a-z0-9_]*[a-z0-9])?$";

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &["gip"],
        description: "GoldenImagePolicy configures how golden images are imported and retained. Only the object named default is used; without it, the field defaults apply.",
        columns: &[
            ("Default", ".status.nodes.defaultArchitecture"),
            ("Reason", ".status.nodes.defaultReason"),
            ("Grace", ".spec.gracePeriod"),
        ],
        name: only("GoldenImagePolicy", NAME),
        spec: spec(),
        status: Some(status()),
    };
    crd.build::<GoldenImagePolicy>()
}

fn spec() -> Schema {
    let retention = object(json!({
        "importsToKeep": int32().range(1, 100).about("How many imports are kept for images that do not set importsToKeep."),
        "history": int32().range(0, 50).default(10)
            .about("How many earlier versions are recorded in the history of a DataSource."),
    }));
    let polling = object(json!({
        "jitter": duration("The maximum random delay of a poll after its scheduled time, which spreads the load on registries.", "5m"),
    }));
    let retry = object(json!({
        "initialDelay": duration("The delay after the first failure; it doubles with each further failure.", "30s"),
        "maxDelay": duration("The longest delay between retries.", "1h"),
    }));
    let spec = object(json!({
        "defaultArchitecture": architecture("The architecture that DataSource names without architecture refer to, if there are several. Defaults to that of the control plane, or else that of most nodes."),
        "gracePeriod": duration("How long images are kept after the last node of their architecture has been removed.", "1h"),
        "retention": retention.about("The retention of imports and history."),
        "polling": polling.about("How registries are polled for new versions."),
        "retry": retry.about("Backoff of failed imports and polls."),
        "discovery": one_of(["Off", "Report", "Adopt"]).default("Report")
            .about("How the architectures found in an image are used: not at all (Off), a template that declares others gets a condition (Report), or in addition a template that declares none gets them (Adopt)."),
        "sniffing": one_of(["Off", "Warn", "Refuse"]).default("Refuse")
            .about("What happens if a disk boots on another architecture than its image declares: the disk is not checked (Off), a warning event is emitted (Warn), or no DataSource refers to the import (Refuse)."),
        "unchangedContent": one_of(["Skip", "Import"]).default("Skip")
            .about("What happens with a new image version whose disk contents are unchanged."),
        "mode": one_of(ModeSetting::VALUES).default("Auto")
            .about("Whether golden images are managed. Auto: each layer writes its objects unless the genuine operator of the layer runs, and only reports then. Assist: all layers only report. Off: they do nothing."),
        "images": map_list(&["namespace", "name"], image()).max_items(512)
            .about("Settings of single images, which override those of the policy."),
    }));
    spec.about("The desired configuration.")
}

fn image() -> Schema {
    let pin = object(json!({
        // A key of the list needs a value in every item, so that an image without
        // architecture is the empty text and not an absent field.
        "architecture": text().with("maxLength", 32).default("").about("The architecture; empty for an image without architecture."),
        "digest": text().pattern(DIGEST).about("The version: the digest of the manifest."),
        "reason": text().with("maxLength", 1024).about("Why the version is pinned."),
    }));
    let image = object(json!({
        "name": name(253).about("The name of the DataSource without the architecture suffix."),
        "namespace": name(63).default(GOLDEN_NAMESPACE).about("The namespace."),
        "defaultArchitecture": architecture("The architecture that the name without architecture refers to."),
        "pins": map_list(&["architecture"], pin.required(&["digest"])).max_items(16)
            .about("Versions the DataSource stays at, regardless of newer imports."),
    }));
    image.required(&["name"]).about("Settings of one image.")
}

fn status() -> Schema {
    let texts = || atomic_list(text()).max_items(64);
    let nodes = object(json!({
        "workload": texts(), "controlPlane": texts(), "ignored": texts(),
        "defaultArchitecture": text(), "defaultReason": text(),
    }));
    let architecture = object(json!({
        "architecture": text(), "dataSource": text(), "state": text(),
        "reason": text(), "digest": text(), "leavesAt": time(),
    }));
    let image = object(json!({
        "namespace": text(), "name": text(), "defaultArchitecture": text(), "defaultReason": text(),
        "architectures": atomic_list(architecture.required(&["state"])),
    }));
    let verification = object(json!({
        "namespace": text(), "dataSource": text(), "architecture": text(), "digest": text(),
        "result": text(), "reason": text(), "message": text(),
    }));
    let verification = verification.required(&["namespace", "dataSource", "result"]);
    let status = object(json!({
        "observedGeneration": int64(),
        "conditions": conditions(),
        "nodes": nodes.about("The architectures of the nodes."),
        "images": atomic_list(image.required(&["namespace", "name"])).about("The images."),
        "verifications": atomic_list(verification)
            .about("Whether the disks in use are for their architectures, while another operator imports them."),
    }));
    status.about("The observed state.")
}

fn architecture(description: &str) -> Schema {
    let schema = text().with("maxLength", 32).pattern(ARCHITECTURE);
    schema.about(description)
}

fn duration(description: &str, default: &str) -> Schema {
    let schema = text().with("maxLength", 32).pattern(DURATION);
    let schema = schema.about(&format!("{description} A Go duration such as 30s or 2h."));
    schema.default(default)
}
