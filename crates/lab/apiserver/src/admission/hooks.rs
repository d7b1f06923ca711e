//! Webhooks, read from their configurations and again when these change.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::status::Status;
use serde_json::Value;

use super::client::{Address, Clients, Endpoint};
use super::conditions::{Condition, variables};
use super::matching::Selection;
use super::policies::Policy;
use crate::builtin::value::Read;
use crate::server::State;

/// All webhooks in call order.
#[derive(Default)]
pub(crate) struct Hooks {
    /// From `MutatingWebhookConfiguration`s.
    pub(crate) mutating: Vec<Hook>,
    /// From `ValidatingWebhookConfiguration`s.
    pub(crate) validating: Vec<Hook>,
    /// Policies with bindings.
    pub(crate) policies: Vec<Policy>,
}

/// A webhook.
pub(crate) struct Hook {
    /// Its name, for errors.
    pub(super) name: String,
    /// Unique identity, because names may repeat.
    pub(super) id: String,
    /// The requests it matches.
    pub(super) selection: Selection,
    /// Its match conditions.
    pub(super) conditions: Vec<Condition>,
    /// Whether its failures are ignored (`failurePolicy: Ignore`).
    pub(super) ignore_failure: bool,
    /// Its timeout.
    pub(super) timeout: Option<Duration>,
    /// Its declared side effects.
    pub(super) side_effects: Option<String>,
    /// Review versions it accepts.
    pub(super) versions: Vec<String>,
    /// Whether it is reinvoked after later changes of the object.
    pub(super) reinvoked: bool,
    /// Its address.
    pub(super) endpoint: Endpoint,
}

impl Hook {
    fn read(configuration: &str, index: usize, hook: &Value) -> Result<Self, String> {
        let name = hook.text("name");
        Ok(Self {
            name: name.to_owned(),
            id: format!("{configuration}/{name}/{index}"),
            selection: Selection::of_hook(hook)?,
            conditions: hook
                .items("matchConditions")
                .iter()
                .map(|condition| Condition::read(condition, &variables(false)))
                .collect(),
            ignore_failure: hook.text("failurePolicy") == "Ignore",
            timeout: hook
                .int("timeoutSeconds")
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs),
            side_effects: hook.maybe_text("sideEffects").map(str::to_owned),
            versions: hook
                .texts("admissionReviewVersions")
                .into_iter()
                .map(str::to_owned)
                .collect(),
            reinvoked: hook.text("reinvocationPolicy") == "IfNeeded",
            endpoint: endpoint(hook.at("clientConfig"))?,
        })
    }
}

fn endpoint(config: &Value) -> Result<Endpoint, String> {
    let place = if config.has("service") {
        let service = config.at("service");
        Address::Service {
            namespace: service.text("namespace").to_owned(),
            name: service.text("name").to_owned(),
            path: service.text("path").to_owned(),
            port: service
                .int("port")
                .and_then(|port| u16::try_from(port).ok())
                // The default of the API, applied again here for objects that were restored without
                // defaulting.
                .unwrap_or(443),
        }
    } else {
        Address::Url(config.text("url").to_owned())
    };
    Ok(Endpoint {
        place,
        authorities: STANDARD
            .decode(config.text("caBundle"))
            .map_err(|error| format!("caBundle: {error}"))?,
    })
}

/// The webhook configurations, and the connections to webhooks.
pub(crate) struct HookSource {
    /// Number of writes of configurations.
    written: AtomicU64,
    /// The last webhooks read, and the number of writes before that.
    current: ArcSwap<(u64, Arc<Hooks>)>,
    /// Connections.
    pub(crate) clients: Clients,
}

impl Default for HookSource {
    fn default() -> Self {
        Self {
            // Nothing has been read yet, including configurations of an earlier run.
            written: AtomicU64::new(1),
            current: ArcSwap::from_pointee((0, Arc::default())),
            clients: Clients::default(),
        }
    }
}

impl HookSource {
    /// Records a write in the admission group.
    pub(crate) fn changed(&self) {
        // A counter and not the store's revision: every write of any kind moves that, and each
        // request would read all configurations again.
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    /// The current webhooks: a configuration is effective once its write is answered.
    pub(super) fn current(&self, state: &State) -> Result<Arc<Hooks>, Status> {
        // Loaded before the store is read: a later write then invalidates the result.
        let written = self.written.load(Ordering::SeqCst);
        let known = self.current.load();
        if known.0 == written {
            return Ok(Arc::clone(&known.1));
        }
        let hooks = Arc::new(Hooks {
            mutating: read_all(state, "mutatingwebhookconfigurations")?,
            validating: read_all(state, "validatingwebhookconfigurations")?,
            policies: read_policies(state)?,
        });
        // A slower reader may overwrite a newer result. Its number is then too small as well, and
        // the next request reads again.
        self.current.store(Arc::new((written, Arc::clone(&hooks))));
        Ok(hooks)
    }
}

/// All objects of a kind, by name: names are keys, so they are sorted.
///
/// A damaged object fails every request subject to admission: it may have rejected it, so nothing
/// is allowed. It can be deleted, because admission exempts its own configuration.
fn objects(state: &State, plural: &str) -> Result<Vec<Arc<Value>>, Status> {
    let prefix = format!("/registry/{plural}/");
    let page = state
        .store
        .list(&prefix, Bound::Unbounded, 0, None)
        .map_err(|error| Status::internal(&error.to_string()))?;
    let objects = page.entries.iter().map(|entry| {
        if let Some(reason) = entry.damage() {
            return Err(Status::internal(&format!(
                "admission cannot be decided: the stored object {:?} is damaged: {reason}; delete it with: kubectl \
                 delete {plural} {}",
                entry.key,
                entry.key.strip_prefix(&prefix).unwrap_or_default(),
            )));
        }
        entry
            .object()
            .map_err(|error| Status::internal(&error.to_string()))
    });
    objects.collect()
}

/// The policies that have bindings.
fn read_policies(state: &State) -> Result<Vec<Policy>, Status> {
    let bindings = objects(state, "validatingadmissionpolicybindings")?;
    let mut policies = Vec::new();
    for policy in objects(state, "validatingadmissionpolicies")? {
        let own: Vec<&Value> = bindings
            .iter()
            .map(Arc::as_ref)
            .filter(|binding| binding.text("spec.policyName") == policy.name())
            .collect();
        if !own.is_empty() {
            let read = Policy::read(&policy, &own);
            policies.push(read.map_err(|why| Status::internal(&why))?);
        }
    }
    Ok(policies)
}

/// The webhooks of all configurations, by the names of these.
fn read_all(state: &State, plural: &str) -> Result<Vec<Hook>, Status> {
    let mut hooks = Vec::new();
    for configuration in objects(state, plural)? {
        for (index, hook) in configuration.items("webhooks").iter().enumerate() {
            let read = Hook::read(configuration.name(), index, hook);
            hooks.push(read.map_err(|why| Status::internal(&why))?);
        }
    }
    Ok(hooks)
}
