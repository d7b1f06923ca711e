//! Reports that the importer is deployed, and copies its configuration to the CDIConfig.

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use runtime::{Absent as _, Error, Key, Manager, Next, Reconcile};
use serde_json::{Value, json};

use crate::operators::conditions::NewCondition;
use crate::operators::kinds::importer;
use crate::operators::names::IMPORTER_CONFIG;
use crate::operators::report::{Reports, conditions};

/// Default share of file system overhead.
const OVERHEAD: &str = "0.06";

struct Operator {
    client: Client,
    importers: Reports,
    configs: Reports,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let (importers, queue) = Reports::start(manager, client.clone(), importer("CDI")).await;
    let (configs, running) = Reports::follow(client.clone(), importer("CDIConfig"));
    manager.spawn(running);
    // Any change of the CDIConfig enqueues the CDI object it is derived from.
    let (to, all) = (queue.clone(), importers.objects.clone());
    configs.objects.on_change(move |_| {
        for object in all.list() {
            to.add(Key::of(&object.metadata));
        }
    });
    configs.objects.synced().await;
    let operator = Operator {
        client,
        importers,
        configs,
    };
    manager.start(operator, &queue, 1);
}

impl Reconcile for Operator {
    fn name(&self) -> &'static str {
        "importer-operator"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.importers.objects.find(key) else {
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
        let Some(config) = self.configs.objects.get("", IMPORTER_CONFIG) else {
            return Ok(());
        };
        let wanted = match wanted {
            Value::Object(_) => wanted.clone(),
            _ => json!({}),
        };
        if config.data.get("spec") != Some(&wanted) {
            let api: Api<DynamicObject> =
                Api::all_with(self.client.clone(), &importer("CDIConfig"));
            // An update instead of a patch, so that removed settings are removed here, too.
            let mut changed = DynamicObject::clone(&config);
            changed.data["spec"] = wanted.clone();
            let replaced = api
                .replace(IMPORTER_CONFIG, &PostParams::default(), &changed)
                .await
                .not_found_as_none()
                .map_err(Error::api(format!("replace CDIConfig {IMPORTER_CONFIG}")))?;
            if let Some(replaced) = replaced {
                self.configs.objects.saw(&replaced).await;
            }
        }
        let global = wanted.pointer("/filesystemOverhead/global");
        let global = global.and_then(Value::as_str).unwrap_or(OVERHEAD);
        let mut overhead = json!({ "global": global });
        if let Some(classes) = wanted.pointer("/filesystemOverhead/storageClass") {
            overhead["storageClass"] = classes.clone();
        }
        self.configs
            .report(&config, json!({ "filesystemOverhead": overhead }))
            .await
    }
}
