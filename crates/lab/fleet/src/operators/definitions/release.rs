//! `ClusterVersion` and `ClusterOperator`.

use serde_json::Value;

use crate::schema::{
    AGE, Crd, anything, atomic, boolean, choice, int64, list, merged, nullable, object,
    spec_and_status, text, time, validated,
};

const GROUP: &str = "config.openshift.io";

pub(super) fn definitions() -> [Crd; 2] {
    [versions(), operators()]
}

/// Conditions without required reason and message, and without unique types.
fn conditions() -> Value {
    list(&object([
        ("lastTransitionTime!", time()),
        ("message reason status! type!", text()),
    ]))
}

fn release() -> Value {
    object([
        ("architecture image url version", text()),
        ("channels", atomic(&text())),
    ])
}

/// The desired update: either a version and architecture, or an image.
fn desired_update() -> Value {
    let update = object([
        ("architecture", choice(&["Multi", ""])),
        ("force", boolean()),
        ("image version", text()),
    ]);
    let rules = [
        (
            "has(self.architecture) && has(self.image) ? (self.architecture == '' || self.image == '') : true",
            "cannot set both Architecture and Image",
        ),
        (
            "has(self.architecture) && self.architecture != '' ? (has(self.version) && self.version != '') : true",
            "Version must be set if Architecture is set",
        ),
    ];
    validated(update, &rules)
}

fn versions() -> Crd {
    let unmanaged = object([
        ("group kind name namespace", text()),
        ("unmanaged", boolean()),
    ]);
    let spec = object([
        ("capabilities", anything()),
        ("channel clusterID upstream", text()),
        ("desiredUpdate", desired_update()),
        ("overrides", atomic(&unmanaged)),
    ]);
    let times = object([
        ("acceptedRisks state", text()),
        ("completionTime", nullable(time())),
        ("startedTime", time()),
        ("verified", boolean()),
    ]);
    let status = object([
        ("availableUpdates", nullable(atomic(&release()))),
        ("capabilities", anything()),
        ("conditionalUpdates", atomic(&anything())),
        ("conditions", conditions()),
        ("desired", release()),
        ("history", atomic(&merged(release(), times))),
        ("observedGeneration", int64()),
        ("versionHash", text()),
    ]);
    let schema = spec_and_status(spec, status);
    Crd::new(GROUP, "v1", "ClusterVersion", schema)
        .cluster_wide()
        .columns(&[
            "Version .status.history[?(@.state==\"Completed\")].version",
            "Available .status.conditions[?(@.type==\"Available\")].status",
            "Progressing .status.conditions[?(@.type==\"Progressing\")].status",
            "Since:date .status.conditions[?(@.type==\"Progressing\")].lastTransitionTime",
            "Status .status.conditions[?(@.type==\"Progressing\")].message",
            AGE,
        ])
}

fn operators() -> Crd {
    let version = object([("name! version!", text())]);
    let related = object([("group name namespace resource", text())]);
    let status = object([
        ("conditions", conditions()),
        ("extension", nullable(anything())),
        ("relatedObjects", list(&related)),
        ("versions", list(&version)),
    ]);
    let schema = spec_and_status(object([]), status);
    Crd::new(GROUP, "v1", "ClusterOperator", schema)
        .short(&["co"])
        .cluster_wide()
        .columns(&[
            "Version .status.versions[?(@.name==\"operator\")].version",
            "Available .status.conditions[?(@.type==\"Available\")].status",
            "Progressing .status.conditions[?(@.type==\"Progressing\")].status",
            "Degraded .status.conditions[?(@.type==\"Degraded\")].status",
            "Since:date .status.conditions[?(@.type==\"Available\")].lastTransitionTime",
            "Message .status.conditions[?(@.type==\"Progressing\")].message",
            AGE,
        ])
}
