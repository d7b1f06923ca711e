//! The history, as ControllerRevisions in the namespace of the operator.
//!
//! A ControllerRevision is immutable data, which suits a history; the outcome of a plan is added as an annotation. The
//! last ten entries of each configuration are kept, and older ones that hold the previous values of an item still in
//! force.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::VirtPlatformConfig;
pub use cluster_view::history::records;
use governance::record::{
    CONFIG_LABEL, OUTCOME_ANNOTATION, Outcome, Record, prunable, records_of, superseded,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::ObjectMeta;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use runtime::{Cache, Error, Key, Manager, Writer};
use serde_json::json;

pub(super) struct History {
    writer: Writer<ControllerRevision>,
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
        let cache = manager.watch(Cache::follow(api.clone()));
        Self {
            writer: Writer::new(api, super::COMPONENT).shown_by(&cache),
            cache,
            read: Mutex::default(),
        }
    }

    /// Waits until the cache has synced.
    pub(super) async fn synced(&self) {
        self.cache.synced().await;
    }

    /// All ControllerRevisions in the namespace: the history, and the audit log.
    pub(super) fn entries(&self) -> &Cache<ControllerRevision> {
        &self.cache
    }

    /// Writes ControllerRevisions.
    pub(super) fn writer(&self) -> &Writer<ControllerRevision> {
        &self.writer
    }

    /// The entries of a configuration, oldest first.
    pub(super) fn of(&self, config: &str) -> Arc<[Record]> {
        let mut entries = self.cache.list();
        entries.retain(|entry| {
            entry
                .labels()
                .get(CONFIG_LABEL)
                .is_some_and(|of| of == config)
        });
        let from: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name_any(), entry.resource_version()))
            .collect();
        let mut known = self.read.lock();
        // By name and resource version of all entries: an outcome that is added
        // changes the version, a pruned entry the list.
        if let Some(read) = known.get(config).filter(|read| read.from == from) {
            return Arc::clone(&read.records);
        }
        let records: Arc<[Record]> = records_of(entries.iter().map(|it| &**it)).into();
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
                name: Some(name),
                labels: Some([(CONFIG_LABEL.to_owned(), config)].into()),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(data)),
            revision: record.revision,
        };
        // `create` and not apply: an entry of this revision that exists was written by an earlier attempt, the
        // conflict requeues, and the next decision finds it in the cache.
        self.writer.create(&entry).await?;
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
        // The API server rejects changes of `data` in a ControllerRevision
        // (`pkg/apis/apps/validation/validation.go`), so the outcome is an annotation.
        let patch = json!({ "metadata": { "annotations": { OUTCOME_ANNOTATION: encoded } } });
        self.writer.merge(&Key::new("", name), &patch).await?;
        Ok(())
    }

    /// Closes the entries of a configuration that was deleted: no plan continues them.
    pub(super) async fn close_all(&self, config: &str, now: Timestamp) -> Result<(), Error> {
        let records = self.of(config);
        // Each write is in the cache when it returns, but `records` is from before.
        for record in records.iter().filter(|record| record.outcome.is_none()) {
            let outcome = superseded("The configuration was deleted", now);
            self.close(config, record.revision, &outcome).await?;
        }
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
            let entries = self.cache.list().into_iter();
            for entry in entries.filter(|entry| entry.name_any() == name) {
                self.writer.delete(&entry.metadata).await?;
            }
        }
        Ok(())
    }
}

fn entry_name(config: &str, revision: i64) -> String {
    format!("{config}-{revision}")
}
