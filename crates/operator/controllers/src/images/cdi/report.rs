//! What is told of imports: events, and metrics that vanish with their object.

use api::cdi::{DataImportCron, DataVolume};
use golden_images::cdi::cron::{self, OUTDATED};
use golden_images::cdi::data_volume::{Importer, State};
use golden_images::cdi::failure::Failure;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Counter, Family, Gauges};
use runtime::{Events, Key, Manager};

use super::COMPONENT;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outdated {
    namespace: String,
    cron_name: String,
    pending: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Volume {
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// Tells; clones tell the same.
#[derive(Clone)]
pub(super) struct Report {
    events: Events,
    outdated: Gauges<Outdated>,
    progress: Gauges<Volume>,
    polls: Family<Outcome, Counter>,
    imports: Family<Outcome, Counter>,
}

impl Report {
    pub(super) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            events: crate::words::events(manager, COMPONENT),
            outdated: metrics.adopted_gauges(
                OUTDATED,
                &["namespace", "cron_name", "pending"],
                "Whether the last import of a DataImportCron is not the newest",
            ),
            progress: metrics.gauges(
                "images_import_progress_percent",
                "How far the import of a DataVolume is",
            ),
            polls: metrics.counter(
                "images_polls",
                "How often a registry was asked for an image, and what came of it",
            ),
            imports: metrics.counter("images_imports", "How many imports ended, and how"),
        }
    }

    /// Tells what was decided about a DataImportCron.
    pub(super) fn cron(&self, cron: &DataImportCron, decision: &cron::Decision) {
        for event in &decision.events {
            if event.warning {
                self.events.warning(cron, event.reason, &event.message);
            } else {
                self.events.normal(cron, event.reason, &event.message);
            }
        }
        let key = Key::of(&cron.metadata);
        let series = decision.outdated.map(|it| {
            let labels = Outdated {
                namespace: key.namespace.clone(),
                cron_name: key.name.clone(),
                pending: it.pending.to_string(),
            };
            (labels, if it.outdated { 1.0 } else { 0.0 })
        });
        self.outdated.set(&key, series);
    }

    /// Takes back what was told of a DataImportCron.
    pub(super) fn forget_cron(&self, key: &Key) {
        self.outdated.forget(key);
    }

    /// Tells how a DataVolume goes on.
    pub(super) fn volume(&self, volume: &DataVolume, before: Option<&str>, after: Option<&str>) {
        if before == after {
            return;
        }
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let (reason, message) = match after {
            Some(reason @ "ImportScheduled") => (reason, format!("Import into {name} scheduled")),
            Some(reason @ "ImportInProgress") => {
                (reason, format!("Import into {name} in progress"))
            }
            Some("Succeeded") => (
                "ImportSucceeded",
                format!("Successfully imported into PVC {name}"),
            ),
            _ => return,
        };
        self.events.normal(volume, reason, message);
    }

    /// Tells that a volume cannot be had.
    pub(super) fn refused(&self, volume: &DataVolume, reason: &str, message: &str) {
        self.events.warning(volume, reason, message);
    }

    /// Tells that an importer ended.
    pub(super) fn ended(&self, volume: &DataVolume, failure: Option<&Failure>) {
        let result = failure.map_or("Succeeded", |it| it.reason.as_str());
        self.imports.get_or_create(&Outcome { result }).inc();
        if let Some(failure) = failure {
            self.events
                .warning(volume, failure.reason.as_str(), &failure.message);
        }
    }

    /// Tells how far an importer is.
    pub(super) fn progress(&self, key: &Key, importer: Option<&Importer>) {
        let parts = match importer.map(|it| &it.state) {
            Some(State::Running(parts)) => parts.unwrap_or_default(),
            _ => return self.progress.forget(key),
        };
        let labels = Volume {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        self.progress.set(key, [(labels, f64::from(parts) / 100.0)]);
    }

    /// Tells that a registry was asked.
    pub(super) fn polled(&self, failure: Option<&Failure>) {
        let result = failure.map_or("Succeeded", |it| it.reason.as_str());
        self.polls.get_or_create(&Outcome { result }).inc();
    }
}
