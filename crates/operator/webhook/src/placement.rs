//! Admission of pods: node affinity for the platforms of their images.
//!
//! ```text
//! pod CREATE --no policy-----> admitted unchanged
//!       |--images known-------> placement::admit --> affinity, a warning, a gate, or a denial
//!       `--images unknown-----> inspected in the background; the pod is gated, or the request waits
//! ```
//!
//! The webhook writes nothing itself: the decision is in the response. The placement controller (the crate
//! `controllers`) releases gated pods.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ::placement::{
    Admission, Allowed, Inspection, NOT_KNOWN, Policy, Used, admit, admit_uninspected, changes,
    names,
};
use api::placement::FailurePolicy;
use cluster_view::placement::{PlacementView, PullCredentials, Registries};
use futures::future::join_all;
use kube::Client;
use oci::Keyring;
use runtime::Manager;
use serde_json::{Value, json};
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::callers::Caller;
use crate::error::Error;
use crate::register::{Check, Reach, register_placement};
use crate::review::{AdmissionRequest, Refusal, allowed, denied};
use crate::trust::Trust;
use report::Report;
pub(crate) use report::described;

/// Path of the webhook.
pub(crate) const PATH: &str = "/placement";
/// Timeout of the first node list, below the ten seconds that the API server waits for a response.
const NODE_LIST_TIMEOUT: Duration = Duration::from_secs(8);
/// Limit of concurrent inspections. Images beyond it are inspected with a later pod, or by the controller.
const MAX_INSPECTIONS: usize = 4096;

/// View of the cluster and of images, shared by clones; watches start with the first review.
#[derive(Clone)]
pub(crate) struct Placements {
    client: Client,
    registries: Arc<OnceLock<Registries>>,
    view: Arc<OnceCell<PodAdmission>>,
}

struct PodAdmission {
    watch: PlacementView,
    pulls: PullCredentials,
    registries: Registries,
    inspections: Arc<Semaphore>,
    /// Limit for unverified callers, so that they cannot use up the permits of the API server.
    anonymous_inspections: Arc<Semaphore>,
    /// Credentials for unverified callers: none.
    anonymous: Arc<Keyring>,
    report: Report,
    /// Runs the watches while it lives.
    manager: Manager,
}

impl Placements {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            registries: Arc::default(),
            view: Arc::default(),
        }
    }

    pub(crate) fn use_registries(&self, registries: Registries) {
        // Only the first call has an effect.
        let _ = self.registries.set(registries);
    }

    /// The metrics in OpenMetrics text.
    pub(crate) fn metrics(&self) -> String {
        self.view.get().map_or_else(String::new, |view| {
            view.report.traffic(&view.registries);
            view.manager.metrics().render()
        })
    }

    /// Kinds whose cache has not synced yet.
    pub(crate) fn unsynced(&self) -> BTreeSet<String> {
        let view = self.view.get();
        view.map(|it| it.manager.unsynced()).unwrap_or_default()
    }

    /// The view, once synced.
    async fn view(&self) -> Result<&PodAdmission, Refusal> {
        let start = || async {
            let manager = Manager::new(self.client.clone());
            let registries = self.registries.get().cloned().unwrap_or_default();
            PodAdmission {
                watch: PlacementView::start(&manager),
                pulls: PullCredentials::new(self.client.clone(), registries.clone()),
                registries,
                inspections: Arc::new(Semaphore::new(MAX_INSPECTIONS)),
                anonymous_inspections: Arc::new(Semaphore::new(MAX_INSPECTIONS)),
                anonymous: Arc::new(Keyring::anonymous()),
                report: Report::new(manager.metrics()),
                manager,
            }
        };
        let view = self.view.get_or_init(start).await;
        match tokio::time::timeout(NODE_LIST_TIMEOUT, view.watch.synced()).await {
            Ok(()) => Ok(view),
            Err(_) => Err(Refusal::later(format!(
                "The nodes of the cluster could not be listed within {NODE_LIST_TIMEOUT:?}; retry the request"
            ))),
        }
    }

    /// Registers the webhook with the failure policy that the PlacementPolicies ask for; returns when reviews can be
    /// answered.
    pub(crate) async fn register(
        &self,
        client: &Client,
        trust: &Trust,
        reach: &Reach,
    ) -> Result<(), Error> {
        let view = match self.view().await {
            Ok(view) => view,
            Err(refusal) => return Err(runtime::Error::Late(refusal.message).into()),
        };
        let changed = Arc::new(Notify::new());
        let notified = Arc::clone(&changed);
        view.watch.on_change(move |_| notified.notify_one());
        let mut trust = trust.clone();
        let mut registered = (failure_policy(&view.watch), trust.current());
        register_placement(client, &registered.1, reach, registered.0).await?;
        let (client, reach) = (client.clone(), reach.clone());
        let watch = view.watch.clone();
        view.manager.spawn(async move {
            loop {
                tokio::select! {
                    () = changed.notified() => {}
                    () = trust.changed() => {}
                }
                let wanted = (failure_policy(&watch), trust.current());
                if wanted == registered {
                    continue;
                }
                let (policy, authority) = &wanted;
                match register_placement(&client, authority, &reach, policy).await {
                    Ok(()) => {
                        info!(
                            failure_policy = policy,
                            "registered the placement webhook again"
                        );
                        registered = wanted;
                    }
                    Err(error) => {
                        warn!(%error, "cannot register the placement webhook again; retrying");
                        tokio::time::sleep(crate::REGISTRATION_RETRY_DELAY).await;
                        changed.notify_one();
                    }
                }
            }
        });
        Ok(())
    }
}

fn failure_policy(watch: &PlacementView) -> &'static str {
    match watch.settings().policies.failure_policy() {
        FailurePolicy::Ignore => "Ignore",
        FailurePolicy::Fail => "Fail",
    }
}

/// The webhook to register: CREATE of pods without a node. Our own namespace is excluded: if the operator's pods were
/// gated, no controller could release them.
///
/// Reinvoked if another webhook changes the pod afterwards: injected containers have images, too.
pub(crate) fn check(failure_policy: &'static str, home: &str) -> Check {
    let off = json!({ "key": names::SWITCH, "operator": "NotIn", "values": [names::OFF] });
    Check {
        name: "pods.placement.medley.dev".to_owned(),
        path: PATH,
        rule: json!({
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }),
        operations: &["CREATE"],
        objects: json!({ "matchExpressions": [off] }),
        namespaces: json!({ "matchExpressions": [
            off,
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "kube-public", "kube-node-lease", home],
            },
        ] }),
        conditions: vec![json!({
            "name": "has-no-node",
            "expression": "!has(object.spec.nodeName) || object.spec.nodeName == ''",
        })],
        reinvoke: true,
        ..Check::changes(failure_policy, 10)
    }
}

/// Answers a review that was `received` at this time. The duration metric includes reading the request, because the
/// creator of the pod waits for that as well.
pub(crate) async fn review(
    placements: &Placements,
    mut request: AdmissionRequest,
    received: Instant,
) -> Result<Value, Refusal> {
    let (group, plural) = (&*request.resource.group, &*request.resource.plural);
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
        // `decide` has decided without what it could not inspect.
        Admission::NeedsInspection(_) => (NOT_KNOWN, allowed(Vec::new(), Vec::new())),
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
    /// Decides on a pod.
    ///
    /// For an unverified caller, no credentials are read and no result obtained with credentials is used: the caller
    /// chose the namespace and would learn what its secrets give access to. Images that need credentials stay unknown,
    /// and the pod is gated for the controller, which reads the real pod.
    async fn decide(
        &self,
        namespace: &str,
        pod: &Value,
        caller: Caller,
    ) -> Result<Admission, Refusal> {
        let later = |error: runtime::Error| Refusal::later(error.to_string());
        let settings = self.watch.settings();
        let labels = self.watch.labels(namespace).await.map_err(later)?;
        let policy = match settings.policies.select(namespace, &labels, pod) {
            Ok(policy) => policy,
            Err(why) => return Ok(Admission::Allow(Allowed::unchanged(why.as_str()))),
        };
        let decided = |known: &BTreeMap<String, Inspection>| {
            let cluster = self.watch.cluster();
            admit(pod, policy, known, &settings.classes, &cluster)
        };
        // Pods without a policy are admitted before any secret is read.
        let mut known = BTreeMap::new();
        let used = match decided(&known) {
            Admission::NeedsInspection(used) => used,
            answer => return Ok(answer),
        };
        let access = match caller {
            Caller::Verified => {
                let keyring = self.pulls.keyring(namespace, pod, &policy.pull_secrets);
                let keyring = keyring.await;
                Access::Credentials(keyring.map_err(later)?)
            }
            Caller::Unverified => Access::Anonymous(Arc::clone(&self.anonymous)),
        };
        known = self.known(&used, &access, policy);
        let mut unknown = match decided(&known) {
            Admission::NeedsInspection(unknown) => unknown,
            answer => return Ok(answer),
        };
        let inspecting = self.inspect(&unknown, &access);
        if policy.waits() {
            let inspected = tokio::time::timeout(policy.sync, join_all(inspecting)).await;
            let inspected = inspected
                .unwrap_or_default()
                .into_iter()
                .flatten()
                .flatten();
            known.extend(inspected);
            unknown = match decided(&known) {
                Admission::NeedsInspection(unknown) => unknown,
                answer => return Ok(answer),
            };
        }
        Ok(admit_uninspected(pod, policy, &unknown))
    }

    /// What is known of images without a request. A registry that has been failing for longer than the gate timeout is
    /// given up, but still polled in the background, so that its recovery is noticed.
    fn known(
        &self,
        used: &[Used],
        access: &Access,
        policy: &Policy,
    ) -> BTreeMap<String, Inspection> {
        let mut known = BTreeMap::new();
        for used in used {
            let found = self.registries.known(used, access.keyring());
            self.report.count_image(found.is_some());
            let found = found.or_else(|| {
                // The last error of a registry may concern an image of another tenant.
                let Access::Credentials(_) = access else {
                    return None;
                };
                let given_up = self.registries.given_up(used, policy.gate)?;
                self.inspect(std::slice::from_ref(used), access);
                Some(given_up)
            });
            known.extend(found.map(|found| (used.image.clone(), found)));
        }
        known
    }

    /// Inspects images in the background; the caller may await the results.
    fn inspect(
        &self,
        used: &[Used],
        access: &Access,
    ) -> Vec<JoinHandle<Option<(String, Inspection)>>> {
        let permits = match access {
            Access::Credentials(_) => &self.inspections,
            Access::Anonymous(_) => &self.anonymous_inspections,
        };
        let tasks = used.iter().filter_map(|used| {
            let permit = Arc::clone(permits).try_acquire_owned().ok()?;
            let (used, access) = (used.clone(), access.clone());
            let registries = self.registries.clone();
            Some(tokio::spawn(async move {
                let _permit = permit;
                let known = match registries.look(&used, access.keyring()).await {
                    Ok(known) => known,
                    // Transient: stays unknown.
                    Err(failure) if failure.known.passing => return None,
                    // May succeed with the pull secrets of the pod: stays unknown.
                    Err(_) if matches!(access, Access::Anonymous(_)) => return None,
                    Err(failure) => failure.knowledge(),
                };
                Some((used.image, known))
            }))
        });
        tasks.collect()
    }
}

/// Credentials for inspections.
#[derive(Clone)]
enum Access {
    /// Those of the pod and of the nodes.
    Credentials(Arc<Keyring>),
    /// None, although the pod may have some.
    Anonymous(Arc<Keyring>),
}

impl Access {
    fn keyring(&self) -> &Arc<Keyring> {
        match self {
            Self::Credentials(keyring) | Self::Anonymous(keyring) => keyring,
        }
    }
}
