//! Releases: whether the cluster has truly arrived at the one that it is on its way to.
//!
//! ```text
//! gather: ClusterVersion, ClusterOperators, pools of machines, the policy, the files of the release
//!   decide: release_migration::control --> verdict, and what a ClusterVersion says
//!     apply: status of the ClusterVersion, where Medley is to keep it and nobody else does
//!       report: status of the policy, events, metrics
//! ```
//!
//! Every change of `status.versions` of an operator is looked at. The cluster version operator wakes for
//! `operator` alone, and sees minutes later that the last image has arrived.

mod operators;
mod payloads;
mod report;
pub mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::release_migration::control::{
    self, Aim, Decision, Facts, Kept, Loaded, Owners, Trouble, TroubleKind, keeps, observed, owned,
    owners,
};
use ::release_migration::payload::Selection;
use api::openshift::{CLUSTER_VERSION, ClusterOperator, ClusterVersion, MachineConfigPool};
use api::release::{NAME, ReleasePolicy, ReleasePolicySpec};
use jiff::Timestamp;
use kube::api::{DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{
    Cache, Change, Error, Events, Foreign, ForeignChange, Key, Manager, Next, Queue, Reconcile,
    kind_of,
};
use tracing::info;

use crate::status::{typed, write};
use operators::Operators;
use payloads::Payloads;
use report::Report;

/// What the job is called: in logs, events and managed fields.
pub const COMPONENT: &str = "medley-release";

/// How soon is tried again what was forbidden.
const FORBIDDEN: Duration = Duration::from_mins(1);

/// The one policy that counts.
fn policy_key() -> Key {
    Key::new("", NAME)
}

/// What the job follows.
fn kinds() -> [GroupVersionKind; 4] {
    [
        kind_of::<ClusterVersion>(),
        kind_of::<ClusterOperator>(),
        kind_of::<MachineConfigPool>(),
        kind_of::<ReleasePolicy>(),
    ]
}

/// Starts the job; returns when everything there is has been seen. Where the kinds of OpenShift are not
/// installed, there is nothing to do until they are. `registries` reads images of releases; folders with
/// their files are opened below `folders` alone.
pub async fn start(
    manager: &Manager,
    registries: oci::Client,
    folders: Vec<PathBuf>,
) -> Result<(), Error> {
    let foreign = manager.foreign().clone();
    for kind in kinds() {
        foreign.follow(&kind);
    }
    let queue = Queue::new();
    let payloads = Payloads::follow(manager, &queue, registries, folders).await;
    foreign.synced().await;
    if foreign.cache(&kind_of::<ClusterVersion>()).is_none() {
        info!(
            "the kinds of config.openshift.io are not installed: no release is judged until they are"
        );
    }
    let job = Releases {
        client: manager.client(),
        foreign: foreign.clone(),
        payloads,
        operators: Operators::default(),
        events: crate::words::events(manager, COMPONENT),
        report: Report::new(manager),
        forbidden: Mutex::default(),
    };
    let to = queue.clone();
    foreign.on_change(move |change| {
        if kinds().contains(change.kind()) && is_news(change) {
            to.add(policy_key());
        }
    });
    queue.add(policy_key());
    manager.start(job, &queue, 1);
    Ok(())
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

/// Whether a change matters. Operators tell much of what they do; what counts is what they have arrived at,
/// and how they are.
fn is_news(change: &ForeignChange<'_>) -> bool {
    match change {
        ForeignChange::Object { kind, change, .. } if **kind == kind_of::<ClusterOperator>() => {
            let said = |change: &Change<DynamicObject>, field: &str| {
                let [old, new] = [&change.old, &change.new].map(|side| {
                    let status = side.as_ref()?.data.get("status")?;
                    status.get(field)
                });
                old != new
            };
            change.old.is_none()
                || change.new.is_none()
                || said(change, "versions")
                || said(change, "conditions")
        }
        _ => true,
    }
}

struct Releases {
    client: Client,
    foreign: Foreign,
    payloads: Payloads,
    operators: Operators,
    events: Events,
    report: Report,
    /// Why Medley may not write the ClusterVersion, if it was refused.
    forbidden: Mutex<Option<String>>,
}

/// All that was gathered.
struct Gathered {
    policy: ReleasePolicy,
    version: Option<ClusterVersion>,
    installed: bool,
    owners: Owners,
    aim: Aim,
    wanted: Result<Arc<Loaded>, Trouble>,
    current: Option<Arc<Loaded>>,
    kept: Vec<Kept>,
    operators: Arc<BTreeMap<String, ClusterOperator>>,
    pools: Vec<MachineConfigPool>,
}

impl Reconcile for Releases {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(gathered) = self.gather().await? else {
            self.report.forget(key);
            return Ok(Next::Wait);
        };
        let mut decision = self.decide(&gathered);
        if self.keep(&gathered, &decision).await? {
            decision = self.decide(&gathered);
        }
        self.tell(key, &gathered, &decision).await?;
        let again = self.payloads.settle();
        let again = again.filter(|_| gathered.version.is_some());
        let forbidden = self.forbidden.lock().is_some().then_some(FORBIDDEN);
        let due = decision.next.map(|at| {
            let wait = at.duration_since(Timestamp::now());
            Duration::try_from(wait).unwrap_or_default()
        });
        let next = [again, forbidden, due].into_iter().flatten().min();
        Ok(next.map_or(Next::Wait, Next::After))
    }
}

impl Releases {
    /// Reads all that counts. None if there is no place for a verdict, and nothing to judge.
    async fn gather(&self) -> Result<Option<Gathered>, Error> {
        let Some(policies) = self.foreign.open(&kind_of::<ReleasePolicy>()).await? else {
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
        let policy: Option<ReleasePolicy> = match one(&policies, NAME)? {
            None if version.is_some() => Some(self.make_policy(&policies).await?),
            found => found,
        };
        let Some(policy) = policy.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        let operators = match &operators {
            Some(cache) => self.operators.read(cache)?,
            None => Arc::default(),
        };
        let pools = pools.iter().flat_map(Cache::list);
        let pools = pools.map(|it| typed(&it)).collect::<Result<_, _>>()?;
        let mut gathered = Gathered {
            owners: version
                .as_ref()
                .map(|it| owners(it, COMPONENT))
                .unwrap_or_default(),
            aim: Aim::default(),
            wanted: Err(nobody_says()),
            current: None,
            kept: self.payloads.kept(),
            policy,
            version,
            installed,
            operators,
            pools,
        };
        self.aim(&mut gathered).await;
        Ok(Some(gathered))
    }

    /// Finds out which release counts, and reads its files.
    async fn aim(&self, gathered: &mut Gathered) {
        let Some(version) = &gathered.version else {
            return;
        };
        let spec = &gathered.policy.spec;
        let selection = Selection::of(version);
        let desired = version.status.as_ref().map(|it| it.desired.image.as_str());
        let desired = desired.filter(|it| !it.is_empty());
        gathered.aim = if keeps(&gathered.policy, &gathered.owners) {
            if let Some(image) = desired {
                let current = self.payloads.load(spec, image, &selection).await;
                gathered.current = current.ok();
            }
            let kept = &gathered.kept;
            let told = gathered.owners.of_updates;
            owned(version, gathered.current.as_deref(), kept, told)
        } else {
            observed(version)
        };
        if let Some(wanted) = &gathered.aim.wanted {
            let image = wanted.image.as_str();
            gathered.wanted = self.payloads.load(spec, image, &selection).await;
        }
    }

    /// Makes the policy, to have a place for the verdict.
    async fn make_policy(&self, policies: &Cache<DynamicObject>) -> Result<ReleasePolicy, Error> {
        let api: Api<ReleasePolicy> = Api::all(self.client.clone());
        let policy = ReleasePolicy::new(NAME, ReleasePolicySpec::default());
        let params = PostParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PostParams::default()
        };
        let made = api.create(&params, &policy).await;
        let made = made.map_err(Error::api(format!("creating ReleasePolicy {NAME}")))?;
        policies.saw(&made).await;
        Ok(made)
    }

    fn decide(&self, gathered: &Gathered) -> Decision {
        let forbidden = self.forbidden.lock().clone();
        control::decide(&Facts {
            policy: &gathered.policy,
            version: gathered.version.as_ref(),
            installed: gathered.installed,
            aim: &gathered.aim,
            wanted: gathered.wanted.as_deref(),
            current: gathered.current.as_deref(),
            operators: &gathered.operators,
            pools: &gathered.pools,
            kept: &gathered.kept,
            owners: &gathered.owners,
            forbidden: forbidden.as_deref(),
            architecture: importer::own_architecture(),
            now: Timestamp::now(),
        })
    }

    /// Writes the status of the ClusterVersion, if Medley keeps it and it is another. Whether it has become
    /// known only now that it may or may not.
    async fn keep(&self, gathered: &Gathered, decision: &Decision) -> Result<bool, Error> {
        let (Some(version), Some(wanted)) = (&gathered.version, &decision.version) else {
            return Ok(self.forbidden.lock().take().is_some());
        };
        if version.status.as_ref() == Some(wanted) {
            return Ok(false);
        }
        let kind = kind_of::<ClusterVersion>();
        let written = write(&self.foreign, &kind, &version.metadata, wanted, COMPONENT).await;
        let forbidden = match written {
            Ok(()) => None,
            Err(error) if error.code() == Some(403) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        let mut known = self.forbidden.lock();
        let changed = known.is_some() != forbidden.is_some();
        *known = forbidden;
        Ok(changed)
    }

    /// Publishes the verdict, and what has happened since the last one.
    async fn tell(&self, key: &Key, gathered: &Gathered, decision: &Decision) -> Result<(), Error> {
        if gathered.version.is_some() {
            self.report.tell(key, &decision.tally);
        } else {
            self.report.forget(key);
        }
        let policy = &gathered.policy;
        if policy.status.as_ref() != Some(&decision.status) {
            let kind = kind_of::<ReleasePolicy>();
            let of = &policy.metadata;
            write(&self.foreign, &kind, of, &decision.status, COMPONENT).await?;
        }
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
    cache.get("", name).map(|it| typed(&it)).transpose()
}

fn nobody_says() -> Trouble {
    Trouble {
        kind: TroubleKind::Missing,
        message: "neither the ClusterVersion nor a ConfigMap that is kept says which release the cluster runs".to_owned(),
    }
}
