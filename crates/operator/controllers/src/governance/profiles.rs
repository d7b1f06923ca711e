//! PlatformProfiles: compiled, compared with the permissions of the operator, and offered to configurations.
//!
//! ```text
//! PlatformProfile --compile--> findings, profile --access reviews--> denied permissions
//!   --> status, and the registry: the profile, or a stand-in that says why it is not ready
//! ```
//!
//! A profile that cannot be used concerns no other one: each is evaluated on its own. The operator grants itself nothing;
//! what it lacks is in the status, for an administrator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ::governance::profile::data::status::{ProfileFacts, status};
use ::governance::profile::data::{DataProfile, Names, compile, unready};
use ::governance::profile::{Profile, Registry};
use api::profile::{Finding, PlatformProfile, READY};
use api::rbac::questions;
use cluster_view::policies;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::Gauges;
use runtime::{Error, Events, Key, Manager, Next, OptionalKinds, Queue, Reconcile, kind_of};
use tracing::warn;

use super::cluster;

/// Name of the controller in logs and managed fields.
const NAME: &str = "medley-profiles";
/// How often permissions are reviewed: granting one causes no watch event.
const RECHECK_DENIED: Duration = Duration::from_secs(15);
/// The same for a profile that has all of them: one may be revoked.
const RECHECK_GRANTED: Duration = Duration::from_mins(5);

/// The profiles that configurations can name; clones share them.
#[derive(Clone)]
pub(super) struct Profiles {
    built_in: Registry,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether all profiles were evaluated once.
    complete: bool,
    names: Names,
    known: BTreeMap<String, Known>,
}

/// A PlatformProfile.
#[derive(Clone)]
struct Known {
    hash: String,
    findings: Vec<Finding>,
    /// The compiled content, unless it has errors.
    compiled: Option<Arc<DataProfile>>,
    /// The last content that could be used.
    former: Option<Arc<DataProfile>>,
    /// The reason why it is not ready.
    why: Option<String>,
    /// What configurations get.
    offered: Option<Arc<dyn Profile>>,
}

impl Profiles {
    pub(super) fn new(built_in: Registry) -> Self {
        Self {
            built_in,
            state: Arc::default(),
        }
    }

    /// A profile by name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<dyn Profile>> {
        if let Some(profile) = self.built_in.get(name) {
            return Some(Arc::clone(profile));
        }
        self.state.lock().known.get(name)?.offered.clone()
    }

    /// Whether it is not known yet if there is a profile of this name.
    pub(super) fn is_unknown(&self, name: &str) -> bool {
        let state = self.state.lock();
        name.contains('.') && !state.complete && !state.known.contains_key(name)
    }

    /// All of them.
    pub(super) fn registry(&self) -> Registry {
        let state = self.state.lock();
        let offered = state
            .known
            .values()
            .filter_map(|known| known.offered.clone());
        Registry::new(self.built_in.iter().cloned().chain(offered).collect())
    }

    /// The compiled content of an object; compiled again only if it changed.
    fn compiled(&self, object: &PlatformProfile) -> Known {
        let hash = ::governance::hash::content_hash(&object.spec);
        let name = object.name_any();
        let mut state = self.state.lock();
        let before = state.known.get(&name);
        if let Some(before) = before.filter(|before| before.hash == hash) {
            return before.clone();
        }
        let former = before.and_then(|before| before.former.clone());
        let result = compile(&name, &object.spec, &mut state.names);
        Known {
            hash,
            findings: result.findings,
            compiled: result.profile.map(Arc::new),
            former,
            why: None,
            offered: None,
        }
    }

    /// Offers a profile, or a stand-in if `why` it is not ready; returns whether configurations are concerned. With
    /// `readable`, the kinds of its last usable content stay watched.
    fn offer(
        &self,
        object: &PlatformProfile,
        mut known: Known,
        why: Option<String>,
        readable: bool,
    ) -> bool {
        let name = object.name_any();
        let mut state = self.state.lock();
        known.offered = match (&known.compiled, &why) {
            (Some(profile), None) => {
                known.former = Some(Arc::clone(profile));
                Some(Arc::clone(profile) as Arc<dyn Profile>)
            }
            (_, why) => {
                let former = known.former.as_deref().filter(|_| readable);
                let former = former.map(|it| it as &dyn Profile);
                let why = why.clone().unwrap_or_default();
                unready(&name, &object.spec, former, why, &mut state.names)
            }
        };
        known.why = why;
        let before = state.known.insert(name, known.clone());
        before.is_none_or(|before| before.hash != known.hash || before.why != known.why)
    }

    /// Forgets the profiles that no longer exist; returns their names.
    fn retain(&self, existing: &BTreeSet<String>) -> Vec<String> {
        let mut state = self.state.lock();
        let gone: Vec<String> = state
            .known
            .keys()
            .filter(|name| !existing.contains(*name))
            .cloned()
            .collect();
        for name in &gone {
            state.known.remove(name);
        }
        gone
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByProfile {
    profile: String,
}

/// Metrics of PlatformProfiles.
pub(crate) struct ProfileReport {
    ready: Gauges<ByProfile>,
}

impl ProfileReport {
    pub(crate) fn new(manager: &Manager) -> Self {
        Self {
            ready: manager.metrics().gauges(
                "governance_profile_ready",
                "1 for a PlatformProfile that configurations can use, 0 for one that is invalid or lacks permissions",
            ),
        }
    }
}

/// Evaluates PlatformProfiles.
pub(super) struct ProfileController {
    client: Client,
    foreign: OptionalKinds,
    profiles: Profiles,
    /// The configurations, by name.
    configs: Queue<Key>,
    events: Events,
    report: ProfileReport,
}

impl ProfileController {
    pub(super) fn new(manager: &Manager, profiles: Profiles, configs: Queue<Key>) -> Self {
        Self {
            client: manager.client(),
            foreign: manager.optional_kinds().clone(),
            profiles,
            configs,
            events: crate::reasons::events(manager, super::COMPONENT),
            report: ProfileReport::new(manager),
        }
    }

    /// Starts the controller, after a first evaluation: a configuration must not be refused because its
    /// profile was not read yet.
    pub(super) async fn start(self, manager: &Manager) {
        let kind = kind_of::<PlatformProfile>();
        self.foreign.follow(&kind);
        if let Err(error) = self.evaluate_all(false).await {
            warn!(%error, "cannot evaluate PlatformProfiles; retrying");
        }
        let queue: Queue<Key> = Queue::new();
        // One reconcile covers all of them: there are few.
        let all = Key::new("", "all");
        let (to, key) = (queue.clone(), all.clone());
        self.foreign.on_change(move |change| {
            if change.kind().kind == kind.kind && change.kind().group == kind.group {
                to.add(key.clone());
            }
        });
        queue.add(all);
        manager.start(self, &queue, 1);
    }

    /// Evaluates all profiles; a follower only reads.
    async fn evaluate_all(&self, write: bool) -> Result<Next, Error> {
        let Some(cache) = self.foreign.open(&kind_of::<PlatformProfile>()).await? else {
            self.profiles.state.lock().complete = true;
            return Ok(Next::Wait);
        };
        let mut next = RECHECK_GRANTED;
        let mut existing = BTreeSet::new();
        let mut failed = None;
        for object in cache.list() {
            existing.insert(object.name_any());
            let Some(object) = policies::decode::<PlatformProfile>(&object) else {
                continue;
            };
            match self.evaluate(&object, write).await {
                Ok(true) => {}
                Ok(false) => next = RECHECK_DENIED,
                // The others do not depend on it.
                Err(error) => failed = Some(error),
            }
        }
        for name in self.profiles.retain(&existing) {
            self.report.ready.forget(&Key::new("", &name));
            self.configs.add(Key::new("", &name));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.profiles.state.lock().complete = true;
        Ok(Next::After(next))
    }

    /// Evaluates one profile; returns whether it has the permissions it needs.
    async fn evaluate(&self, object: &PlatformProfile, write: bool) -> Result<bool, Error> {
        let name = object.name_any();
        let known = self.profiles.compiled(object);
        let rules = known.compiled.as_deref().map(DataProfile::rules);
        let mut denied = Vec::new();
        for question in questions(&rules.unwrap_or_default(), None) {
            if !self.may(&question).await? {
                denied.push(question);
            }
        }
        let wanted = status(&ProfileFacts {
            object,
            findings: &known.findings,
            profile: known.compiled.as_deref(),
            denied: &denied,
            now: Timestamp::now(),
        });
        let ready = wanted.conditions.iter().find(|it| it.type_ == READY);
        let is_ready = ready.is_some_and(|it| it.status == "True");
        let why = ready.filter(|_| !is_ready).map(|it| it.message.clone());
        if is_ready && let Some(profile) = &known.compiled {
            cluster::follow(&self.foreign, profile.uses());
        }
        let changed = self
            .profiles
            .offer(object, known, why.clone(), denied.is_empty());
        let key = Key::new("", &name);
        let labels = ByProfile {
            profile: name.clone(),
        };
        let value = if is_ready { 1.0 } else { 0.0 };
        self.report.ready.set(&key, [(labels, value)]);
        if changed {
            self.configs.add(key);
        }
        if write && object.status.as_ref() != Some(&wanted) {
            let kind = kind_of::<PlatformProfile>();
            crate::status::write(&self.foreign, &kind, &object.metadata, &wanted, NAME).await?;
            let condition = object.status.iter().flat_map(|status| &status.conditions);
            let before = condition.map(|it| it.status.clone()).next();
            let after = wanted.conditions.first().map(|it| it.status.clone());
            if before != after {
                match why {
                    None => {
                        let message = "Configurations can use the profile";
                        self.events.normal(object, "ProfileReady", message);
                    }
                    Some(why) => self.events.warning(object, "ProfileNotReady", why),
                }
            }
        }
        Ok(denied.is_empty())
    }

    /// Whether the operator may perform an action.
    async fn may(&self, what: &ResourceAttributes) -> Result<bool, Error> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(what.clone()),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(Error::api(format!(
            "checking whether the operator may {}",
            runtime::access::described(what)
        )))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

impl Reconcile for ProfileController {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn reconcile(&self, _all: &Key) -> Result<Next, Error> {
        self.evaluate_all(true).await
    }
}
