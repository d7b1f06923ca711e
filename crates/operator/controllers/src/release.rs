//! Releases: verifies that every operator has reached the release the cluster is upgrading to.
//!
//! ```text
//! gather: ClusterVersion, ClusterOperators, MachineConfigPools, the policy, the manifests of the release
//!   decide: release_migration::control --> verdict, and the status of the ClusterVersion
//!     apply: status of the ClusterVersion, where Medley owns it and no other manager does
//!       report: status of the policy, events, metrics
//! ```
//!
//! Every change of `status.versions` of a ClusterOperator triggers a reconcile. The cluster version operator reacts to
//! the version named `operator` only, and notices minutes later that the last image has arrived.

mod operators;
mod payloads;
mod report;
pub mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::release_migration::control::{
    self, Decision, LoadedRelease, Owners, PayloadFailure, PayloadFailureKind, ReleaseInputs,
    ReleaseTarget, StoredRelease, keeps, observed, owned, owners,
};
use ::release_migration::payload::Selection;
use api::openshift::{CLUSTER_VERSION, ClusterOperator, ClusterVersion, MachineConfigPool};
use api::operators::RunningOperator;
use api::release::{NAME, ReleasePolicy, ReleasePolicySpec};
use cluster_view::policies;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{
    Cache, Change, Error, Events, Key, Manager, Next, OptionalKindChange, OptionalKinds, Queue,
    Reconcile, Writer, decode, kind_of,
};
use tracing::info;

use crate::genuine::GenuineWatch;
use crate::status::write;
use operators::Operators;
use payloads::Payloads;
pub(crate) use report::Report;

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = "medley-release";

/// Retry interval of a write that RBAC forbade.
const FORBIDDEN_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// The ReleasePolicy is a singleton.
fn policy_key() -> Key {
    Key::new("", NAME)
}

/// Kinds that the controller watches.
fn kinds() -> [GroupVersionKind; 4] {
    [
        kind_of::<ClusterVersion>(),
        kind_of::<ClusterOperator>(),
        kind_of::<MachineConfigPool>(),
        kind_of::<ReleasePolicy>(),
    ]
}

/// Starts the controller; returns once its caches have synced. It is idle until the OpenShift kinds are installed.
/// `registries` reads release images; release folders are opened only below `folders`.
pub async fn start(
    manager: &Manager,
    registries: oci::Client,
    folders: Vec<PathBuf>,
) -> Result<(), Error> {
    let foreign = manager.optional_kinds().clone();
    for kind in kinds() {
        foreign.follow(&kind);
    }
    let queue = Queue::new();
    let payloads = Payloads::follow(manager, &queue, registries, folders).await;
    // Before the first write: it may run without having written anything yet.
    let operator = GenuineWatch::follow(manager, control::OPERATOR).await;
    foreign.synced().await;
    if foreign.cache(&kind_of::<ClusterVersion>()).is_none() {
        info!(
            "the kinds of config.openshift.io are not installed; waiting for their CustomResourceDefinitions"
        );
    }
    let controller = ReleaseController {
        client: manager.client(),
        foreign: foreign.clone(),
        payloads,
        operator,
        operators: Operators::default(),
        events: crate::reasons::events(manager, COMPONENT),
        report: Report::new(manager),
        forbidden: Mutex::default(),
    };
    let to = queue.clone();
    foreign.on_change(move |change| {
        if kinds().contains(change.kind()) && affects_verdict(change) {
            to.add(policy_key());
        }
    });
    let to = queue.clone();
    controller.operator.on_change(move || to.add(policy_key()));
    queue.add(policy_key());
    // One worker, because there is one policy; the queue would hand its key to one worker at a time anyway.
    manager.start(controller, &queue, 1);
    Ok(())
}

/// Whether a change can alter the verdict. Operators update their status often; only versions and conditions count.
fn affects_verdict(change: &OptionalKindChange<'_>) -> bool {
    match change {
        OptionalKindChange::Object { kind, change, .. }
            if **kind == kind_of::<ClusterOperator>() =>
        {
            let differs = |change: &Change<DynamicObject>, field: &str| {
                let [old, new] = [&change.old, &change.new].map(|side| {
                    let status = side.as_ref()?.data.get("status")?;
                    status.get(field)
                });
                old != new
            };
            change.old.is_none()
                || change.new.is_none()
                || differs(change, "versions")
                || differs(change, "conditions")
        }
        _ => true,
    }
}

struct ReleaseController {
    client: Client,
    foreign: OptionalKinds,
    payloads: Payloads,
    /// The cluster version operator.
    operator: GenuineWatch,
    operators: Operators,
    events: Events,
    report: Report,
    /// Message of the API server when it forbade writing the ClusterVersion.
    forbidden: Mutex<Option<String>>,
}

/// Inputs of one reconcile.
struct GatheredRelease {
    policy: ReleasePolicy,
    version: Option<ClusterVersion>,
    installed: bool,
    owners: Owners,
    aim: ReleaseTarget,
    wanted: Result<Arc<LoadedRelease>, PayloadFailure>,
    current: Option<Arc<LoadedRelease>>,
    kept: Vec<StoredRelease>,
    operators: Arc<BTreeMap<String, ClusterOperator>>,
    pools: Vec<MachineConfigPool>,
}

impl Reconcile for ReleaseController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(inputs) = self.gather().await? else {
            self.report.forget(key);
            return Ok(Next::Wait);
        };
        let mut decision = self.decide(&inputs);
        // Decided again at most once: the second decision reports the missing
        // permission and writes no ClusterVersion.
        if self.keep(&inputs, &decision).await? {
            decision = self.decide(&inputs);
        }
        self.publish(key, &inputs, &decision).await?;
        let again = self.payloads.settle();
        let again = again.filter(|_| inputs.version.is_some());
        let forbidden = self
            .forbidden
            .lock()
            .is_some()
            .then_some(FORBIDDEN_RETRY_INTERVAL);
        let due = decision.next.map(|at| {
            let wait = at.duration_since(Timestamp::now());
            Duration::try_from(wait).unwrap_or_default()
        });
        // The end of a Lease is no event.
        let ends = inputs
            .owners
            .operator
            .as_ref()
            .and_then(RunningOperator::until);
        let ends = ends.map(|at| {
            let wait = at.duration_since(Timestamp::now());
            Duration::try_from(wait).unwrap_or_default()
        });
        let next = [again, forbidden, due, ends].into_iter().flatten().min();
        Ok(next.map_or(Next::Wait, Next::After))
    }
}

impl ReleaseController {
    /// Reads the inputs. `None` if the ReleasePolicy CRD is missing, or if there is neither a policy nor a
    /// ClusterVersion.
    async fn gather(&self) -> Result<Option<GatheredRelease>, Error> {
        let Some(cache) = self.foreign.open(&kind_of::<ReleasePolicy>()).await? else {
            return Ok(None);
        };
        let versions = self.foreign.open(&kind_of::<ClusterVersion>()).await?;
        let operators = self.foreign.open(&kind_of::<ClusterOperator>()).await?;
        let pools = self.foreign.open(&kind_of::<MachineConfigPool>()).await?;
        let installed = versions.is_some() && operators.is_some();
        let version: Option<ClusterVersion> = match &versions {
            Some(cache) if installed => one(cache, CLUSTER_VERSION)?,
            _ => None,
        };
        let policy: Option<ReleasePolicy> = match policies::cached(&self.foreign).await? {
            // Only with a ClusterVersion: in other clusters the policy would be an object without any effect.
            None if version.is_some() => Some(self.create_policy(&cache).await?),
            found => found,
        };
        // A status written to a terminating policy is lost with it. Its deletion event brings the next reconcile.
        let Some(policy) = policy.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        let operators = match &operators {
            Some(cache) => self.operators.read(cache),
            None => Arc::default(),
        };
        let pools = pools.iter().flat_map(Cache::list);
        let pools = pools.map(|it| decode(&it)).collect::<Result<_, _>>()?;
        let mut inputs = GatheredRelease {
            owners: Owners {
                operator: self.operator.running(Timestamp::now()),
                ..version
                    .as_ref()
                    .map(|it| owners(it, COMPONENT))
                    .unwrap_or_default()
            },
            aim: ReleaseTarget::default(),
            wanted: Err(no_target_release()),
            current: None,
            kept: self.payloads.kept(),
            policy,
            version,
            installed,
            operators,
            pools,
        };
        self.resolve_aim(&mut inputs).await;
        Ok(Some(inputs))
    }

    /// Determines the target release and loads its manifests.
    async fn resolve_aim(&self, inputs: &mut GatheredRelease) {
        let Some(version) = &inputs.version else {
            return;
        };
        let spec = &inputs.policy.spec;
        let selection = Selection::of(version);
        let desired = version.status.as_ref().map(|it| it.desired.image.as_str());
        let desired = desired.filter(|it| !it.is_empty());
        inputs.aim = if keeps(&inputs.policy, &inputs.owners) {
            if let Some(image) = desired {
                let current = self.payloads.load(spec, image, &selection).await;
                inputs.current = current.ok();
            }
            let kept = &inputs.kept;
            let of_updates = inputs.owners.of_updates;
            owned(version, inputs.current.as_deref(), kept, of_updates)
        } else {
            observed(version)
        };
        if let Some(wanted) = &inputs.aim.wanted {
            let image = wanted.image.as_str();
            inputs.wanted = self.payloads.load(spec, image, &selection).await;
        }
    }

    /// Creates the policy, whose status holds the verdict.
    async fn create_policy(&self, policies: &Cache<DynamicObject>) -> Result<ReleasePolicy, Error> {
        let policy = ReleasePolicy::new(NAME, ReleasePolicySpec::default());
        let writer = Writer::new(Api::all(self.client.clone()), COMPONENT);
        writer.shown_by(policies).create(&policy).await
    }

    fn decide(&self, inputs: &GatheredRelease) -> Decision {
        let forbidden = self.forbidden.lock().clone();
        control::decide(&ReleaseInputs {
            policy: &inputs.policy,
            version: inputs.version.as_ref(),
            installed: inputs.installed,
            aim: &inputs.aim,
            wanted: inputs.wanted.as_deref(),
            current: inputs.current.as_deref(),
            operators: &inputs.operators,
            pools: &inputs.pools,
            kept: &inputs.kept,
            owners: &inputs.owners,
            forbidden: forbidden.as_deref(),
            architecture: oci::resolve::own_architecture(),
            now: Timestamp::now(),
        })
    }

    /// Writes the status of the ClusterVersion, if Medley owns it and it changed. Returns whether the permission to
    /// write it changed, which requires a new decision.
    async fn keep(&self, inputs: &GatheredRelease, decision: &Decision) -> Result<bool, Error> {
        let (Some(version), Some(wanted)) = (&inputs.version, &decision.version) else {
            return Ok(self.forbidden.lock().take().is_some());
        };
        if version.status.as_ref() == Some(wanted) {
            return Ok(false);
        }
        let kind = kind_of::<ClusterVersion>();
        let written = write(&self.foreign, &kind, &version.metadata, wanted, COMPONENT).await;
        let forbidden = match written {
            Ok(()) => None,
            // Reported in the status and retried at a fixed interval: a missing ClusterRole is not a failed
            // reconcile, and backoff would delay the recovery.
            Err(error) if error.code() == Some(403) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        let mut known = self.forbidden.lock();
        let changed = known.is_some() != forbidden.is_some();
        *known = forbidden;
        Ok(changed)
    }

    /// Updates metrics and status, and emits the events of the decision.
    async fn publish(
        &self,
        key: &Key,
        inputs: &GatheredRelease,
        decision: &Decision,
    ) -> Result<(), Error> {
        if inputs.version.is_some() {
            self.report.update(key, &decision.tally);
        } else {
            self.report.forget(key);
        }
        let policy = &inputs.policy;
        if policy.status.as_ref() != Some(&decision.status) {
            let kind = kind_of::<ReleasePolicy>();
            let of = &policy.metadata;
            write(&self.foreign, &kind, of, &decision.status, COMPONENT).await?;
        }
        // After the status: if its write fails, the next reconcile makes the same
        // decision, and with it the same notices.
        for notice in &decision.notices {
            if notice.warning {
                self.events.warning(policy, &notice.reason, &notice.message);
            } else {
                self.events.normal(policy, &notice.reason, &notice.message);
            }
        }
        Ok(())
    }
}

fn one<K>(cache: &Cache<DynamicObject>, name: &str) -> Result<Option<K>, Error>
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
{
    cache.get("", name).map(|it| decode(&it)).transpose()
}

fn no_target_release() -> PayloadFailure {
    PayloadFailure {
        kind: PayloadFailureKind::Missing,
        message:
            "neither the ClusterVersion nor a release ConfigMap names the release of the cluster"
                .to_owned(),
    }
}
