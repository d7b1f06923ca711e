//! Which pods are placed, and how: the PlacementPolicies of a cluster.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::mode::{ModeSetting, Ownership};
use api::operators::RunningOperator;
use api::placement::{
    FailurePolicy, Mode, NAME, OnMiss, OnNoMatch, PlacementPolicySpec, PullSecrets,
};
use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use crate::exempt::ExemptNamespaces;
use crate::gated::is_gated;
use crate::multiarch::MultiarchTuning;
use crate::names;
use crate::ownership;
use crate::settings::{RuntimeClass, Settings};

/// Default time that a pod waits at the gate for a registry.
const DEFAULT_GATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Default time that an admission request waits for a registry. Admission blocks the client, so it is shorter than the
/// gate.
const DEFAULT_ADMISSION_TIMEOUT: Duration = Duration::from_secs(2);

/// A validated policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Name of the PlacementPolicy; empty for the built-in policy.
    pub name: String,
    /// Whether pods are changed.
    pub mode: Mode,
    /// How to treat a pod with uninspected images.
    pub on_miss: OnMiss,
    /// How to treat a pod whose images run on no node.
    pub on_no_match: OnNoMatch,
    /// The pull secrets used to inspect images.
    pub pull_secrets: PullSecrets,
    /// Settings at admission.
    pub settings: Settings,
    /// Settings for pods that exist: their `runtimeClassName` is immutable.
    pub later: Settings,
    /// How long a pod waits at the gate for a registry.
    pub gate: Duration,
    /// How long an admission request may wait for a registry.
    sync: Duration,
    priority: i32,
    namespaces: LabelSelector,
    pods: LabelSelector,
    ignored_owners: BTreeSet<String>,
}

impl Default for Policy {
    /// The built-in policy.
    fn default() -> Self {
        Self::read("", &PlacementPolicySpec::default(), &BTreeMap::new()).0
    }
}

impl Policy {
    /// Reads a policy and returns its validation errors. Invalid selectors select nothing.
    fn read(
        name: &str,
        spec: &PlacementPolicySpec,
        classes: &BTreeMap<String, RuntimeClass>,
    ) -> (Self, Vec<String>) {
        let mut complaints = Vec::new();
        let mut selector = |field: &str, written: Value| {
            if written.is_null() {
                return LabelSelector::everything();
            }
            LabelSelector::from_label_selector_object(&written).unwrap_or_else(|why| {
                complaints.push(format!("spec.{field} selects nothing: {why}"));
                // Nothing instead of everything: a typo must not extend a policy to all pods.
                LabelSelector::nothing()
            })
        };
        let namespaces = selector("namespaceSelector", json!(spec.namespace_selector));
        let pods = selector("podSelector", json!(spec.pod_selector));
        let mut offered = Vec::new();
        for class in &spec.emulation.runtime_classes {
            match classes.get(class) {
                Some(class) => offered.push(class.clone()),
                None => complaints.push(format!(
                    "spec.emulation.runtimeClasses: there is no RuntimeClass {class}"
                )),
            }
        }
        let later = later(spec);
        let policy = Self {
            name: name.to_owned(),
            mode: spec.mode,
            on_miss: spec.on_miss,
            on_no_match: spec.on_no_match,
            pull_secrets: spec.pull_secrets.clone(),
            settings: Settings {
                offered,
                ..later.clone()
            },
            later,
            gate: duration(
                spec.timeouts.gate_seconds,
                Duration::from_secs,
                DEFAULT_GATE_TIMEOUT,
            ),
            sync: duration(
                spec.timeouts.sync_milliseconds,
                Duration::from_millis,
                DEFAULT_ADMISSION_TIMEOUT,
            ),
            priority: spec.priority.unwrap_or_default(),
            namespaces,
            pods,
            ignored_owners: spec.ignored_owners.iter().cloned().collect(),
        };
        (policy, complaints)
    }

    /// How long an admission request waits for the inspection of images; `None` if it does not. A pod that may need a
    /// RuntimeClass cannot be gated for it: `runtimeClassName` is immutable.
    pub fn admission_wait(&self) -> Option<Duration> {
        let waits = self.on_miss == OnMiss::Sync
            || (self.on_miss == OnMiss::Gate && !self.settings.offered.is_empty());
        waits.then_some(self.sync)
    }

    fn selects(&self, namespace: &BTreeMap<String, String>, pod: &Value) -> bool {
        let namespace = |key: &str| namespace.get(key).map(String::as_str);
        self.namespaces.matches(namespace) && self.pods.matches_object(pod)
    }
}

/// The settings without offered RuntimeClasses.
fn later(spec: &PlacementPolicySpec) -> Settings {
    let default = Settings::default();
    let weights = spec.weights.iter().map(|it| {
        // The CRD schema admits no other values.
        let weight = u8::try_from(it.weight.clamp(1, 100)).unwrap_or(1);
        (it.architecture.clone(), weight)
    });
    Settings {
        operating_system: spec
            .operating_system
            .clone()
            .unwrap_or(default.operating_system),
        weights: weights.collect(),
        fallback_architecture: spec.fallback_architecture.clone(),
        tolerated_taints: match &spec.tolerated_taints {
            Some(keys) => keys.iter().cloned().collect(),
            None => default.tolerated_taints,
        },
        offered: Vec::new(),
    }
}

fn duration(configured: Option<i32>, unit: fn(u64) -> Duration, default: Duration) -> Duration {
    let configured = configured.and_then(|number| u64::try_from(number).ok());
    configured.map_or(default, unit)
}

/// Why no policy applies to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// Its namespace is exempt: a system namespace, or one that the policy `default` names.
    SystemNamespace,
    /// The pod or its namespace opted out.
    SwitchedOff,
    /// The policy ignores pods of such owners.
    IgnoredOwner,
    /// No policy selects it.
    NotSelected,
    /// The multiarch-tuning-operator places it.
    PlacedByMultiarchTuning,
    /// The policy `default` sets the operator mode `Off`.
    ModeOff,
}

impl Skip {
    /// Label value for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SystemNamespace => "SystemNamespace",
            Self::SwitchedOff => "SwitchedOff",
            Self::IgnoredOwner => "IgnoredOwner",
            Self::NotSelected => "NotSelected",
            Self::PlacedByMultiarchTuning => "PlacedByMultiarchTuning",
            Self::ModeOff => "ModeOff",
        }
    }

    /// The reason as a sentence.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::SystemNamespace => "pods of its namespace are exempt from placement",
            Self::SwitchedOff => "the pod or its namespace opts out of placement",
            Self::IgnoredOwner => "the policy ignores pods of its owner",
            Self::NotSelected => "no policy selects it",
            Self::ModeOff => "PlacementPolicy default sets operatorMode Off, so no pod is placed",
            Self::PlacedByMultiarchTuning => {
                "the multiarch-tuning-operator places pods of this namespace; exclude the namespace in its \
                 ClusterPodPlacementConfig, and Medley places them"
            }
        }
    }
}

/// All policies of a cluster, in order of precedence.
#[derive(Debug, Clone, PartialEq)]
pub struct Policies {
    ordered: Vec<Policy>,
    /// For pods at the gate, if the operator mode is not `Auto`: they are released under the policy they were gated by.
    leaving: Vec<Policy>,
    mode: ModeSetting,
    complaints: BTreeMap<String, Vec<String>>,
    failure_policy: FailurePolicy,
    exempt: ExemptNamespaces,
    multiarch: Option<MultiarchTuning>,
}

impl Default for Policies {
    /// Without any PlacementPolicy the built-in policy applies.
    fn default() -> Self {
        Self::new([], &BTreeMap::new())
    }
}

impl Policies {
    /// Reads all policies, by name. `classes` are the RuntimeClasses of the cluster.
    pub fn new<'a>(
        objects: impl IntoIterator<Item = (&'a str, &'a PlacementPolicySpec)>,
        classes: &BTreeMap<String, RuntimeClass>,
    ) -> Self {
        let mut all = Self {
            ordered: Vec::new(),
            leaving: Vec::new(),
            mode: ModeSetting::Auto,
            complaints: BTreeMap::new(),
            failure_policy: FailurePolicy::default(),
            exempt: ExemptNamespaces::default(),
            multiarch: None,
        };
        let mut has_default = false;
        for (name, spec) in objects {
            let (policy, mut complaints) = Policy::read(name, spec, classes);
            all.ordered.push(policy);
            // The webhook's registration has one failurePolicy and one namespace selector, so the default policy
            // decides for all.
            if name == NAME {
                has_default = true;
                all.failure_policy = spec.failure_policy.unwrap_or_default();
                all.mode = spec.operator_mode.unwrap_or_default();
                for pattern in &spec.exempt_namespaces {
                    if !all.exempt.add(pattern) {
                        complaints.push(format!(
                            "spec.exemptNamespaces exempts nothing by {pattern:?}; expected the name of a namespace, or the beginning of names and a star"
                        ));
                    }
                }
            }
            all.complaints.insert(name.to_owned(), complaints);
        }
        // The default policy is last whatever its priority: otherwise a high one would disable all others.
        all.ordered.sort_by(|a, b| {
            let last = |policy: &Policy| policy.name == NAME;
            let by_priority = b.priority.cmp(&a.priority);
            last(a)
                .cmp(&last(b))
                .then(by_priority)
                .then_with(|| a.name.cmp(&b.name))
        });
        if !has_default {
            all.ordered.push(Policy::default());
        }
        all.stand_back();
        all
    }

    /// Applies the operator mode: new pods are not gated and not changed, and gated ones leave the gate.
    fn stand_back(&mut self) {
        if self.mode == ModeSetting::Auto {
            return;
        }
        self.leaving.clone_from(&self.ordered);
        for policy in &mut self.leaving {
            // With the affinity of their images, also those that no node runs: no pod is held for a policy that is not in
            // force any more.
            policy.on_no_match = OnNoMatch::Warn;
        }
        for policy in &mut self.ordered {
            if policy.mode == Mode::Place {
                policy.mode = Mode::Warn;
            }
            // An admission request that changes nothing is not worth a wait.
            policy.on_miss = OnMiss::Ignore;
        }
        // Without the webhook nothing is missed.
        self.failure_policy = FailurePolicy::Ignore;
    }

    /// Who places pods; `running` is the controller of the multiarch-tuning-operator.
    pub fn ownership(&self, running: Option<&RunningOperator>) -> Ownership {
        ownership::ownership(self.mode, self.multiarch.as_ref(), running)
    }

    /// What the policy `default` sets.
    pub fn operator_mode(&self) -> ModeSetting {
        self.mode
    }

    /// The live multiarch-tuning-operator.
    pub fn multiarch(&self) -> Option<&MultiarchTuning> {
        self.multiarch.as_ref()
    }

    /// The policies in a cluster with a live multiarch-tuning-operator, or without one.
    #[must_use]
    pub fn beside(self, multiarch: Option<MultiarchTuning>) -> Self {
        Self { multiarch, ..self }
    }

    /// The policy that applies to a pod. `labels` are those of its namespace.
    pub fn select(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        pod: &Value,
    ) -> Result<&Policy, Skip> {
        // As in the multiarch-tuning-operator (`shouldIgnorePod` in internal/controller/podplacement/pod_model.go): a
        // webhook that blocks system pods may block its own recovery.
        if self.exempt.contains(namespace) {
            return Err(Skip::SystemNamespace);
        }
        let off = |value: Option<&str>| value == Some(names::OFF);
        let label = pod.pointer("/metadata/labels");
        let label = label.and_then(|labels| labels.get(names::SWITCH));
        let annotation = pod.pointer("/metadata/annotations");
        let annotation = annotation.and_then(|all| all.get(names::SWITCH));
        if off(labels.get(names::SWITCH).map(String::as_str))
            || off(label.and_then(Value::as_str))
            || off(annotation.and_then(Value::as_str))
        {
            return Err(Skip::SwitchedOff);
        }
        let is_ours = is_gated(pod);
        if self.mode == ModeSetting::Off && !is_ours {
            return Err(Skip::ModeOff);
        }
        // A pod with our gate stays ours: the other operator gates pods at creation only, and would not place it. In mode
        // Assist no pod is changed, and those of the other operator are worth a warning, too.
        let beside = !is_ours && self.mode == ModeSetting::Auto;
        let multiarch = self.multiarch.as_ref().filter(|_| beside);
        if multiarch.is_some_and(|it| it.places(namespace, labels, pod)) {
            return Err(Skip::PlacedByMultiarchTuning);
        }
        // The first match only; merging policies would make it hard to explain what applies to a pod.
        let ordered = if is_ours && self.mode != ModeSetting::Auto {
            &self.leaving
        } else {
            &self.ordered
        };
        let policy = ordered.iter().find(|it| it.selects(labels, pod));
        let policy = policy.ok_or(Skip::NotSelected)?;
        let owners = pod
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let kinds = owners.into_iter().flatten();
        let mut kinds = kinds.filter_map(|owner| owner.get("kind").and_then(Value::as_str));
        if kinds.any(|kind| policy.ignored_owners.contains(kind)) {
            return Err(Skip::IgnoredOwner);
        }
        Ok(policy)
    }

    /// The validation errors of a policy.
    pub fn complaints(&self, name: &str) -> &[String] {
        self.complaints.get(name).map_or(&[], Vec::as_slice)
    }

    /// The namespaces whose pods are never placed.
    pub fn exempt(&self) -> &ExemptNamespaces {
        &self.exempt
    }

    /// What the API server does with pods while the webhook is unavailable.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }
}
