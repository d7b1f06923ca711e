//! The history, as ControllerRevisions in the namespace of the operator.
//!
//! A ControllerRevision is immutable data, which suits a history; the outcome of a plan is added as an annotation. The
//! last ten entries of each configuration are kept, and older ones that hold the previous values of an item still in
//! force.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::VirtPlatformConfig;
use governance::record::{Outcome, Record, prunable};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use runtime::{Absent as _, Cache, Error, Manager};
use serde_json::json;

/// Label: the configuration of an entry.
pub(super) const CONFIG: &str = "advisor.kubevirt.io/config";
/// Annotation: the outcome of the plan, as JSON.
const OUTCOME: &str = "advisor.kubevirt.io/outcome";

pub(super) struct History {
    api: Api<ControllerRevision>,
    cache: Cache<ControllerRevision>,
    /// Decoded entries by configuration: they are large, and every reconcile reads them.
    read: Mutex<BTreeMap<String, DecodedEntries>>,
}

/// Decoded entries of one configuration.
struct DecodedEntries {
    /// Name and resourceVersion of the entries they were decoded from.
    from: Vec<(String, Option<String>)>,
    /// Oldest first.
    records: Arc<[Record]>,
}

impl History {
    /// Starts watching the history in a namespace.
    pub(super) fn follow(manager: &Manager, namespace: &str) -> Self {
        let api = Api::namespaced(manager.client(), namespace);
        let (cache, running) = Cache::follow(api.clone());
        manager.spawn(running);
        Self {
            api,
            cache,
            read: Mutex::default(),
        }
    }

    /// Waits until the cache has synced.
    pub(super) async fn synced(&self) {
        self.cache.synced().await;
    }

    /// The entries of a configuration, oldest first.
    pub(super) fn of(&self, config: &str) -> Arc<[Record]> {
        let mut entries = self.cache.list();
        entries.retain(|entry| entry.labels().get(CONFIG).is_some_and(|of| of == config));
        let from: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name_any(), entry.resource_version()))
            .collect();
        let mut known = self.read.lock();
        if let Some(read) = known.get(config).filter(|read| read.from == from) {
            return Arc::clone(&read.records);
        }
        let records = entries.iter().filter_map(|entry| read(entry));
        let records: Arc<[Record]> = sorted(records.collect()).into();
        let read = DecodedEntries {
            from,
            records: Arc::clone(&records),
        };
        known.insert(config.to_owned(), read);
        records
    }

    /// Creates the entry of a plan before its first item is applied.
    pub(super) async fn begin(
        &self,
        config: &VirtPlatformConfig,
        record: &Record,
    ) -> Result<(), Error> {
        let config = config.name_any();
        let name = entry_name(&config, record.revision);
        let data = serde_json::to_value(record).map_err(|error| {
            Error::Invalid(format!("writing entry {name} of the history: {error}"))
        })?;
        let entry = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(CONFIG.to_owned(), config)].into()),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(data)),
            revision: record.revision,
        };
        let created = self
            .api
            .create(&PostParams::default(), &entry)
            .await
            .map_err(Error::api(format!("writing entry {name} of the history")))?;
        self.cache.saw(&created).await;
        Ok(())
    }

    /// Records the outcome of a plan in its entry.
    pub(super) async fn close(
        &self,
        config: &str,
        revision: i64,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let name = entry_name(config, revision);
        let encoded = serde_json::to_string(outcome).map_err(|error| {
            Error::Invalid(format!("closing entry {name} of the history: {error}"))
        })?;
        let patch = json!({ "metadata": { "annotations": { OUTCOME: encoded } } });
        let closed = self
            .api
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::api(format!("closing entry {name} of the history")))?;
        self.cache.saw(&closed).await;
        Ok(())
    }

    /// Deletes entries beyond the limit that hold no previous values still needed.
    pub(super) async fn prune(&self, config: &VirtPlatformConfig) -> Result<(), Error> {
        let records = self.of(&config.name_any());
        let in_force = config
            .status
            .as_ref()
            .map(|status| status.applied.as_slice());
        for revision in prunable(&records, in_force.unwrap_or_default()) {
            let name = entry_name(&config.name_any(), revision);
            self.api
                .delete(&name, &DeleteParams::default())
                .await
                .not_found_as_none()
                .map_err(Error::api(format!("deleting entry {name} of the history")))?;
        }
        Ok(())
    }
}

/// The history of a configuration, listed from the API server: for the CLI and tests.
pub async fn records(client: &Client, namespace: &str, config: &str) -> Result<Vec<Record>, Error> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let listed = api
        .list(&ListParams::default().labels(&format!("{CONFIG}={config}")))
        .await
        .map_err(Error::api(format!(
            "listing the history of VirtPlatformConfig {config}"
        )))?;
    Ok(sorted(listed.items.iter().filter_map(read).collect()))
}

fn entry_name(config: &str, revision: i64) -> String {
    format!("{config}-{revision}")
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| record.revision);
    records
}

/// Decodes an entry; `None` for a ControllerRevision of another controller.
fn read(entry: &ControllerRevision) -> Option<Record> {
    let data = entry.data.as_ref()?.0.clone();
    let mut record: Record = serde_json::from_value(data).ok()?;
    record.outcome = entry
        .annotations()
        .get(OUTCOME)
        .and_then(|encoded| serde_json::from_str(encoded).ok());
    Some(record)
}
