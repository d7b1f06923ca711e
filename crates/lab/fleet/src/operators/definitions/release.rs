//! `ClusterVersion` and `ClusterOperator`.

use serde_json::{Value, json};

use super::schema::{
    Names, anything, atomic, boolean, definition, int64, list, merged, object, requiring,
    spec_and_status, text, time, with,
};

const GROUP: &str = "config.openshift.io";

pub(super) fn definitions() -> [Value; 2] {
    [versions(), operators()]
}

/// Conditions without required reason and message, and without unique types.
fn conditions() -> Value {
    let condition = object([
        ("lastTransitionTime", time()),
        ("message", text()),
        ("reason", text()),
        ("status", text()),
        ("type", text()),
    ]);
    list(&requiring(
        condition,
        &["lastTransitionTime", "status", "type"],
    ))
}

fn condition(kind: &str, field: &str) -> String {
    format!(".status.conditions[?(@.type==\"{kind}\")].{field}")
}

fn release() -> Value {
    object([
        ("architecture", text()),
        ("channels", atomic(&text())),
        ("image", text()),
        ("url", text()),
        ("version", text()),
    ])
}

/// The desired update: either a version and architecture, or an image.
fn desired_update() -> Value {
    let update = object([
        (
            "architecture",
            json!({ "type": "string", "enum": ["Multi", ""] }),
        ),
        ("force", boolean()),
        ("image", text()),
        ("version", text()),
    ]);
    with(
        update,
        json!({ "x-kubernetes-validations": [
            {
                "rule": "has(self.architecture) && has(self.image) ? (self.architecture == '' || self.image == '') : true",
                "message": "cannot set both Architecture and Image",
            },
            {
                "rule": "has(self.architecture) && self.architecture != '' ? (has(self.version) && self.version != '') : true",
                "message": "Version must be set if Architecture is set",
            },
        ] }),
    )
}

fn versions() -> Value {
    let unmanaged = object([
        ("group", text()),
        ("kind", text()),
        ("name", text()),
        ("namespace", text()),
        ("unmanaged", boolean()),
    ]);
    let spec = object([
        ("capabilities", anything()),
        ("channel", text()),
        ("clusterID", text()),
        ("desiredUpdate", desired_update()),
        ("overrides", atomic(&unmanaged)),
        ("upstream", text()),
    ]);
    let entry = merged(
        release(),
        object([
            ("acceptedRisks", text()),
            ("completionTime", with(time(), json!({ "nullable": true }))),
            ("startedTime", time()),
            ("state", text()),
            ("verified", boolean()),
        ]),
    );
    let nullable = |schema: Value| with(schema, json!({ "nullable": true }));
    let status = object([
        ("availableUpdates", nullable(atomic(&release()))),
        ("capabilities", anything()),
        ("conditionalUpdates", atomic(&anything())),
        ("conditions", conditions()),
        ("desired", release()),
        ("history", atomic(&entry)),
        ("observedGeneration", int64()),
        ("versionHash", text()),
    ]);
    let names = Names::new(GROUP, "v1", "ClusterVersion", "clusterversions").cluster_wide();
    let (available, progressing) = (
        condition("Available", "status"),
        condition("Progressing", "status"),
    );
    let (since, message_path) = (
        condition("Progressing", "lastTransitionTime"),
        condition("Progressing", "message"),
    );
    definition(
        &names,
        spec_and_status(spec, status),
        &[
            (
                "Version",
                "string",
                ".status.history[?(@.state==\"Completed\")].version",
            ),
            ("Available", "string", &available),
            ("Progressing", "string", &progressing),
            ("Since", "date", &since),
            ("Status", "string", &message_path),
        ],
    )
}

fn operators() -> Value {
    let version = requiring(
        object([("name", text()), ("version", text())]),
        &["name", "version"],
    );
    let related = object([
        ("group", text()),
        ("name", text()),
        ("namespace", text()),
        ("resource", text()),
    ]);
    let status = object([
        ("conditions", conditions()),
        ("extension", with(anything(), json!({ "nullable": true }))),
        ("relatedObjects", list(&related)),
        ("versions", list(&version)),
    ]);
    let names = Names::new(GROUP, "v1", "ClusterOperator", "clusteroperators")
        .short(&["co"])
        .cluster_wide();
    let state = |kind: &str| condition(kind, "status");
    let (available, progressing, degraded) =
        (state("Available"), state("Progressing"), state("Degraded"));
    let (since, message_path) = (
        condition("Available", "lastTransitionTime"),
        condition("Progressing", "message"),
    );
    definition(
        &names,
        spec_and_status(object([]), status),
        &[
            (
                "Version",
                "string",
                ".status.versions[?(@.name==\"operator\")].version",
            ),
            ("Available", "string", &available),
            ("Progressing", "string", &progressing),
            ("Degraded", "string", &degraded),
            ("Since", "date", &since),
            ("Message", "string", &message_path),
        ],
    )
}
