//! The mode of a layer: whether it writes, beside the genuine operator of its objects.
//!
//! ```text
//! Deployment, Lease, CRDs, the policy --golden_images::layers--> mode --> the controllers of the layer: write, or wait
//!                                                                    `--> condition of the policy
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use api::golden::{GoldenImagePolicy, NAME};
use api::mode::Ownership;
use api::operators::{RunningOperator, expiry, running, wants_replicas};
use cluster_view::policies;
use golden_images::layers::{Layer, LayerState, steps_back};
use golden_images::policy::status::with_conditions;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use runtime::{
    Cache, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Queue, Reconcile, kind_of,
};
use tracing::info;

use crate::status;

/// The reason of the event when a layer steps back.
pub(super) const UPSTREAM_RUNS: &str = api::mode::reasons::UPSTREAM_RUNS;

/// The objects that a layer leaves to the genuine operator, so that an event is emitted only when that begins.
#[derive(Default)]
pub(super) struct SteppedBack(Mutex<BTreeSet<Key>>);

impl SteppedBack {
    /// Records whether the operator runs; returns the message if it did not run before.
    pub(super) fn changed(&self, of: &Key, mode: &LayerMode) -> Option<String> {
        let mut known = self.0.lock();
        if steps_back(&mode.ownership) {
            let message = || mode.ownership.message.clone();
            known.insert(of.clone()).then(message)
        } else {
            known.remove(of);
            None
        }
    }
}

/// The mode of a layer at a time.
#[derive(Debug, Clone)]
pub(super) struct LayerMode {
    pub(super) ownership: Ownership,
    /// The genuine operator, if it runs.
    pub(super) running: Option<RunningOperator>,
}

impl LayerMode {
    /// Whether the layer may write.
    pub(super) fn manages(&self) -> bool {
        self.ownership.manages()
    }

    /// When it may change without a watch event: when the Lease of the genuine operator expires.
    pub(super) fn next(&self) -> Next {
        let running = self.running.as_ref();
        running
            .and_then(RunningOperator::until)
            .map_or(Next::Wait, Next::at)
    }
}

/// Observes what decides the mode of a layer; clones share the caches.
#[derive(Clone)]
pub(super) struct LayerWatch {
    layer: Layer,
    foreign: OptionalKinds,
    deployments: Option<Cache<Deployment>>,
    leases: Option<Cache<Lease>>,
}

impl LayerWatch {
    /// Starts the caches, and reports the mode in the policy. Returns once the caches have synced, so that nothing is
    /// written before the mode is known.
    pub(super) async fn start(manager: &Manager, layer: Layer, component: &'static str) -> Self {
        let client = manager.client();
        let operator = layer.operator();
        let deployments = operator.map(|it| {
            let api = Api::all(client.clone());
            manager.watch(Cache::follow_named(api, it.deployment))
        });
        let leases = operator.and_then(|it| it.lease).map(|lease| {
            let api = Api::all(client.clone());
            manager.watch(Cache::follow_named(api, lease))
        });
        let foreign = manager.optional_kinds().clone();
        foreign.follow(&kind_of::<GoldenImagePolicy>());
        let watch = Self {
            layer,
            foreign,
            deployments,
            leases,
        };
        watch.foreign.synced().await;
        if let Some(deployments) = &watch.deployments {
            deployments.synced().await;
        }
        if let Some(leases) = &watch.leases {
            leases.synced().await;
        }
        let queue: Queue<Key> = Queue::new();
        let policy = Key::new("", NAME);
        let (to, key) = (queue.clone(), policy.clone());
        watch.on_change(move || to.add(key.clone()));
        queue.add(policy);
        let reporter = ModeReporter {
            watch: watch.clone(),
            component,
            logged: Mutex::default(),
        };
        manager.start(reporter, &queue, 1);
        watch
    }

    /// Calls `notify` when the mode may have changed; not for each renewal of a Lease.
    pub(super) fn on_change(&self, notify: impl Fn() + Clone + Send + Sync + 'static) {
        if let Some(deployments) = &self.deployments {
            let notify = notify.clone();
            deployments.on_change(move |change| {
                let wants = |side: Option<&Deployment>| side.is_some_and(wants_replicas);
                if wants(change.old.as_deref()) != wants(change.new.as_deref()) {
                    notify();
                }
            });
        }
        if let Some(leases) = &self.leases {
            let notify = notify.clone();
            leases.on_change(move |change| {
                let now = Timestamp::now();
                let held =
                    |side: Option<&Lease>| side.and_then(expiry).is_some_and(|end| end > now);
                if held(change.old.as_deref()) != held(change.new.as_deref()) {
                    notify();
                }
            });
        }
        let (group, kind) = self.layer.kind();
        self.foreign.on_change(move |change| match change {
            OptionalKindChange::Object {
                kind: of, change, ..
            } if **of == kind_of::<GoldenImagePolicy>() => {
                // Not for its status, which the layers write themselves.
                let generation = |side: &Option<Arc<DynamicObject>>| {
                    side.as_ref().map(|it| it.metadata.generation)
                };
                if generation(&change.old) != generation(&change.new) {
                    notify();
                }
            }
            OptionalKindChange::Object { .. } => {}
            // The kind was installed or removed.
            change if change.kind().group == group && change.kind().kind == kind => notify(),
            _ => {}
        });
    }

    /// The mode now.
    pub(super) async fn mode(&self) -> Result<LayerMode, Error> {
        let policy = policies::cached::<GoldenImagePolicy>(&self.foreign).await?;
        Ok(self.decide(policy.as_ref()))
    }

    fn decide(&self, policy: Option<&GoldenImagePolicy>) -> LayerMode {
        let list =
            |cache: &Option<Cache<Deployment>>| cache.as_ref().map(Cache::list).unwrap_or_default();
        let leases = self.leases.as_ref().map(Cache::list).unwrap_or_default();
        let running = self.layer.operator().and_then(|operator| {
            running(
                &operator,
                &list(&self.deployments),
                &leases,
                Timestamp::now(),
            )
        });
        let (group, kind) = self.layer.kind();
        let ownership = self.layer.mode(&LayerState {
            setting: policy.map(|it| it.spec.mode).unwrap_or_default(),
            enabled: true,
            installed: self.foreign.kind(group, kind).is_some(),
            running: running.as_ref(),
        });
        LayerMode { ownership, running }
    }

    /// An error unless the layer may write: checked before each write, because the mode may have changed since the
    /// reconcile began.
    pub(super) async fn permit(&self) -> Result<(), Error> {
        let mode = self.mode().await?;
        if mode.manages() {
            return Ok(());
        }
        Err(Error::Late(format!(
            "not written: {}",
            mode.ownership.message
        )))
    }
}

/// A controller of a layer that reconciles only while the layer manages its objects. Keys that are dropped meanwhile
/// have to be enqueued again when the mode changes ([`LayerWatch::on_change`]).
pub(super) struct Managed<C> {
    pub(super) watch: LayerWatch,
    pub(super) controller: C,
}

impl<T, C> Reconcile<T> for Managed<C>
where
    T: Sync,
    C: Reconcile<T>,
{
    fn name(&self) -> &'static str {
        self.controller.name()
    }

    async fn reconcile(&self, what: &T) -> Result<Next, Error> {
        let mode = self.watch.mode().await?;
        if mode.manages() {
            self.controller.reconcile(what).await
        } else {
            Ok(mode.next())
        }
    }
}

/// Reports the mode of a layer in a condition of the policy, and in the log for clusters without one.
struct ModeReporter {
    watch: LayerWatch,
    component: &'static str,
    /// The mode that was logged last.
    logged: Mutex<Option<Ownership>>,
}

impl Reconcile for ModeReporter {
    fn name(&self) -> &'static str {
        match self.watch.layer {
            Layer::Hco => "medley-images-hco-mode",
            Layer::Ssp => "medley-images-ssp-mode",
            Layer::Cdi => "medley-images-cdi-mode",
            Layer::Vm => "medley-images-vm-mode",
        }
    }

    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        let watch = &self.watch;
        let policy = policies::cached::<GoldenImagePolicy>(&watch.foreign).await?;
        let mode = watch.decide(policy.as_ref());
        self.log(&mode.ownership);
        if let Some(policy) = policy {
            let update = watch.layer.managing(&mode.ownership);
            let wanted = with_conditions(&policy, &[update], Timestamp::now());
            if policy.status.as_ref() != Some(&wanted) {
                let kind = kind_of::<GoldenImagePolicy>();
                let (foreign, meta) = (&watch.foreign, &policy.metadata);
                status::write(foreign, &kind, meta, &wanted, self.component).await?;
            }
        }
        Ok(mode.next())
    }
}

impl ModeReporter {
    fn log(&self, ownership: &Ownership) {
        let mut logged = self.logged.lock();
        if logged.as_ref() != Some(ownership) {
            info!(mode = %ownership.mode, "{}", ownership.message);
            *logged = Some(ownership.clone());
        }
    }
}
