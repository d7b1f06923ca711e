//! Admission of pods: node affinity for the platforms of their images.
//!
//! ```text
//! pod CREATE --no policy-----> admitted unchanged
//!       |--images known-------> placement::admit --> affinity, a warning, a gate, or a denial
//!       `--images unknown-----> inspected in the background; the pod is gated, or the request waits
//! ```
//!
//! A review writes nothing: the decision is in the response. The placement controller (the crate `controllers`) releases
//! gated pods. While none is running no pod is gated, and the webhook releases those that are ([`controller`]).

mod controller;
mod report;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::placement::{
    Admission, Allowed, Controller, ExemptNamespaces, ImageUse, Inspection, InspectionAccess,
    LeaseTiming, NeedsInspection, Policy, Skip, admit, admit_uninspected, changes, names,
};
use api::placement::FailurePolicy;
use cluster_view::network;
use cluster_view::placement::{PlacementView, PullCredentials, Registries};
use futures::future::join_all;
use kube::Client;
use oci::Keyring;
use runtime::Events;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::callers::Caller;
use crate::error::Error;
use crate::register::{DEFAULT_NAMESPACE, WebhookAddress, WebhookRegistration, register_placement};
use crate::review::{AdmissionRequest, Refusal, allowed, denied};
use crate::trust::Trust;
use crate::watches::Watches;
use controller::ControllerLease;
use report::Report;
pub(crate) use report::described;

/// Path of the webhook.
pub(crate) const PATH: &str = "/placement";
/// Limit of concurrent inspections. Images beyond it are inspected with a later pod, or by the controller.
// Each holds a task and a keyring, a few kilobytes. A burst of pods beyond it is gated and inspected by the
// controller at its own pace.
const MAX_INSPECTIONS: usize = 4096;

/// Settings of the placement webhook.
#[derive(Debug, Clone)]
pub struct PlacementSettings {
    /// Registry access for inspecting the images of pods.
    pub registries: Registries,
    /// Namespace of the operator, whose placement controller renews a Lease there.
    pub namespace: String,
    /// The durations of that Lease.
    pub lease: LeaseTiming,
}

impl PlacementSettings {
    /// The settings for an operator in this namespace.
    pub fn new(registries: Registries, namespace: impl Into<String>) -> Self {
        Self {
            registries,
            namespace: namespace.into(),
            lease: LeaseTiming::default(),
        }
    }
}

impl Default for PlacementSettings {
    fn default() -> Self {
        Self::new(Registries::default(), DEFAULT_NAMESPACE)
    }
}

/// View of the cluster and of images, shared by clones; watches start with the first review.
#[derive(Clone)]
pub(crate) struct Placements {
    watches: Watches,
    settings: Arc<OnceLock<PlacementSettings>>,
    view: Arc<OnceLock<Arc<PodAdmission>>>,
}

struct PodAdmission {
    client: Client,
    watch: PlacementView,
    /// Namespace of the operator, whose pods are never placed.
    home: String,
    lease: ControllerLease,
    events: Events,
    pulls: PullCredentials,
    registries: Registries,
    inspections: Arc<Semaphore>,
    /// Limit for unverified callers, so that they cannot use up the permits of the API server.
    anonymous_inspections: Arc<Semaphore>,
    /// Credentials for unverified callers: none.
    anonymous: Arc<Keyring>,
    report: Report,
}

impl Placements {
    pub(crate) fn new(watches: Watches) -> Self {
        Self {
            watches,
            settings: Arc::default(),
            view: Arc::default(),
        }
    }

    pub(crate) fn use_settings(&self, settings: PlacementSettings) {
        // Only the first call has an effect.
        let _ = self.settings.set(settings);
    }

    /// Whether a placement controller is running; `None` before any review.
    pub(crate) fn controller(&self) -> Option<Controller> {
        self.view.get().map(|view| view.lease.controller())
    }

    /// Whether it is known whether a controller is running. Replicas become ready then: pods that arrive earlier are
    /// not gated.
    pub(crate) fn is_settled(&self) -> bool {
        self.view.get().is_none_or(|view| view.lease.is_known())
    }

    /// The metrics in OpenMetrics text.
    pub(crate) fn metrics(&self) -> String {
        self.view.get().map_or_else(String::new, |view| {
            view.report.traffic(&view.registries);
            self.watches.manager().metrics().render()
        })
    }

    /// The view, once synced.
    async fn view(&self) -> Result<&PodAdmission, Refusal> {
        let start = || {
            let manager = self.watches.manager();
            let client = self.watches.client.clone();
            let settings = self.settings.get().cloned().unwrap_or_default();
            let PlacementSettings {
                registries,
                namespace,
                lease,
            } = settings;
            let view = Arc::new(PodAdmission {
                client: client.clone(),
                watch: PlacementView::start(manager),
                lease: ControllerLease::new(client.clone(), &namespace, lease),
                home: namespace,
                events: controller::events(manager),
                pulls: PullCredentials::new(client, registries.clone()),
                registries,
                inspections: Arc::new(Semaphore::new(MAX_INSPECTIONS)),
                anonymous_inspections: Arc::new(Semaphore::new(MAX_INSPECTIONS)),
                anonymous: Arc::new(Keyring::anonymous()),
                report: Report::new(manager.metrics()),
            });
            manager.spawn(controller::follow(Arc::clone(&view)));
            view
        };
        let view = self.view.get_or_init(start);
        self.watches.wait(view.watch.synced()).await?;
        Ok(view)
    }

    /// Registers the webhook with the failure policy that the PlacementPolicies ask for; returns when reviews can be
    /// answered.
    pub(crate) async fn register(
        &self,
        client: &Client,
        trust: &Trust,
        webhook_address: &WebhookAddress,
    ) -> Result<(), Error> {
        let view = match self.view().await {
            Ok(view) => view,
            Err(refusal) => return Err(runtime::Error::Late(refusal.message).into()),
        };
        // Before the first review: images of a disconnected cluster are in its mirrors only.
        network::follow(self.watches.manager(), &view.registries).await;
        let changed = Arc::new(Notify::new());
        let notified = Arc::clone(&changed);
        view.watch.on_change(move |_| notified.notify_one());
        let mut trust = trust.clone();
        // After `on_change` was registered: a policy that changes in between sets the
        // notification, and the loop below registers again.
        let mut registered = (Registered::now(&view.watch), trust.current());
        let (wanted, authority) = &registered;
        register_placement(client, authority, webhook_address, wanted).await?;
        let (client, webhook_address) = (client.clone(), webhook_address.clone());
        let watch = view.watch.clone();
        self.watches.manager().spawn(async move {
            loop {
                tokio::select! {
                    () = changed.notified() => {}
                    () = trust.changed() => {}
                }
                let wanted = (Registered::now(&watch), trust.current());
                if wanted == registered {
                    continue;
                }
                let (settings, authority) = &wanted;
                match register_placement(&client, authority, &webhook_address, settings).await {
                    Ok(()) => {
                        info!(
                            failure_policy = settings.failure_policy,
                            "registered the placement webhook again"
                        );
                        registered = wanted;
                    }
                    Err(error) => {
                        warn!(%error, "cannot register the placement webhook again; retrying");
                        tokio::time::sleep(crate::REGISTRATION_RETRY_DELAY).await;
                        // Keeps the attempt alive: without it, a failed registration would
                        // wait for the next change of a policy.
                        changed.notify_one();
                    }
                }
            }
        });
        Ok(())
    }
}

/// What the registration takes from the PlacementPolicies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    failure_policy: &'static str,
    exempt: ExemptNamespaces,
}

impl Registered {
    fn now(watch: &PlacementView) -> Self {
        let settings = watch.settings();
        Self {
            failure_policy: match settings.policies.failure_policy() {
                FailurePolicy::Ignore => "Ignore",
                FailurePolicy::Fail => "Fail",
            },
            exempt: settings.policies.exempt().clone(),
        }
    }
}

/// The webhook to register: CREATE of pods without a node. The API server does not send pods of exempt namespaces, which
/// may be needed to bring the webhook itself up: a gated CNI or DNS pod would be a deadlock that only an administrator
/// can resolve. Our own namespace is one of them: if the operator's pods were gated, no controller could release them.
///
/// Reinvoked if another webhook changes the pod afterwards: injected containers have images, too.
pub(crate) fn webhook(registered: &Registered, home: &str) -> WebhookRegistration {
    let off = json!({ "key": names::SWITCH, "operator": "NotIn", "values": [names::OFF] });
    let mut exempt = registered.exempt.names().clone();
    exempt.insert(home.to_owned());
    WebhookRegistration {
        name: "pods.placement.medley.dev".to_owned(),
        path: PATH,
        rule: json!({
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }),
        // Affinity of a pod can be changed at creation and while it is gated, never later; sending UPDATEs of all
        // pods, which kubelets cause, would multiply the load.
        operations: &["CREATE"],
        objects: json!({ "matchExpressions": [off] }),
        namespaces: json!({ "matchExpressions": [
            off,
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": exempt,
            },
        ] }),
        conditions: vec![
            json!({
                "name": "has-no-node",
                "expression": "!has(object.spec.nodeName) || object.spec.nodeName == ''",
            }),
            // A selector of labels has no prefixes.
            json!({
                "name": "namespace-is-not-exempt",
                "expression": registered.exempt.condition(),
            }),
        ],
        reinvoke: true,
        ..WebhookRegistration::changes(registered.failure_policy, 10)
    }
}

/// Answers a review that was `received` at this time. The duration metric includes reading the request, because the
/// creator of the pod waits for that as well.
pub(crate) async fn review(
    placements: &Placements,
    mut request: AdmissionRequest,
    received: Instant,
) -> Result<Value, Refusal> {
    let (group, plural) = (&*request.resource.group, &*request.resource.resource);
    if (group, plural) != ("", "pods") {
        return Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; pods are accepted"
        )));
    }
    if request.old()?.is_some() {
        // Placement is decided at creation.
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    if !request.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    let view = placements.view().await?;
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let admission = view
        .decide(namespace, &request.object, request.caller)
        .await?;
    let (outcome, response) = match admission {
        Admission::Allow(allowed) => (allowed.outcome, allow(&request.object, allowed)),
        Admission::Deny { reason, message } => {
            info!(namespace, reason, message, "denied a pod");
            ("Refused", denied(&message))
        }
    };
    view.report.record_answer(outcome, received.elapsed());
    Ok(response)
}

/// The response for an admitted pod.
fn allow(pod: &Value, decision: Allowed) -> Value {
    let patch = decision
        .mutated
        .map(|mutated| changes(pod, &mutated))
        .unwrap_or_default();
    let mut response = allowed(patch, decision.warnings);
    if let Some(note) = decision.audit_note {
        response["auditAnnotations"] = json!({ "placement": note });
    }
    response
}

impl PodAdmission {
    /// Gathers what is known about the images of a pod, step by step, until the admission can be decided: nothing, then
    /// the cache, then what registries answer in time.
    async fn decide(
        &self,
        namespace: &str,
        pod: &Value,
        caller: Caller,
    ) -> Result<Admission, Refusal> {
        let later = |error: runtime::Error| Refusal::later(error.to_string());
        // The registration excludes it, but may be edited.
        if namespace == self.home {
            return Ok(Skip::SystemNamespace.into());
        }
        let settings = self.watch.settings();
        let labels = self.watch.labels(namespace).await.map_err(later)?;
        let policy = match settings.policies.select(namespace, &labels, pod) {
            Ok(policy) => policy,
            Err(skip) => return Ok(skip.into()),
        };
        let decided = |known: &BTreeMap<String, Inspection>| {
            let controller = self.lease.controller();
            let cluster = self.watch.cluster();
            admit(pod, policy, controller, known, &settings.classes, &*cluster)
        };
        // Most pods are decided before any secret is read.
        let mut known = BTreeMap::new();
        let used = match decided(&known) {
            Ok(admission) => return Ok(admission),
            Err(NeedsInspection(used)) => used,
        };
        let access = InspectionAccess::for_caller(caller == Caller::Verified);
        // Only for the API server with a verified certificate: otherwise any pod could send a review of a pod in
        // another namespace and learn, from the answer, what its pull secrets can see.
        let keyring = match access {
            InspectionAccess::PullSecrets => {
                let keyring = self.pulls.keyring(namespace, pod, &policy.pull_secrets);
                keyring.await.map_err(later)?
            }
            InspectionAccess::Anonymous => Arc::clone(&self.anonymous),
        };
        known = self.known(&used, access, &keyring, policy);
        let mut unknown = match decided(&known) {
            Ok(admission) => return Ok(admission),
            Err(NeedsInspection(unknown)) => unknown,
        };
        let inspecting = self.inspect(&unknown, access, &keyring);
        if let Some(wait) = policy.admission_wait() {
            // Dropping the handles does not cancel the tasks: the inspections go on and fill the cache, so the next
            // pod of the same ReplicaSet is decided at once.
            let inspected = tokio::time::timeout(wait, join_all(inspecting)).await;
            let inspected = inspected.unwrap_or_default().into_iter().flatten();
            known.extend(inspected.flatten());
            unknown = match decided(&known) {
                Ok(admission) => return Ok(admission),
                Err(NeedsInspection(unknown)) => unknown,
            };
        }
        Ok(admit_uninspected(
            pod,
            policy,
            self.lease.controller(),
            &unknown,
        ))
    }

    /// What is known of images without a request. A registry that has been failing for longer than the gate timeout is
    /// given up, but still polled in the background, so that its recovery is noticed.
    fn known(
        &self,
        used: &[ImageUse],
        access: InspectionAccess,
        keyring: &Arc<Keyring>,
        policy: &Policy,
    ) -> BTreeMap<String, Inspection> {
        let mut known = BTreeMap::new();
        for used in used {
            let found = self.registries.known(used, keyring);
            self.report.count_image(found.is_some());
            let found = found.or_else(|| {
                let given_up = self.registries.given_up(used, policy.gate);
                let given_up = given_up.filter(|_| access.may_use_outages())?;
                self.inspect(std::slice::from_ref(used), access, keyring);
                Some(given_up)
            });
            known.extend(found.map(|found| (used.image.clone(), found)));
        }
        known
    }

    /// Inspects images in the background; the caller may await the results.
    fn inspect(
        &self,
        used: &[ImageUse],
        access: InspectionAccess,
        keyring: &Arc<Keyring>,
    ) -> Vec<JoinHandle<Option<(String, Inspection)>>> {
        let permits = match access {
            InspectionAccess::PullSecrets => &self.inspections,
            InspectionAccess::Anonymous => &self.anonymous_inspections,
        };
        let tasks = used.iter().filter_map(|used| {
            // `try_acquire`: an admission request must not queue behind others. Without
            // a permit the image counts as unknown.
            let permit = Arc::clone(permits).try_acquire_owned().ok()?;
            let (used, keyring) = (used.clone(), Arc::clone(keyring));
            let registries = self.registries.clone();
            Some(tokio::spawn(async move {
                let _permit = permit;
                let inspected = registries.inspect(&used, &keyring).await;
                let known = access.usable(inspected.map_err(|failure| failure.known))?;
                Some((used.image, known))
            }))
        });
        tasks.collect()
    }
}
