//! Users with the shipped roles, and their three paths to a cluster: the API, the
//! command line, and the console.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::ensure;
use api::advisor::VirtPlatformConfig;
use governance::record::{Outcome, PlanResult, Record};
use governance::roles::{APPROVER, EDITOR, HISTORY, VIEWER};
use http::StatusCode;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{CommandOutput, wait_until};

use crate::world::{Answer, Browser, ConsoleFixture, NAME, NAMESPACE, PLAN, WAIT_TIMEOUT};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
/// A role that reads CDI's objects, for all users with a role.
pub(crate) const CDI_VIEWER: &str = "cdi-viewer";

/// The role of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// No role at all.
    Stranger,
    /// Reads only.
    Viewer,
    /// Requests plans and changes policies.
    Editor,
    /// Reads, and approves plans.
    Approver,
}

pub(crate) const ALL: [Role; 4] = [Role::Stranger, Role::Viewer, Role::Editor, Role::Approver];

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Stranger => "nobody",
            Self::Viewer => "vic",
            Self::Editor => "ed",
            Self::Approver => "ann",
        }
    }

    fn roles(self) -> Vec<&'static str> {
        let viewers = [
            "medley-images-viewer",
            "medley-cpu-viewer",
            "medley-placement-viewer",
            "medley-release-viewer",
            CDI_VIEWER,
        ];
        match self {
            Self::Stranger => Vec::new(),
            Self::Viewer => [&[VIEWER][..], &viewers].concat(),
            Self::Editor => vec![
                EDITOR,
                "medley-images-editor",
                "medley-cpu-editor",
                "medley-placement-editor",
                "medley-release-editor",
                CDI_VIEWER,
            ],
            Self::Approver => [&[APPROVER][..], &viewers].concat(),
        }
    }
}

/// A user with credentials for all three paths.
pub(crate) struct Person {
    pub(crate) role: Role,
    /// For the API.
    pub(crate) client: Client,
    /// For the command line.
    kubeconfig: PathBuf,
    /// For the console; signed in.
    pub(crate) browser: Browser,
}

impl Person {
    /// Creates a user with a role and a token.
    pub(crate) async fn new(world: &ConsoleFixture, role: Role) -> anyhow::Result<Self> {
        let browser = world.browser(role.name(), &role.roles()).await?;
        if role != Role::Stranger {
            let binding: RoleBinding = serde_json::from_value(json!({
                "metadata": { "name": format!("{}-history", role.name()) },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": HISTORY },
                "subjects": [{ "kind": "ServiceAccount", "name": role.name(), "namespace": NAMESPACE }],
            }))?;
            let bindings: Api<RoleBinding> = Api::namespaced(world.cluster.client(), NAMESPACE);
            bindings.create(&PostParams::default(), &binding).await?;
        }
        let text = std::fs::read_to_string(&world.served.kubeconfig)?;
        let mut config: Value = serde_saphyr::from_str(&text)?;
        let token = world.token_of(role.name()).await?;
        config["users"][0]["user"] = json!({ "token": token });
        let kubeconfig = world.served.folder().join(role.name());
        std::fs::write(&kubeconfig, config.to_string())?;
        let config = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Self {
            role,
            client: Client::try_from(config)?,
            kubeconfig,
            browser,
        })
    }

    /// One user for each role.
    pub(crate) async fn all(world: &ConsoleFixture) -> anyhow::Result<Vec<Self>> {
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": { "name": CDI_VIEWER },
            "rules": [
                { "apiGroups": ["cdi.kubevirt.io"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch"] },
            ],
        }))?;
        Api::all(world.cluster.client())
            .create(&PostParams::default(), &role)
            .await?;
        let mut people = Vec::new();
        for role in ALL {
            people.push(Self::new(world, role).await?);
        }
        Ok(people)
    }

    /// Waits until a console page contains a text, or no longer does.
    pub(crate) async fn until(
        &mut self,
        page: &str,
        part: &str,
        there: bool,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let shown = self.browser.get(page).await?;
            if shown.body.contains(part) == there {
                return Ok(());
            }
            let role = self.role;
            ensure!(
                started.elapsed() < WAIT_TIMEOUT,
                "{role:?}: {part} should be there: {there}; {}",
                shown.body
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs the command line.
    pub(crate) async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = tokio::process::Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
    }
}

/// Whether a request was allowed or forbidden. Any other failure is an error.
pub(crate) trait AccessVerdict {
    fn is_allowed(&self) -> bool;
}

impl<T> AccessVerdict for kube::Result<T> {
    #[track_caller]
    fn is_allowed(&self) -> bool {
        match self {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 403 => false,
            Err(error) => panic!("neither done nor refused: {error}"),
        }
    }
}

impl AccessVerdict for CommandOutput {
    #[track_caller]
    fn is_allowed(&self) -> bool {
        if self.code == Some(0) {
            return true;
        }
        let markers = ["forbidden", "denied the request"];
        let refused = markers.iter().any(|word| self.err.contains(word));
        assert!(refused, "neither done nor refused: {self:?}");
        false
    }
}

impl AccessVerdict for Answer {
    #[track_caller]
    fn is_allowed(&self) -> bool {
        match self.status {
            StatusCode::SEE_OTHER | StatusCode::OK => true,
            StatusCode::FORBIDDEN => {
                assert!(self.body.contains("Not allowed"), "{}", self.body);
                false
            }
            _ => panic!("neither done nor refused: {self:?}"),
        }
    }
}

/// The state of the configuration before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Situation {
    /// The action is `Ignore`.
    Ignored,
    /// A plan is under review.
    Review,
    /// A plan was applied, and a field has drifted since.
    InForce,
    /// A rollback waits for approval.
    GoingBack,
}

impl Situation {
    fn spec(self) -> Value {
        let mut spec = json!({ "profile": NAME, "action": "DryRun" });
        match self {
            Self::Ignored => spec["action"] = json!("Ignore"),
            Self::Review => {}
            Self::InForce => {
                spec["action"] = json!("Apply");
                spec["approval"] = json!({ "planDigest": PLAN });
            }
            Self::GoingBack => spec["rollbackTo"] = json!(1),
        }
        spec
    }

    fn status(self) -> Value {
        let mut status = json!({
            "phase": "ReviewRequired", "planDigest": PLAN, "impactSeverity": "High",
            "items": [{
                "name": "enable-metrics", "impactSeverity": "High",
                "targetRef": { "apiVersion": "v1", "kind": "MachineConfig", "name": "99-worker" },
                "diff": "--- a\n+++ b\n@@ -1,1 +1,1 @@\n-old: 1\n+new: 2\n",
            }],
        });
        match self {
            Self::Ignored => status = json!({ "phase": "Ignored" }),
            Self::Review | Self::GoingBack => {}
            Self::InForce => {
                status["phase"] = json!("Drifted");
                status["drift"] = json!([{
                    "item": "enable-load-aware-descheduling", "class": "ExternalEdit",
                    "path": "spec.deschedulingIntervalSeconds", "applied": 60, "live": 120,
                    "manager": "kubectl-edit",
                }]);
            }
        }
        status
    }

    /// Resets the configuration to this state.
    pub(crate) async fn set(self, world: &ConsoleFixture) -> anyhow::Result<VirtPlatformConfig> {
        let configs = world.configs();
        if configs.get_opt(NAME).await?.is_some() {
            configs.delete(NAME, &DeleteParams::default()).await?;
            wait_until("the configuration is gone", WAIT_TIMEOUT, async || {
                Ok(configs.get_opt(NAME).await?.is_none().then_some(()))
            })
            .await?;
        }
        let new = VirtPlatformConfig::new(NAME, serde_json::from_value(self.spec())?);
        let made = configs.create(&PostParams::default(), &new).await?;
        let mut status = self.status();
        status["observedGeneration"] = json!(made.metadata.generation);
        world.report(status).await
    }
}

/// Creates a history entry of an applied plan.
pub(crate) async fn remember(world: &ConsoleFixture) -> anyhow::Result<()> {
    let at = Time("2026-01-01T00:00:00Z".parse()?);
    let record = Record {
        revision: 1,
        plan_digest: PLAN.to_owned(),
        rollback_to: None,
        correction: false,
        approved_by: vec!["ann".to_owned()],
        approvals: Vec::new(),
        config_uid: None,
        impact: api::advisor::Impact::High,
        operator_version: "v1".to_owned(),
        options: None,
        inputs: Vec::new(),
        items: Vec::new(),
        started: at.clone(),
        outcome: None,
    };
    let outcome = Outcome {
        result: PlanResult::Completed,
        finished: at,
        message: String::new(),
    };
    let entry: ControllerRevision = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{NAME}-1"),
            "labels": { "advisor.kubevirt.io/config": NAME },
            "annotations": { "advisor.kubevirt.io/outcome": json!(outcome).to_string() },
        },
        "revision": 1,
        "data": record,
    }))?;
    let entries: Api<ControllerRevision> = Api::namespaced(world.cluster.client(), NAMESPACE);
    entries.create(&PostParams::default(), &entry).await?;
    Ok(())
}

/// Creates a boot image with two versions.
pub(crate) async fn image(client: &Client, namespace: &str) -> anyhow::Result<()> {
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    let home = json!({ "metadata": { "name": namespace } });
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let home = serde_json::from_value(home)?;
    namespaces.create(&PostParams::default(), &home).await?;
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let entry = |letter: &str| json!({ "digest": digest(letter), "name": format!("fedora-{letter}"), "format": "pvc", "since": "2026-11-10T00:00:00Z" });
    let labels = json!({
        "template.kubevirt.io/architecture": "amd64",
        "cdi.kubevirt.io/storage.import.datasource-name": "fedora",
        "cdi.kubevirt.io/dataImportCron": "fedora-cron-amd64",
    });
    let volume = json!({ "pvc": { "namespace": namespace, "name": "fedora-a" } });
    let cron = json!({
        "metadata": {
            "name": "fedora-cron-amd64", "labels": labels,
            "annotations": { api::cdi::annotations::DESIRED_DIGEST: digest("a") },
        },
        "spec": {
            "managedDataSource": "fedora-amd64", "schedule": "0 */12 * * *",
            "template": { "spec": {
                "source": { "registry": { "url": "docker://quay.io/containerdisks/fedora:latest" } },
                "storage": { "resources": { "requests": { "storage": "5Gi" } } },
            } },
        },
        "status": { "currentImports": [{ "DataVolumeName": "fedora-a", "Digest": digest("a") }] },
    });
    let source = json!({
        "metadata": {
            "name": "fedora-amd64", "labels": labels,
            "annotations": { api::golden::names::HISTORY: json!([entry("a"), entry("b")]).to_string() },
        },
        "spec": { "source": volume },
        "status": { "source": volume, "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready" }] },
    });
    for (kind, mut object) in [("DataImportCron", cron), ("DataSource", source)] {
        let of = GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", kind);
        let resource = ApiResource::from_gvk(&of);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(kind);
        let new = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &new).await?;
    }
    Ok(())
}

/// Patches the configuration as a user.
pub(crate) async fn patch(person: &Person, patch: &Value) -> kube::Result<VirtPlatformConfig> {
    let configs: Api<VirtPlatformConfig> = Api::all(person.client.clone());
    let params = PatchParams::default();
    configs.patch(NAME, &params, &Patch::Merge(patch)).await
}

/// Asserts that the configuration was not changed.
#[track_caller]
pub(crate) fn assert_unchanged(before: &VirtPlatformConfig, now: &VirtPlatformConfig, what: &str) {
    assert_eq!(
        before.resource_version().unwrap(),
        now.resource_version().unwrap(),
        "{what}"
    );
}
