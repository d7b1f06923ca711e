//! Reports that the importer is deployed, and copies its configuration to the CDIConfig.

use std::collections::BTreeSet;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use kube::api::DynamicObject;
use runtime::{Absent as _, Cache, Error, Key, Manager, Next, Reconcile};
use serde_json::{Map, Value, json};

use crate::names::name_of;
use crate::operators::conditions::NewCondition;
use crate::operators::kinds::importer;
use crate::operators::names::IMPORTER_CONFIG;
use crate::operators::report::{Objects, conditions};

/// Default share of file system overhead.
const OVERHEAD: &str = "0.06";

struct Operator {
    importers: Objects,
    configs: Objects,
    classes: Cache<StorageClass>,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let (importers, queue) = Objects::start(manager, &client, importer("CDI")).await;
    let configs = Objects::follow(manager, &client, importer("CDIConfig"));
    // Any change of the CDIConfig enqueues the CDI object it is derived from.
    let all = importers.cache.clone();
    queue.enqueue_mapped(&configs.cache, move |_| {
        let all = all.list();
        all.iter()
            .map(|object| Key::of(&object.metadata))
            .collect::<Vec<_>>()
    });
    let classes = manager.cache::<StorageClass>();
    let all = importers.cache.clone();
    queue.enqueue_mapped(&classes, move |_| {
        let all = all.list();
        all.iter()
            .map(|object| Key::of(&object.metadata))
            .collect::<Vec<_>>()
    });
    tokio::join!(configs.cache.synced(), classes.synced());
    let operator = Operator {
        importers,
        configs,
        classes,
    };
    manager.start(operator, &queue, 1);
}

impl Reconcile for Operator {
    fn name(&self) -> &'static str {
        "importer-operator"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.importers.cache.find(key) else {
            return Ok(Next::Wait);
        };
        let config = object.data.pointer("/spec/config");
        self.update_config(config.unwrap_or(&Value::Null)).await?;
        let new_conditions = [
            ("Available", true),
            ("Progressing", false),
            ("Degraded", false),
        ];
        let new_conditions = new_conditions.map(|(about, holds)| {
            NewCondition::with_reason(about, holds, "DeployCompleted", "Deployment Completed")
        });
        let status = json!({
            "phase": "Deployed",
            "conditions": conditions(&object, new_conditions.into()),
        });
        self.importers.report(&object, status).await?;
        Ok(Next::Wait)
    }
}

impl Operator {
    /// Copies the configuration to the CDIConfig.
    async fn update_config(&self, wanted: &Value) -> Result<(), Error> {
        let Some(config) = self.configs.cache.get("", IMPORTER_CONFIG) else {
            return Ok(());
        };
        let wanted = match wanted {
            Value::Object(_) => wanted.clone(),
            _ => json!({}),
        };
        if config.data.get("spec") != Some(&wanted) {
            // An update instead of a patch, so that removed settings are removed here, too.
            let mut changed = DynamicObject::clone(&config);
            changed.data["spec"] = wanted.clone();
            let replaced = self.configs.writer.replace(&changed).await;
            replaced.not_found_as_none()?;
        }
        let classes = self.classes.list();
        let classes: BTreeSet<&str> = classes.iter().map(|it| name_of(&it.metadata)).collect();
        let mut status = effective(&wanted, &classes);
        // A merge patch keeps the entries that it does not name.
        let known = config
            .data
            .pointer("/status/filesystemOverhead/storageClass");
        for class in known
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
        {
            if !classes.contains(class.as_str()) {
                status["filesystemOverhead"]["storageClass"][class] = Value::Null;
            }
        }
        self.configs.report(&config, status).await.map(drop)
    }
}

/// The status of a CDIConfig: the settings with CDI's defaults, for these storage classes; null for a field to remove.
fn effective(wanted: &Value, classes: &BTreeSet<&str>) -> Value {
    let overheads = &wanted["filesystemOverhead"];
    let global = overheads["global"].as_str().unwrap_or(OVERHEAD);
    let of_class = |class: &&str| {
        let own = overheads["storageClass"][*class].as_str();
        ((*class).to_owned(), json!(own.unwrap_or(global)))
    };
    let by_class: Map<String, Value> = classes.iter().map(of_class).collect();
    let scratch = wanted["scratchSpaceStorageClass"].as_str();
    let mut requirements = json!({
        "limits": { "cpu": "750m", "memory": "600M" },
        "requests": { "cpu": "100m", "memory": "60M" },
    });
    for (kind, amounts) in requirements.as_object_mut().into_iter().flatten() {
        for (resource, amount) in amounts.as_object_mut().into_iter().flatten() {
            let own = &wanted["podResourceRequirements"][kind][resource];
            if !own.is_null() {
                *amount = own.clone();
            }
        }
    }
    let proxy = |field: &str| wanted["importProxy"][field].as_str().unwrap_or_default();
    let fields = ["HTTPProxy", "HTTPSProxy", "noProxy", "trustedCAProxy"];
    let proxies: Map<String, Value> = fields
        .map(|field| (field.to_owned(), json!(proxy(field))))
        .into_iter()
        .collect();
    json!({
        "defaultPodResourceRequirements": requirements,
        "filesystemOverhead": { "global": global, "storageClass": by_class },
        "importProxy": proxies,
        "preallocation": wanted["preallocation"].as_bool().filter(|it| *it),
        "scratchSpaceStorageClass": scratch.filter(|class| classes.contains(class)),
    })
}
