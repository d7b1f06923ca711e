//! Reports that the importer is deployed, and copies its configuration to the CDIConfig.

use kube::Client;
use kube::api::DynamicObject;
use runtime::{Absent as _, Error, Key, Manager, Next, Reconcile};
use serde_json::{Value, json};

use crate::operators::conditions::NewCondition;
use crate::operators::kinds::importer;
use crate::operators::names::IMPORTER_CONFIG;
use crate::operators::report::{Objects, conditions};

/// Default share of file system overhead.
const OVERHEAD: &str = "0.06";

struct Operator {
    importers: Objects,
    configs: Objects,
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
    configs.cache.synced().await;
    manager.start(Operator { importers, configs }, &queue, 1);
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
        let global = wanted.pointer("/filesystemOverhead/global");
        let global = global.and_then(Value::as_str).unwrap_or(OVERHEAD);
        let mut overhead = json!({ "global": global });
        if let Some(classes) = wanted.pointer("/filesystemOverhead/storageClass") {
            overhead["storageClass"] = classes.clone();
        }
        let status = json!({ "filesystemOverhead": overhead });
        self.configs.report(&config, status).await.map(drop)
    }
}
