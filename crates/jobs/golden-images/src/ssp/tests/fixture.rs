//! A simulated cluster: applies decisions, and imports as CDI does.

use std::collections::BTreeMap;

use api::cdi::{DataImportCron, DataSource, Named, labels};
use api::golden::GoldenImagePolicySpec;
use api::ssp::{ARCHITECTURES, SSP};
use jiff::Timestamp;
use machinery::patch::merge_patch;
use serde_json::{Value, json};

use crate::action::{Action, Kind, named};
use crate::architectures::Counts;
use crate::policy::Policy;
use crate::ssp::{Decision, SspInputs, Volumes, decide};

pub(super) const HOME: &str = "kubevirt-os-images";

pub(super) struct SspFixture {
    pub(super) ssp: SSP,
    pub(super) objects: BTreeMap<(Kind, Named), Value>,
    pub(super) bundle: Vec<Value>,
    pub(super) policy: Policy,
    pub(super) now: i64,
    pub(super) nodes: Counts,
}

impl SspFixture {
    /// The switch is on, for a control plane and workers of these architectures.
    pub(super) fn new(control_plane: &[&str], workload: &[&str]) -> Self {
        let ssp = json!({
            "apiVersion": "ssp.kubevirt.io/v1beta3",
            "kind": "SSP",
            "metadata": { "name": "ssp", "namespace": "kubevirt" },
            "spec": {
                "enableMultipleArchitectures": true,
                "cluster": { "controlPlaneArchitectures": control_plane, "workloadArchitectures": workload },
                "commonTemplates": { "namespace": "openshift" },
            },
        });
        Self {
            ssp: serde_json::from_value(ssp).unwrap(),
            objects: BTreeMap::new(),
            bundle: Vec::new(),
            policy: Policy::default(),
            now: 1_000_000,
            nodes: Counts::new(),
        }
    }

    pub(super) fn templates(mut self, templates: &[Value]) -> Self {
        self.ssp.spec.common_templates.data_import_cron_templates =
            serde_json::from_value(json!(templates)).unwrap();
        self
    }

    pub(super) fn policy(&mut self, spec: Value) {
        let spec: GoldenImagePolicySpec = serde_json::from_value(spec).unwrap();
        self.policy = Policy::read(&spec).0;
    }

    pub(super) fn workload(&mut self, names: &[&str]) {
        let cluster = self.ssp.spec.cluster.get_or_insert_default();
        cluster.workload_architectures = names.iter().map(|it| (*it).to_owned()).collect();
    }

    pub(super) fn switch(&mut self, on: bool) {
        self.ssp.spec.enable_multiple_architectures = Some(on);
    }

    fn all<T: serde::de::DeserializeOwned>(&self, kind: Kind) -> Vec<T> {
        let objects = self.objects.iter().filter(|((it, _), _)| *it == kind);
        objects
            .map(|(_, object)| serde_json::from_value(object.clone()).unwrap())
            .collect()
    }

    fn labels(&self, kind: Kind) -> BTreeMap<Named, BTreeMap<String, String>> {
        let objects = self.objects.iter().filter(|((it, _), _)| *it == kind);
        objects
            .map(|((_, name), object)| {
                let labels = object["metadata"]["labels"].clone();
                let labels = serde_json::from_value(labels).unwrap_or_default();
                (name.clone(), labels)
            })
            .collect()
    }

    pub(super) fn decide(&self) -> Decision {
        let volumes = Volumes {
            claims: self.labels(Kind::Claim),
            snapshots: self.labels(Kind::Snapshot),
            imports: self.labels(Kind::DataVolume),
        };
        decide(&SspInputs {
            ssp: &self.ssp,
            crons: &self.all::<DataImportCron>(Kind::DataImportCron),
            sources: &self.all::<DataSource>(Kind::DataSource),
            volumes: &volumes,
            bundle: &self.bundle,
            templates: &self.all::<Value>(Kind::Template),
            policy: &self.policy,
            nodes: &self.nodes,
            own_architecture: "amd64",
            now: Timestamp::from_second(self.now).unwrap(),
        })
    }

    pub(super) fn apply(&mut self, decision: &Decision) {
        for action in &decision.actions {
            match action {
                Action::Create { kind, object } => {
                    let key = (*kind, action.of());
                    assert!(!self.objects.contains_key(&key), "{key:?} exists already");
                    self.objects.insert(key, object.clone());
                }
                Action::Patch {
                    kind, of, patch, ..
                } => {
                    let object = self.objects.get_mut(&(*kind, of.clone())).unwrap();
                    merge_patch(object, patch).unwrap();
                }
                Action::Delete { kind, of, .. } => {
                    // It may have been deleted with its DataImportCron.
                    self.objects.remove(&(*kind, of.clone()));
                    if *kind == Kind::DataImportCron {
                        self.clean_up(of);
                    }
                }
            }
            self.reconcile_data_sources();
        }
    }

    /// CDI's cleanup after a DataImportCron is deleted.
    fn clean_up(&mut self, cron: &Named) {
        self.objects.retain(|(_, name), object| {
            let found = &object["metadata"]["labels"];
            name.namespace != cron.namespace
                || found[labels::DATA_IMPORT_CRON] != cron.name.as_str()
                || found[labels::CLEANUP] != "true"
        });
    }

    /// Applies decisions until nothing is left to do.
    pub(super) fn settle(&mut self) -> Decision {
        for _ in 0..10 {
            let decision = self.decide();
            if decision.actions.is_empty() {
                return decision;
            }
            self.apply(&decision);
        }
        panic!("does not converge: {:?}", self.decide().actions);
    }

    /// CDI's DataSource controller.
    pub(super) fn reconcile_data_sources(&mut self) {
        let known = self.objects.clone();
        for ((kind, key), object) in &mut self.objects {
            if *kind != Kind::DataSource {
                continue;
            }
            let source = object["spec"]["source"].clone();
            let mut source = source;
            if let Some(to) = source["dataSource"]["name"].as_str() {
                let to = (Kind::DataSource, named(&key.namespace, to));
                let to = known.get(&to);
                source = to.map_or(Value::Null, |to| to["spec"]["source"].clone());
            }
            let there = |kind, part: &str| {
                let name = source[part]["name"].as_str();
                name.is_some_and(|name| known.contains_key(&(kind, named(&key.namespace, name))))
            };
            let ready = there(Kind::Claim, "pvc") || there(Kind::Snapshot, "snapshot");
            object["status"] = json!({
                "source": {},
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
            });
        }
    }

    /// CDI's part of a successful import.
    pub(super) fn import(&mut self, cron: &str) {
        let key = (Kind::DataImportCron, named(HOME, cron));
        let cron: DataImportCron = serde_json::from_value(self.objects[&key].clone()).unwrap();
        let source = cron.spec.managed_data_source.clone();
        let volume = format!("{source}-0123456789ab");
        let mut own = json!({ labels::DATA_IMPORT_CRON: key.1.name });
        if cron.spec.cleans_up() {
            own[labels::CLEANUP] = json!("true");
        }
        self.put(Kind::Claim, &volume, &own);
        let source = (Kind::DataSource, named(HOME, &source));
        let object = self.objects.get_mut(&source).unwrap();
        if object["metadata"]["labels"][labels::DATA_IMPORT_CRON] == key.1.name.as_str() {
            object["spec"]["source"] = json!({ "pvc": { "namespace": HOME, "name": volume } });
            // CDI copies the labels of the PVC.
            merge_patch(object, &json!({ "metadata": { "labels": own } })).unwrap();
        }
        self.reconcile_data_sources();
    }

    /// A user creates an object manually.
    pub(super) fn put(&mut self, kind: Kind, name: &str, labels: &Value) {
        let object = json!({ "metadata": { "name": name, "namespace": HOME, "labels": labels } });
        self.objects.insert((kind, named(HOME, name)), object);
        self.reconcile_data_sources();
    }

    /// A user creates a DataSource manually.
    pub(super) fn put_source(&mut self, name: &str, source: &Value) {
        let object = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
            "metadata": { "name": name, "namespace": HOME }, "spec": { "source": source },
        });
        let key = (Kind::DataSource, named(HOME, name));
        self.objects.insert(key, object);
        self.reconcile_data_sources();
    }

    pub(super) fn names(&self, kind: Kind) -> Vec<&str> {
        let objects = self.objects.keys().filter(|(it, _)| *it == kind);
        objects.map(|(_, name)| name.name.as_str()).collect()
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> &Value {
        &self.objects[&(kind, named(HOME, name))]
    }

    /// `spec.source` of a DataSource.
    pub(super) fn source(&self, name: &str) -> &Value {
        &self.get(Kind::DataSource, name)["spec"]["source"]
    }

    pub(super) fn is_ready(&self, name: &str) -> bool {
        let object = self.objects.get(&(Kind::DataSource, named(HOME, name)));
        object.is_some_and(|it| it["status"]["conditions"][0]["status"] == "True")
    }
}

/// A DataImportCronTemplate.
pub(super) fn template(name: &str, source: &str, architectures: Option<&str>) -> Value {
    let mut annotations = json!({ "cdi.kubevirt.io/storage.bind.immediate.requested": "true" });
    if let Some(list) = architectures {
        annotations[ARCHITECTURES] = json!(list);
    }
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "garbageCollect": "Outdated", "importsToKeep": 1, "retentionPolicy": "None",
            "managedDataSource": source, "schedule": "0 */12 * * *",
            "template": { "spec": {
                "source": { "registry": { "url": format!("docker://quay.io/containerdisks/{source}") } },
                "storage": { "resources": { "requests": { "storage": "10Gi" } } },
            } },
        },
    })
}

/// A VM template.
pub(super) fn vm_template(name: &str, source: &str, architecture: &str) -> Value {
    json!({
        "apiVersion": "template.openshift.io/v1", "kind": "Template",
        "metadata": {
            "name": name,
            "labels": { labels::ARCHITECTURE: architecture, "os.template.kubevirt.io/fedora": "true" },
        },
        "objects": [{
            "kind": "VirtualMachine",
            "spec": { "dataVolumeTemplates": [{ "spec": { "sourceRef": {
                "kind": "DataSource", "name": "${DATA_SOURCE_NAME}",
            } } }] },
        }],
        "parameters": [
            { "name": "NAME" },
            { "name": "DATA_SOURCE_NAME", "value": source },
        ],
    })
}
