//! Reviews of pods that are made: where their images run.
//!
//! ```text
//! pod CREATE --policy?--> left alone
//!       |--images known--> placement::admit --> told where to go, warned about, held, or refused
//!       `--images not----> looked at meanwhile; the pod waits at a gate, or whoever makes it does
//! ```
//!
//! Nothing is written here: what becomes of a pod is in the answer. Pods at the gate are let go by the
//! controller (the crate `operator`).

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ::placement::{Answer, Knowledge, Pass, Policy, Used, admit, changes, gated, names};
use api::placement::{FailurePolicy, Mode, OnMiss};
use cluster_view::placement::{Pulls, Registries, Watch};
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
use crate::review::{Question, Refusal, allowed, denied};
use crate::trust::Trust;
use report::Report;
pub(crate) use report::described;

/// Where reviews of pods are answered.
pub(crate) const PATH: &str = "/placement";
/// How long the nodes may take to be listed. The API server waits ten seconds for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// The most images that are looked at at a time. What is more is looked at when the next pod comes.
const LOOKS: usize = 4096;

/// What is known of the cluster and of images; clones share it. Nothing is followed before somebody asks.
#[derive(Clone)]
pub(crate) struct Placements {
    client: Client,
    registries: Arc<OnceLock<Registries>>,
    world: Arc<OnceCell<World>>,
}

struct World {
    watch: Watch,
    pulls: Pulls,
    registries: Registries,
    looks: Arc<Semaphore>,
    /// The same for callers that are not verified, so that those cannot keep the others from looking.
    anonymous_looks: Arc<Semaphore>,
    /// What is shown to registries for those: nothing.
    nothing: Arc<Keyring>,
    report: Report,
    /// Keeps what the watch rests on running.
    manager: Manager,
}

impl Placements {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            registries: Arc::default(),
            world: Arc::default(),
        }
    }

    pub(crate) fn use_registries(&self, registries: Registries) {
        // The first choice counts.
        let _ = self.registries.set(registries);
    }

    /// The numbers, as Prometheus reads them.
    pub(crate) fn metrics(&self) -> String {
        self.world.get().map_or_else(String::new, |world| {
            world.report.traffic(&world.registries);
            world.manager.metrics().render()
        })
    }

    /// The kinds that have not been listed yet, of those that have been asked for.
    pub(crate) fn unsynced(&self) -> BTreeSet<String> {
        let world = self.world.get();
        world.map(|it| it.manager.unsynced()).unwrap_or_default()
    }

    /// What decisions rest on, when all of it has been seen.
    async fn world(&self) -> Result<&World, Refusal> {
        let start = || async {
            let manager = Manager::new(self.client.clone());
            let registries = self.registries.get().cloned().unwrap_or_default();
            World {
                watch: Watch::start(&manager),
                pulls: Pulls::new(self.client.clone(), registries.clone()),
                registries,
                looks: Arc::new(Semaphore::new(LOOKS)),
                anonymous_looks: Arc::new(Semaphore::new(LOOKS)),
                nothing: Arc::new(Keyring::anonymous()),
                report: Report::new(manager.metrics()),
                manager,
            }
        };
        let world = self.world.get_or_init(start).await;
        match tokio::time::timeout(PATIENCE, world.watch.synced()).await {
            Ok(()) => Ok(world),
            Err(_) => Err(Refusal::later(format!(
                "The nodes of the cluster could not be listed in {PATIENCE:?}; ask again"
            ))),
        }
    }

    /// Has the API server ask about pods, as the policies say; returns when it can be answered.
    pub(crate) async fn register(
        &self,
        client: &Client,
        trust: &Trust,
        reach: &Reach,
    ) -> Result<(), Error> {
        let world = match self.world().await {
            Ok(world) => world,
            Err(refusal) => return Err(runtime::Error::Late(refusal.message).into()),
        };
        let changed = Arc::new(Notify::new());
        let told = Arc::clone(&changed);
        world.watch.on_change(move |_| told.notify_one());
        let mut trust = trust.clone();
        let mut registered = (failure_policy(&world.watch), trust.current());
        register_placement(client, &registered.1, reach, registered.0).await?;
        let (client, reach) = (client.clone(), reach.clone());
        let watch = world.watch.clone();
        world.manager.spawn(async move {
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
                        info!(failure_policy = policy, "registered the check of pods anew");
                        registered = wanted;
                    }
                    Err(error) => {
                        warn!(%error, "the check of pods cannot be registered anew; trying again");
                        tokio::time::sleep(crate::AGAIN).await;
                        changed.notify_one();
                    }
                }
            }
        });
        Ok(())
    }
}

fn failure_policy(watch: &Watch) -> &'static str {
    match watch.settings().policies.failure_policy() {
        FailurePolicy::Ignore => "Ignore",
        FailurePolicy::Fail => "Fail",
    }
}

/// What the API server asks about: pods that are made and have no node. Our own come first: nobody could
/// let them go if they waited.
///
/// It asks again if somebody else changes the pod afterwards: containers that are added have images, too.
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
        again: true,
        ..Check::changes(failure_policy, 10)
    }
}

/// Answers a question about a pod that came at this time. How long it took is counted from there, as whoever makes
/// the pod waits for the reading, too.
pub(crate) async fn review(
    placements: &Placements,
    mut question: Question,
    asked: Instant,
) -> Result<Value, Refusal> {
    let (group, plural) = (&*question.resource.group, &*question.resource.plural);
    if (group, plural) != ("", "pods") {
        return Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; pods are decided on here"
        )));
    }
    if question.old()?.is_some() {
        // Where a pod goes is settled when it is made.
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    if !question.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    let world = placements.world().await?;
    let namespace = question.namespace.as_deref().unwrap_or_default();
    let answer = world
        .consider(namespace, &question.object, question.caller)
        .await?;
    let (word, response) = match answer {
        Answer::Pass(pass) => (pass.word, passed(&question.object, pass)),
        Answer::Refuse { reason, message } => {
            info!(namespace, reason, message, "refused a pod");
            ("Refused", denied(&message))
        }
        // Who is asked about images is answered with a gate.
        Answer::Ask(_) => ("NotKnown", allowed(Vec::new(), Vec::new())),
    };
    world.report.answered(word, asked.elapsed());
    Ok(response)
}

/// The answer that lets a pod pass.
fn passed(pod: &Value, pass: Pass) -> Value {
    let patch = pass
        .changed
        .map(|changed| changes(pod, &changed))
        .unwrap_or_default();
    let mut response = allowed(patch, pass.warnings);
    if let Some(note) = pass.note {
        response["auditAnnotations"] = json!({ "placement": note });
    }
    response
}

impl World {
    /// Decides on a pod.
    ///
    /// For a caller that may not be the API server, nothing is read with credentials, and nothing that is known by
    /// them is used: it named the namespace, and would learn what its secrets open. Images that cannot be inspected
    /// without are not known yet, and the pod waits at the gate for the operator, which sees the pod itself.
    async fn consider(
        &self,
        namespace: &str,
        pod: &Value,
        caller: Caller,
    ) -> Result<Answer, Refusal> {
        let later = |error: runtime::Error| Refusal::later(error.to_string());
        let settings = self.watch.settings();
        let labels = self.watch.labels(namespace).await.map_err(later)?;
        let policy = match settings.policies.select(namespace, &labels, pod) {
            Ok(policy) => policy,
            Err(why) => return Ok(unchanged(why.as_str())),
        };
        let decided = |known: &BTreeMap<String, Knowledge>| {
            let cluster = self.watch.cluster();
            admit(pod, policy, known, &settings.classes, &cluster)
        };
        // Whoever is left alone anyway is, before a secret is read.
        let mut known = BTreeMap::new();
        let used = match decided(&known) {
            Answer::Ask(used) => used,
            answer => return Ok(answer),
        };
        let access = match caller {
            Caller::Verified => {
                let keyring = self.pulls.keyring(namespace, pod, &policy.pull_secrets);
                let keyring = keyring.await;
                Access::Credentials(keyring.map_err(later)?)
            }
            Caller::Unverified => Access::Anonymous(Arc::clone(&self.nothing)),
        };
        known = self.known(&used, &access, policy);
        let mut unknown = match decided(&known) {
            Answer::Ask(unknown) => unknown,
            answer => return Ok(answer),
        };
        let looking = self.look(&unknown, &access);
        if policy.waits() {
            let looked = tokio::time::timeout(policy.sync, join_all(looking)).await;
            let looked = looked.unwrap_or_default().into_iter().flatten().flatten();
            known.extend(looked);
            unknown = match decided(&known) {
                Answer::Ask(unknown) => unknown,
                answer => return Ok(answer),
            };
        }
        Ok(match (policy.mode, policy.on_miss) {
            (Mode::Place, OnMiss::Gate | OnMiss::Sync) => Answer::Pass(Pass {
                word: "Gated",
                changed: Some(gated(pod, &unknown)),
                warnings: Vec::new(),
                note: None,
            }),
            _ => unchanged("NotKnown"),
        })
    }

    /// What is known of images without asking anybody. A registry that has been out of order for longer
    /// than a pod would wait is not waited for, but asked, so that it is known when it is back.
    fn known(
        &self,
        used: &[Used],
        access: &Access,
        policy: &Policy,
    ) -> BTreeMap<String, Knowledge> {
        let mut known = BTreeMap::new();
        for used in used {
            let found = self.registries.known(used, access.keyring());
            self.report.looked(found.is_some());
            let found = found.or_else(|| {
                // What a registry said last may be about an image of somebody else.
                let Access::Credentials(_) = access else {
                    return None;
                };
                let given_up = self.registries.given_up(used, policy.gate)?;
                self.look(std::slice::from_ref(used), access);
                Some(given_up)
            });
            known.extend(found.map(|found| (used.image.clone(), found)));
        }
        known
    }

    /// Looks at images, whoever waits for it.
    fn look(&self, used: &[Used], access: &Access) -> Vec<JoinHandle<Option<(String, Knowledge)>>> {
        let looks = match access {
            Access::Credentials(_) => &self.looks,
            Access::Anonymous(_) => &self.anonymous_looks,
        };
        let looks = used.iter().filter_map(|used| {
            let turn = Arc::clone(looks).try_acquire_owned().ok()?;
            let (used, access) = (used.clone(), access.clone());
            let registries = self.registries.clone();
            Some(tokio::spawn(async move {
                let _turn = turn;
                let known = match registries.look(&used, access.keyring()).await {
                    Ok(known) => known,
                    // It may pass the next time.
                    Err(failure) if failure.known.passing => return None,
                    // It may pass with the pod's secrets.
                    Err(_) if matches!(access, Access::Anonymous(_)) => return None,
                    Err(failure) => failure.knowledge(),
                };
                Some((used.image, known))
            }))
        });
        looks.collect()
    }
}

/// How images are looked at.
#[derive(Clone)]
enum Access {
    /// With the credentials of the pod, and those of nodes.
    Credentials(Arc<Keyring>),
    /// With none, although the pod may have some.
    Anonymous(Arc<Keyring>),
}

impl Access {
    fn keyring(&self) -> &Arc<Keyring> {
        match self {
            Self::Credentials(keyring) | Self::Anonymous(keyring) => keyring,
        }
    }
}

fn unchanged(word: &'static str) -> Answer {
    Answer::Pass(Pass {
        word,
        changed: None,
        warnings: Vec::new(),
        note: None,
    })
}
