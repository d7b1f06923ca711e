//! Events on transitions, and metrics that vanish with their object.

use std::collections::BTreeSet;
use std::time::Duration;

use api::advisor::{Action, DriftClass, VirtPlatformConfig};
use api::mode::Ownership;
use governance::conditions;
use governance::decide::Decision;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Gauges, Histograms};
use runtime::{Events, Key, Manager};

use super::COMPONENT;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Config {
    config: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    config: String,
    phase: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfHealth {
    config: String,
    /// Of the condition: `True`, `False` or `Unknown`.
    status: String,
}

/// Events and metrics of all configurations.
pub(crate) struct Report {
    events: Events,
    drift: Gauges<Config>,
    drifted_fields: Gauges<Config>,
    phase: Gauges<InPhase>,
    health: Gauges<OfHealth>,
    planned: Gauges<Config>,
    takeovers: Gauges<Config>,
    paused: Gauges<Config>,
    durations: Histograms<Config>,
    /// Configurations that are left to the prototype's operator, so that an event is emitted only when that begins.
    stepped_back: Mutex<BTreeSet<Key>>,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            events: crate::reasons::events(manager, COMPONENT),
            drift: metrics.gauges(
                "governance_drift",
                "1 if another field manager changed what the configuration applied",
            ),
            drifted_fields: metrics.gauges(
                "governance_drift_fields",
                "Fields of the targets that differ from the applied values",
            ),
            phase: metrics.gauges(
                "governance_phase",
                "1 for the current phase of a VirtPlatformConfig",
            ),
            health: metrics.gauges(
                "governance_health",
                "1 for the current status of the condition Healthy of a VirtPlatformConfig",
            ),
            planned: metrics.gauges(
                "governance_plan_timestamp_seconds",
                "Creation time of the pending or running plan, in seconds since the epoch",
            ),
            takeovers: metrics.gauges(
                "governance_takeovers",
                "Fields that the plan takes over from other field managers",
            ),
            paused: metrics.gauges(
                "governance_enforcement_paused",
                "1 if drift correction is paused because another field manager keeps reverting it",
            ),
            durations: metrics.seconds(
                "governance_apply_duration_seconds",
                "Time to apply an item to its target",
            ),
            stepped_back: Mutex::default(),
        }
    }

    /// Reports who reconciles a configuration. One that the prototype's operator reconciles has no series here.
    pub(super) fn report_owner(
        &self,
        key: &Key,
        config: Option<&VirtPlatformConfig>,
        ownership: &Ownership,
    ) {
        let mut stepped_back = self.stepped_back.lock();
        let Some(config) = config.filter(|_| !ownership.manages()) else {
            stepped_back.remove(key);
            return;
        };
        self.forget(&key.name);
        if stepped_back.insert(key.clone()) {
            self.events
                .warning(config, ownership.reason, &ownership.message);
        }
    }

    /// Emits the events of a decision and updates the metrics.
    pub(super) fn report_decision(&self, config: &VirtPlatformConfig, decision: &Decision) {
        for notice in &decision.notices {
            if notice.warning {
                self.events.warning(config, &notice.reason, &notice.message);
            } else {
                self.events.normal(config, &notice.reason, &notice.message);
            }
        }
        let name = config.name_any();
        // A configuration that only advertises its profile has no series: a gauge of 0 for every profile would make
        // "no drift" and "not used" look alike.
        if config.spec.action == Action::Ignore {
            self.forget(&name);
            return;
        }
        let key = Key::of(&config.metadata);
        let status = &decision.status;
        let labels = || Config {
            config: name.clone(),
        };
        let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        // Drift counts edits by other managers; changed inputs and new operator versions are reported by conditions.
        let edited = status.drift.iter();
        let edited = edited
            .filter(|drift| drift.class == DriftClass::ExternalEdit)
            .count();
        let is_drifted = f64::from(u8::from(edited > 0));
        self.drift.set(&key, [(labels(), is_drifted)]);
        self.drifted_fields.set(&key, [(labels(), count(edited))]);
        let phase = status.phase.map(|phase| {
            let labels = InPhase {
                config: name.clone(),
                phase: phase.as_str(),
            };
            (labels, 1.0)
        });
        self.phase.set(&key, phase);
        // Before anything is in force there is no condition, and nothing is known.
        let healthy = conditions::get(&status.conditions, conditions::HEALTHY);
        let healthy = healthy.map_or("Unknown", |healthy| healthy.status.as_str());
        let healthy = OfHealth {
            config: name.clone(),
            status: healthy.to_owned(),
        };
        self.health.set(&key, [(healthy, 1.0)]);
        let takeovers = status.items.iter().map(|item| item.takeovers.len()).sum();
        self.takeovers.set(&key, [(labels(), count(takeovers))]);
        let paused = status
            .enforcement
            .as_ref()
            .is_some_and(|known| known.paused);
        self.paused
            .set(&key, [(labels(), if paused { 1.0 } else { 0.0 })]);
        let waiting = ["ReviewRequired", "InProgress"]
            .into_iter()
            .filter_map(|kind| conditions::get(&status.conditions, kind))
            .find(|condition| condition.status == "True");
        let since =
            waiting.map(|condition| (labels(), condition.last_transition_time.0.as_second()));
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 are exact in a double"
        )]
        let since = since.map(|(labels, second)| (labels, second as f64));
        self.planned.set(&key, since);
    }

    /// Records how long applying an item took.
    pub(super) fn record_apply(&self, config: &str, took: Duration) {
        let labels = Config {
            config: config.to_owned(),
        };
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// Removes the metrics of a deleted configuration.
    pub(super) fn forget(&self, config: &str) {
        let key = Key::new("", config);
        self.drift.forget(&key);
        self.drifted_fields.forget(&key);
        self.phase.forget(&key);
        self.health.forget(&key);
        self.takeovers.forget(&key);
        self.paused.forget(&key);
        self.planned.forget(&key);
        self.durations.remove(&Config {
            config: config.to_owned(),
        });
    }
}
