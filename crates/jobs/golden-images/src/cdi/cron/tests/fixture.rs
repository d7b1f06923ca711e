//! A simulated cluster around one DataImportCron.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use api::golden::GoldenImagePolicySpec;
use jiff::Timestamp;
use machinery::patch::merge_patch;
use serde_json::{Value, json};

use crate::action::{Action, Kind, Named};
use crate::cdi::cron::{Claim, CronInputs, Decision, Storage, decide};
use crate::cdi::failure::{Failure, Reason};
use crate::cdi::poll::{PollResult, PolledVersion};
use crate::policy::Policy;

pub(super) fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

pub(super) struct CronFixture {
    pub(super) cron: Value,
    pub(super) objects: BTreeMap<(Kind, String), Value>,
    pub(super) polled: Option<PollResult>,
    pub(super) hindered: Option<Failure>,
    pub(super) denied: Option<Failure>,
    pub(super) storage: Storage,
    pub(super) nodes: BTreeSet<String>,
    pub(super) busy: BTreeSet<String>,
    pub(super) rival: Option<&'static str>,
    pub(super) policy: Policy,
    pub(super) now: i64,
}

impl CronFixture {
    pub(super) fn new() -> Self {
        let cron = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
            "metadata": {
                "name": "cron-arm64", "namespace": "images",
                "labels": {
                    "template.kubevirt.io/architecture": "arm64",
                    "cdi.kubevirt.io/storage.import.datasource-name": "fedora",
                    "unrelated": "x",
                },
            },
            "spec": {
                "managedDataSource": "fedora-arm64", "schedule": "0 */12 * * *",
                "retentionPolicy": "None", "importsToKeep": 1,
                "template": { "spec": {
                    "source": { "registry": {
                        "url": "docker://quay.io:443/containerdisks/fedora:latest",
                        "platform": { "architecture": "arm64" },
                    } },
                    "storage": { "resources": { "requests": { "storage": "5Gi" } } },
                } },
            },
        });
        Self {
            cron,
            objects: BTreeMap::new(),
            polled: None,
            hindered: None,
            denied: None,
            storage: Storage {
                class: Some("fast".to_owned()),
                ..Storage::default()
            },
            nodes: BTreeSet::from(["arm64".to_owned()]),
            busy: BTreeSet::new(),
            rival: None,
            policy: Policy::default(),
            now: 1_000_000,
        }
    }

    pub(super) fn policy(&mut self, spec: Value) {
        let spec: GoldenImagePolicySpec = serde_json::from_value(spec).unwrap();
        self.policy = Policy::read(&spec).0;
    }

    /// The poll succeeds with a version.
    pub(super) fn answer(&mut self, letter: char, content: Option<&str>) {
        self.now += 60;
        let found = PolledVersion {
            digest: digest(letter),
            index: Some(digest('0')),
            content: content.map(str::to_owned),
            architectures: ["amd64", "arm64"].map(str::to_owned).into(),
            reference: None,
        };
        self.polled = Some(PollResult {
            at: Timestamp::from_second(self.now).unwrap(),
            answer: Ok(found),
        });
    }

    /// The poll fails.
    pub(super) fn refuse(&mut self, reason: Reason) {
        self.now += 60;
        self.polled = Some(PollResult {
            at: Timestamp::from_second(self.now).unwrap(),
            answer: Err(Failure::new(reason, "registry refused")),
        });
    }

    fn all<T: serde::de::DeserializeOwned>(&self, kind: Kind) -> Vec<T> {
        let objects = self.objects.iter().filter(|((it, _), _)| *it == kind);
        objects
            .map(|(_, object)| serde_json::from_value(object.clone()).unwrap())
            .collect()
    }

    pub(super) fn decide(&self) -> Decision {
        let cron: DataImportCron = serde_json::from_value(self.cron.clone()).unwrap();
        let claims: Vec<Claim> = self
            .all::<Value>(Kind::Claim)
            .into_iter()
            .map(|claim| Claim {
                metadata: serde_json::from_value(claim["metadata"].clone()).unwrap(),
                bound: claim["bound"] == true,
                mode: Some("Filesystem".to_owned()),
                capacity: Some("5Gi".to_owned()),
            })
            .collect();
        let sources = self.all::<DataSource>(Kind::DataSource);
        decide(&CronInputs {
            cron: &cron,
            polled: self.polled.as_ref(),
            hindered: self.hindered.as_ref(),
            denied: self.denied.as_ref(),
            source: sources.first(),
            rival: self.rival,
            imports: &self.all::<DataVolume>(Kind::DataVolume),
            claims: &claims,
            snapshots: &self.all::<VolumeSnapshot>(Kind::Snapshot),
            storage: &self.storage,
            nodes: &self.nodes,
            busy: &self.busy,
            policy: &self.policy,
            seed: 1,
            now: Timestamp::from_second(self.now).unwrap(),
        })
    }

    fn apply(&mut self, decision: &Decision) {
        for action in &decision.actions {
            let Named { name, .. } = action.of();
            let was_complete = self.source_is_complete();
            match action {
                Action::Create { kind, object } => {
                    if *kind == Kind::DataVolume {
                        // CDI creates a PVC with the labels and annotations of the DataVolume.
                        let claim = json!({ "metadata": object["metadata"], "bound": false });
                        self.objects.insert((Kind::Claim, name.clone()), claim);
                    }
                    let before = self.objects.insert((*kind, name.clone()), object.clone());
                    assert_eq!(before, None, "{kind:?} {name} exists already");
                }
                Action::Patch { kind, patch, .. } => {
                    let object = if *kind == Kind::DataImportCron {
                        &mut self.cron
                    } else {
                        self.objects.get_mut(&(*kind, name)).unwrap()
                    };
                    merge_patch(object, patch).unwrap();
                }
                Action::Delete { kind, .. } => {
                    // It may have been deleted with its DataVolume.
                    self.objects.remove(&(*kind, name.clone()));
                    if *kind == Kind::DataVolume {
                        self.objects.remove(&(Kind::Claim, name));
                    }
                }
            }
            let source_is_complete = self.source_is_complete();
            let lost = was_complete == Some(true) && source_is_complete == Some(false);
            assert!(!lost, "{action:?} deletes the cloneable source");
        }
        self.cron["status"] = json!(decision.status);
    }

    /// Applies decisions until nothing is left to do; returns the last one with all events on the
    /// way.
    pub(super) fn settle(&mut self) -> Decision {
        let mut events = Vec::new();
        for _ in 0..6 {
            let mut decision = self.decide();
            events.extend(decision.events.clone());
            if decision.actions.is_empty() && !decision.status_changed {
                self.now += 1;
                let later = self.decide();
                assert!(!later.status_changed, "the status changes without a cause");
                decision.events = events;
                return decision;
            }
            self.apply(&decision);
        }
        panic!("does not converge: {:#?}", self.decide());
    }

    /// Sets the phase of an import.
    pub(super) fn phase(&mut self, name: &str, phase: &str) {
        let key = (Kind::DataVolume, name.to_owned());
        let object = self.objects.get_mut(&key).unwrap();
        object["status"] = json!({ "phase": phase });
        if phase == "Succeeded" {
            let key = (Kind::Claim, name.to_owned());
            self.objects.get_mut(&key).unwrap()["bound"] = json!(true);
        }
    }

    pub(super) fn fail(&mut self, name: &str, reason: &str, message: &str) {
        let key = (Kind::DataVolume, name.to_owned());
        self.objects.get_mut(&key).unwrap()["status"] = json!({
            "phase": "ImportInProgress",
            "conditions": [{ "type": "Running", "status": "False", "reason": reason, "message": message }],
        });
    }

    /// Imports a version from poll to DataSource.
    pub(super) fn import(&mut self, letter: char) {
        self.answer(letter, None);
        self.settle();
        self.phase(&name(letter), "Succeeded");
        self.settle();
    }

    pub(super) fn condition(&self, kind: &str) -> (String, String, String) {
        let all = self.cron["status"]["conditions"].as_array().unwrap();
        let it = all.iter().find(|it| it["type"] == kind).unwrap();
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    pub(super) fn managed_source(&self) -> Value {
        let key = (Kind::DataSource, "fedora-arm64".to_owned());
        let source = self.objects.get(&key);
        source.map_or(Value::Null, |it| it["spec"]["source"].clone())
    }

    /// Whether the object that the DataSource refers to exists and is complete; `None` without a
    /// DataSource.
    fn source_is_complete(&self) -> Option<bool> {
        let source = self.managed_source();
        let is_complete = |kind: Kind, of: &Value| {
            let Some(name) = of["name"].as_str().map(str::to_owned) else {
                return false;
            };
            let import = self.objects.get(&(Kind::DataVolume, name.clone()));
            let unfinished = import.is_some_and(|it| it["status"]["phase"] != "Succeeded");
            self.objects.contains_key(&(kind, name)) && !(kind == Kind::Claim && unfinished)
        };
        let source_is_complete = is_complete(Kind::Claim, &source["pvc"])
            || is_complete(Kind::Snapshot, &source["snapshot"]);
        (!source.is_null()).then_some(source_is_complete)
    }

    pub(super) fn names(&self, kind: Kind) -> Vec<&str> {
        let objects = self.objects.keys().filter(|(it, _)| *it == kind);
        objects.map(|(_, name)| name.as_str()).collect()
    }
}

/// The name of the import of a version.
pub(super) fn name(letter: char) -> String {
    format!("fedora-arm64-{}", letter.to_string().repeat(12))
}
