//! Events of imports, and metrics that vanish with their object.

use api::cdi::{DataImportCron, DataVolume};
use api::golden::{NAME, Verification};
use golden_images::cdi::cron::{self, OUTDATED};
use golden_images::cdi::data_volume::{Importer, State};
use golden_images::cdi::failure::{Failure, Reason};
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
struct VerifiedDisk {
    namespace: String,
    data_source: String,
    architecture: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// Events and metrics, shared by clones.
#[derive(Clone)]
pub(crate) struct Report {
    events: Events,
    outdated: Gauges<Outdated>,
    progress: Gauges<Volume>,
    mismatches: Gauges<VerifiedDisk>,
    polls: Family<Outcome, Counter>,
    imports: Family<Outcome, Counter>,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            events: crate::reasons::events(manager, COMPONENT),
            outdated: metrics.adopted_gauges(
                OUTDATED,
                &["namespace", "cron_name", "pending"],
                "1 if the last import of a DataImportCron is outdated",
            ),
            progress: metrics.gauges(
                "images_import_progress_percent",
                "Progress of the import of a DataVolume",
            ),
            mismatches: metrics.gauges(
                "images_architecture_mismatch",
                "1 if the disk of a DataSource is for another architecture, while CDI imports; absent if it cannot be verified",
            ),
            polls: metrics.counter("images_polls", "Polls of image sources, by result"),
            imports: metrics.counter("images_imports", "Ended imports, by result"),
        }
    }

    /// Emits the events of a decision on a DataImportCron.
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

    /// Removes the metrics of a DataImportCron.
    pub(super) fn forget_cron(&self, key: &Key) {
        self.outdated.forget(key);
    }

    /// Emits the event of a phase transition of a DataVolume.
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

    /// Emits a warning for a claim that cannot be created.
    pub(super) fn warn_unavailable(&self, volume: &DataVolume, reason: &str, message: &str) {
        self.events.warning(volume, reason, message);
    }

    /// Counts an ended import, and emits a warning if it failed.
    pub(super) fn count_import(&self, volume: &DataVolume, failure: Option<&Failure>) {
        let result = failure.map_or("Succeeded", |it| it.reason.as_str());
        self.imports.get_or_create(&Outcome { result }).inc();
        if let Some(failure) = failure {
            self.events
                .warning(volume, failure.reason.as_str(), &failure.message);
        }
    }

    /// Updates the progress of an import.
    pub(super) fn progress(&self, key: &Key, importer: Option<&Importer>) {
        let parts = match importer.map(|it| &it.state) {
            Some(State::Running(parts)) => parts.unwrap_or_default(),
            // A series that stayed after the import would show 100 percent for as long as the process runs.
            _ => return self.progress.forget(key),
        };
        let labels = Volume {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        self.progress.set(key, [(labels, f64::from(parts) / 100.0)]);
    }

    /// Updates the metric of verified disks, and removes that of others.
    pub(super) fn verifications(&self, all: &[Verification]) {
        let series = all.iter().filter_map(|it| {
            let value = match it.result.as_str() {
                "Mismatch" => 1.0,
                "Verified" => 0.0,
                _ => return None,
            };
            let labels = VerifiedDisk {
                namespace: it.namespace.clone(),
                data_source: it.data_source.clone(),
                architecture: it.architecture.clone(),
            };
            Some((labels, value))
        });
        self.mismatches.set(&Key::new("", NAME), series);
    }

    /// Emits a warning for a disk that is for another architecture.
    pub(super) fn warn_mismatch(&self, cron: &DataImportCron, message: &str) {
        let reason = Reason::ArchitectureMismatch.as_str();
        self.events.warning(cron, reason, message);
    }

    /// Counts a poll.
    pub(super) fn count_poll(&self, failure: Option<&Failure>) {
        let result = failure.map_or("Succeeded", |it| it.reason.as_str());
        self.polls.get_or_create(&Outcome { result }).inc();
    }
}
