//! A cluster with a running operator, and helpers for the governance commands.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use api::advisor::{Phase, VirtPlatformConfig};
use fleet::operators::{self, Installed, MachineConfig, kube_descheduler, names};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{DeschedulerPlayer, ServedCluster, TestCluster, wait_until};

pub(crate) use testkit::{CommandOutput, has};

pub(crate) const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
pub(crate) const NAMESPACE: &str = "medley-system";
pub(crate) const NAME: &str = "load-aware-rebalancing";
/// Simulation speed: a reboot takes a tenth of a second.
pub(crate) const FAST: f64 = 600.0;

/// Runs the binary without a terminal, so it cannot ask for confirmation.
pub(crate) async fn medley(kubeconfig: &Path, line: &[&str]) -> anyhow::Result<CommandOutput> {
    let output = tokio::process::Command::new(MEDLEY)
        .args(line)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .await?;
    Ok(CommandOutput::of(&output))
}

/// A cluster with simulated operators, a worker, and the operator.
pub(crate) struct GovernanceFixture {
    pub(crate) cluster: TestCluster,
    pub(crate) served: ServedCluster,
    pub(crate) manager: Manager,
    _player: DeschedulerPlayer,
}

impl GovernanceFixture {
    /// Without the operator and its CRDs.
    pub(crate) async fn bare(installed: &Installed) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        operators::install(&client, installed).await?;
        let manager = Manager::new(client.clone());
        operators::start(&manager, client.clone(), FAST).await;
        let player = DeschedulerPlayer::running(client);
        cluster.node("worker-1", "amd64", "worker").await?;
        let served = cluster.serve().await?;
        Ok(Self {
            cluster,
            served,
            manager,
            _player: player,
        })
    }

    pub(crate) async fn start() -> anyhow::Result<Self> {
        let fixture = Self::bare(&Installed::demo()).await?;
        fixture.govern().await?;
        Ok(fixture)
    }

    pub(crate) async fn govern(&self) -> anyhow::Result<()> {
        controllers::install(&self.manager.client(), NAMESPACE).await?;
        let options = controllers::Options {
            jobs: [controllers::Job::Governance].into(),
            namespace: NAMESPACE.to_owned(),
            profiles: Vec::new(),
            version: "v9".to_owned(),
            imports: controllers::images::cdi::Imports::Pods {
                image: String::new(),
            },
            registries: controllers::Registries::default(),
            addresses: platform::AddressPolicy::default(),
            audit_entries: controllers::governance::AUDIT_ENTRIES,
            payload_folders: Vec::new(),
        };
        controllers::start(&self.manager, &options).await?;
        Ok(())
    }

    pub(crate) fn configs(&self) -> Api<VirtPlatformConfig> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn machine_configs(&self) -> Api<MachineConfig> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn deschedulers(&self) -> Api<DynamicObject> {
        let namespace = names::DESCHEDULER_NAMESPACE;
        Api::namespaced_with(self.cluster.client(), namespace, &kube_descheduler())
    }

    pub(crate) async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        medley(&self.served.kubeconfig, line).await
    }

    pub(crate) async fn specify(&self, spec: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let params = PatchParams::default();
        self.configs().patch(NAME, &params, &patch).await?;
        Ok(())
    }

    /// Waits for a phase of the current generation.
    pub(crate) async fn until(&self, phase: Phase) -> anyhow::Result<VirtPlatformConfig> {
        wait_until(&format!("{NAME} is {phase}"), WAIT_TIMEOUT, async || {
            let found = self.configs().get_opt(NAME).await?;
            Ok(found.filter(|config| {
                config.status.as_ref().is_some_and(|status| {
                    status.phase == Some(phase)
                        && status.observed_generation == config.metadata.generation
                })
            }))
        })
        .await
    }

    /// A plan that waits for approval.
    pub(crate) async fn review(&self) -> anyhow::Result<VirtPlatformConfig> {
        self.until(Phase::Ignored).await?;
        self.specify(json!({ "action": "DryRun" })).await?;
        self.until(Phase::ReviewRequired).await
    }

    /// Approves a plan and waits until it is applied.
    pub(crate) async fn completed(&self) -> anyhow::Result<VirtPlatformConfig> {
        self.review().await?;
        self.run(&["approve", NAME, "--yes"]).await?.ok()?;
        self.until(Phase::Completed).await
    }

    /// Edits the descheduler as another field manager.
    pub(crate) async fn edit(&self, spec: Value) -> anyhow::Result<()> {
        let params = PatchParams {
            field_manager: Some("kubectl-edit".to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.deschedulers()
            .patch("cluster", &params, &patch)
            .await?;
        Ok(())
    }
}

pub(crate) fn digest(config: &VirtPlatformConfig) -> String {
    let status = config.status.as_ref().unwrap();
    status.plan_digest.clone().unwrap()
}
