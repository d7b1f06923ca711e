//! The cluster operators: each watches its own pods, updates its operands, and reports.

use std::sync::Arc;
use std::time::Duration;

use api::openshift::{ClusterOperator, ClusterOperatorStatus};
use clusteroperator_reporter::{Claim, Reporter, Rollout, State, Versions, Written};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use runtime::{Cache, Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::OPERATOR_LABEL;
use super::catalog::{OPERATORS, OperatorInfo, UpdateBehaviour, find};
use super::machines::{Machines, Progress};
use crate::names::label;
use crate::operators::{MachineConfig, MachineConfigPool};
use crate::pace::Pace;

/// Operators reconciled concurrently.
const WORKERS: usize = 4;
/// Time an operator takes to update its operands.
const OPERAND_UPDATE_TIME: Duration = Duration::from_secs(20);
/// The same for a slow operator.
const SLOW_UPDATE_TIME: Duration = Duration::from_mins(3);
/// How long a troubled operator is degraded after its pods are updated.
const DEGRADED_TIME: Duration = Duration::from_mins(1);

struct Operators {
    client: Client,
    deployments: Cache<Deployment>,
    pods: Cache<Pod>,
    reported: Cache<ClusterOperator>,
    machines: Machines,
    pace: Pace,
    events: Events,
}

pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    let daemons: Cache<DaemonSet> = manager.cache();
    let pools: Cache<MachineConfigPool> = manager.cache();
    let configs: Cache<MachineConfig> = manager.cache();
    let operators = Operators {
        deployments: manager.cache(),
        pods: manager.cache(),
        reported: manager.cache(),
        pace: Pace::new(speed),
        events: manager.events("cluster-operators"),
        machines: Machines {
            client: client.clone(),
            daemons: daemons.clone(),
            pools: pools.clone(),
            configs: configs.clone(),
            pods: manager.cache(),
        },
        client,
    };
    tokio::join!(
        operators.deployments.synced(),
        operators.pods.synced(),
        operators.reported.synced(),
        daemons.synced(),
        pools.synced(),
        configs.synced(),
    );
    let queue = Queue::new();
    queue.enqueue_mapped(&operators.deployments, |change| {
        let name = label(&change.object()?.metadata, OPERATOR_LABEL)?;
        Some(Key::new("", name))
    });
    // Namespaces of operators have few pods; other namespaces are ignored.
    queue.enqueue_mapped(&operators.pods, |change| {
        let namespace = change.object().and_then(|it| it.namespace());
        keys(|about| namespace.as_deref() == Some(about.namespace))
    });
    queue.enqueue_objects(&operators.reported);
    let machines = || keys(|about| about.manner == UpdateBehaviour::Machines);
    queue.enqueue_mapped(&daemons, move |_| machines());
    queue.enqueue_mapped(&pools, move |_| machines());
    manager.start(operators, &queue, WORKERS);
}

/// The keys of the operators that match.
fn keys(matches: impl Fn(&OperatorInfo) -> bool) -> Vec<Key> {
    let matching = OPERATORS.iter().filter(|about| matches(about));
    matching.map(|about| Key::new("", about.name)).collect()
}

impl Reconcile for Operators {
    fn name(&self) -> &'static str {
        "cluster-operators"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(about) = find(&key.name) else {
            return Ok(Next::Wait);
        };
        let Some(deployment) = self.deployment(about) else {
            return Ok(Next::Wait);
        };
        let variable = |name: &str| variable(&deployment, name);
        let versions = Versions::read(variable, &about.operand_names())
            .map_err(|error| Error::Invalid(format!("operator {}: {error}", about.name)))?;
        let rollout = Rollout::of_deployment(&deployment, &self.own_pods(about));
        let mut state = State::of(&rollout, &versions);
        let mut next = Next::Wait;
        let before = self.reported.get("", about.name);
        let before = before.and_then(|it| it.status.clone()).unwrap_or_default();
        if rollout.is_done() {
            (state, next) = self
                .work(about, &deployment, &versions, &before, state)
                .await?;
        }
        // An operator becomes available only after its first rollout: an installation is complete
        // when all are available.
        if before.versions.is_empty() && !state.has_arrived() {
            state.available = Claim::new(false, "Installing", "It is not installed yet");
        }
        self.report(about, &versions, &state).await?;
        Ok(next)
    }
}

impl Operators {
    /// The Deployment of an operator, if it is simulated: a copied cluster has Deployments of the
    /// real ones.
    fn deployment(&self, about: &OperatorInfo) -> Option<Arc<Deployment>> {
        let found = self.deployments.get(about.namespace, about.image)?;
        (label(&found.metadata, OPERATOR_LABEL) == Some(about.name)).then_some(found)
    }

    fn own_pods(&self, about: &OperatorInfo) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.in_namespace(about.namespace);
        pods.retain(|it| it.labels().get("name").is_some_and(|it| it == about.image));
        pods
    }

    /// The update of operands once the operator's own pods are updated, until the operator reports
    /// the version.
    async fn work(
        &self,
        about: &OperatorInfo,
        deployment: &Deployment,
        versions: &Versions,
        before: &ClusterOperatorStatus,
        state: State,
    ) -> Result<(State, Next), Error> {
        let (work, trouble) = (
            format!("{} {versions}", about.name),
            format!("{} trouble", about.name),
        );
        if versions.are_in(before) && about.manner != UpdateBehaviour::Machines {
            self.pace.forget(&work);
            self.pace.forget(&trouble);
            return Ok((state, Next::Wait));
        }
        // A new installation has no operands to update.
        let is_new = before.versions.is_empty();
        match about.manner {
            UpdateBehaviour::Machines => {
                let image = variable(deployment, super::MACHINE_OS_VARIABLE);
                let progress = self
                    .machines
                    .advance(about, deployment, versions, &image.unwrap_or_default())
                    .await?;
                let state = match progress {
                    Progress::Done => state,
                    Progress::Underway(why) => state.working(versions, &why),
                    Progress::UnrunnablePod(why) => state
                        .working(versions, &why)
                        .degraded("RequiredPoolsFailed", why),
                };
                return Ok((state, Next::Wait));
            }
            UpdateBehaviour::Troubled if !is_new => {
                if let Some(left) = self.pace.left(&trouble, DEGRADED_TIME) {
                    let state = state
                        .working(versions, "operands")
                        .degraded("OperandDegraded", "operands do not answer yet");
                    return Ok((state, Next::After(left)));
                }
            }
            UpdateBehaviour::Slow | UpdateBehaviour::Troubled | UpdateBehaviour::Usual => {}
        }
        let takes = match about.manner {
            _ if is_new => Duration::ZERO,
            UpdateBehaviour::Slow => SLOW_UPDATE_TIME,
            // The degraded time has passed already.
            UpdateBehaviour::Troubled => Duration::ZERO,
            UpdateBehaviour::Usual | UpdateBehaviour::Machines => OPERAND_UPDATE_TIME,
        };
        Ok(match self.pace.left(&work, takes) {
            Some(left) => (state.working(versions, "operands"), Next::After(left)),
            None => (state, Next::Wait),
        })
    }

    async fn report(
        &self,
        about: &OperatorInfo,
        versions: &Versions,
        state: &State,
    ) -> Result<(), Error> {
        let reporter = Reporter::new(self.client.clone(), about.name);
        let written = reporter.report(versions, state).await;
        let written = written.map_err(|error| Error::Invalid(error.to_string()))?;
        if let Written::Changed { object, .. } = &written {
            if let Some(message) = written.event(about.name) {
                let reason = "OperatorVersionChanged";
                self.events.normal(&**object, reason, message);
            }
            self.reported.saw(&**object).await;
        }
        Ok(())
    }
}

/// An environment variable of the operator's container, set by the release.
fn variable(deployment: &Deployment, name: &str) -> Option<String> {
    let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let mut variables = spec.containers.first()?.env.iter().flatten();
    variables.find(|it| it.name == name)?.value.clone()
}
