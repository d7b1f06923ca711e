//! What a controller wrote on a finished PVC and its DataVolume, without names and times.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::story::Story;

/// What a controller wrote on a finished PVC and its DataVolume. Names and uids of these are placeholders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    phases: Vec<String>,
    progress: Value,
    conditions: BTreeMap<String, Value>,
    claim_annotations: BTreeMap<String, String>,
    claim_labels: BTreeMap<String, String>,
}

impl Recording {
    pub(crate) async fn of(story: &Story, created: &DynamicObject) -> anyhow::Result<Self> {
        let name = created.name_any();
        let uid = created.uid().unwrap_or_default();
        let volume = story.volumes().get(&name).await?;
        let claim = story.claims().get(&name).await?;
        let placeholders = |text: &str| text.replace(&uid, "UID").replace(&name, "NAME");
        let texts = |all: &BTreeMap<String, String>| {
            all.iter()
                .map(|(key, value)| (key.clone(), placeholders(value)))
                .collect()
        };
        let status = &volume.data["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let conditions = conditions.map(|condition| {
            let mut written = condition.clone();
            let fields = written.as_object_mut().into_iter();
            for fields in fields {
                fields.remove("lastTransitionTime");
                fields.remove("lastHeartbeatTime");
                for text in fields.values_mut() {
                    *text = Value::from(placeholders(text.as_str().unwrap_or_default()));
                }
            }
            let kind = condition["type"].as_str().unwrap_or_default();
            (kind.to_owned(), written)
        });
        Ok(Self {
            phases: story.phases(created).await?,
            progress: status["progress"].clone(),
            conditions: conditions.collect(),
            claim_annotations: texts(claim.annotations()),
            claim_labels: texts(claim.labels()),
        })
    }

    /// What CDI relies on, and another recording lacks. Its last phase counts, not those on the way; of conditions the
    /// status, not the text.
    pub(crate) fn missing_from(&self, other: &Self) -> Vec<String> {
        let mut missing = Vec::new();
        for (theirs, ours) in [
            (&self.claim_annotations, &other.claim_annotations),
            (&self.claim_labels, &other.claim_labels),
        ] {
            for (name, value) in theirs {
                if ours.get(name) != Some(value) && !is_private(name) {
                    missing.push(format!("{name}: {value}, not {:?}", ours.get(name)));
                }
            }
        }
        for (kind, theirs) in &self.conditions {
            let ours = other.conditions.get(kind).map(|it| &it["status"]);
            if ours != Some(&theirs["status"]) {
                missing.push(format!("condition {kind} {theirs}, not {ours:?}"));
            }
        }
        if self.phases.last() != other.phases.last() || self.progress != other.progress {
            missing.push(format!("{:?} {}", other.phases.last(), other.progress));
        }
        missing
    }
}

/// Annotations for CDI's own importer or whose absence means the same, and labels that name the component that created
/// an object.
fn is_private(name: &str) -> bool {
    [
        "cdi.kubevirt.io/storage.import.requiresScratch",
        // Absent is false (`CheckPVCUsingPopulators` in pkg/controller/datavolume/util.go).
        "cdi.kubevirt.io/storage.usePopulator",
    ]
    .contains(&name)
        || name.starts_with("app.kubernetes.io/")
}
