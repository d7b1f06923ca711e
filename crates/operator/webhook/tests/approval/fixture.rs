//! A cluster with the CRD, the roles, users with these roles, and a webhook with its own RBAC.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::advisor::{Action, VirtPlatformConfig, VirtPlatformConfigSpec, names};
use api::rbac::cluster_role;
use governance::approval::Approvals;
use governance::roles;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};
use webhook::{WebhookServer, Webhooks};

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// The configuration of the tests.
pub(crate) const NAME: &str = "load-aware-rebalancing";

const WEBHOOK_USER: &str = "system:serviceaccount:medley-system:medley-webhook";

pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    pub(crate) check: Option<WebhookServer>,
}

impl Fixture {
    /// Installs everything, and waits until the API server calls the webhook.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let admin = cluster.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        let definition = api::advisor::definition();
        definitions
            .create(&PostParams::default(), &definition)
            .await?;
        wait_until("the kind is served", WAIT_TIMEOUT, || async {
            let configs: Api<VirtPlatformConfig> = Api::all(admin.clone());
            let params = ListParams::default();
            Ok(configs.list_metadata(&params).await.ok())
        })
        .await?;
        for role in roles::user_roles() {
            let person = role.name_any();
            grant(&admin, &role, "Group", &person).await?;
        }
        let own = cluster_role("medley-webhook", roles::webhook_rules());
        grant(&admin, &own, "User", WEBHOOK_USER).await?;
        let mut fixture = Self {
            cluster,
            check: None,
        };
        fixture.begin().await?;
        Ok(fixture)
    }

    /// Starts the webhook and waits until the API server calls it.
    pub(crate) async fn begin(&mut self) -> anyhow::Result<()> {
        let client = self
            .cluster
            .client_as(WEBHOOK_USER, &["system:serviceaccounts"])?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // A real API server notices new permissions a moment later.
        let check = wait_until("the check may register itself", WAIT_TIMEOUT, || async {
            Ok(webhook::start(client.clone(), any, &Webhooks::default())
                .await
                .ok())
        });
        self.check = Some(check.await?);
        let configs = self.configs_of("probe", roles::EDITOR)?;
        wait_until("the API server asks the check", WAIT_TIMEOUT, || async {
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            // Another profile, so that the object does not exist.
            let probe = object("virt-higher-density", Action::DryRun);
            let made = configs.create(&dry_run, &probe).await.ok();
            Ok(made.and_then(|made| made.annotations().get(names::AUTHORS).cloned()))
        })
        .await?;
        Ok(())
    }

    /// The configurations, through the client of a user with a role.
    pub(crate) fn configs_of(
        &self,
        user: &str,
        role: &str,
    ) -> anyhow::Result<Api<VirtPlatformConfig>> {
        let groups = [role, "system:authenticated"];
        Ok(Api::all(self.cluster.client_as(user, &groups)?))
    }

    /// The configurations, through the client of an administrator.
    pub(crate) fn configs(&self) -> Api<VirtPlatformConfig> {
        Api::all(self.cluster.client())
    }

    /// Writes a plan into the status, as the operator does.
    pub(crate) async fn show_plan(&self, digest: &str) -> anyhow::Result<()> {
        let status = json!({ "status": { "planDigest": digest, "phase": "ReviewRequired" } });
        let params = PatchParams::default();
        self.configs()
            .patch_status(NAME, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// The recorded approvals: users and digests.
    pub(crate) async fn recorded(&self) -> anyhow::Result<Vec<(String, String)>> {
        let config = self.configs().get(NAME).await?;
        let text = config.annotations().get(names::APPROVALS);
        let approvals = Approvals::parse(text.map(String::as_str));
        let approvals = approvals.map_err(anyhow::Error::msg)?;
        let entries = approvals.entries().iter();
        Ok(entries
            .map(|entry| (entry.user.clone(), entry.digest.clone()))
            .collect())
    }
}

/// A configuration with this action.
pub(crate) fn object(profile: &str, action: Action) -> VirtPlatformConfig {
    let spec = VirtPlatformConfigSpec {
        profile: profile.to_owned(),
        action,
        ..VirtPlatformConfigSpec::default()
    };
    VirtPlatformConfig::new(profile, spec)
}

/// Applies a merge patch.
pub(crate) async fn patch(
    configs: &Api<VirtPlatformConfig>,
    patch: Value,
) -> Result<VirtPlatformConfig, kube::Error> {
    let params = PatchParams::default();
    configs.patch(NAME, &params, &Patch::Merge(patch)).await
}

/// Sets an annotation.
pub(crate) async fn annotate(
    configs: &Api<VirtPlatformConfig>,
    name: &str,
    value: &str,
) -> Result<VirtPlatformConfig, kube::Error> {
    patch(
        configs,
        json!({ "metadata": { "annotations": { name: value } } }),
    )
    .await
}

/// The message of a forbidden request.
pub(crate) fn forbidden(
    outcome: Result<VirtPlatformConfig, kube::Error>,
) -> anyhow::Result<String> {
    match outcome {
        Err(kube::Error::Api(status)) => {
            ensure!(status.code == 403, "{} {}", status.code, status.message);
            Ok(status.message.clone())
        }
        other => anyhow::bail!("{other:?}"),
    }
}

async fn grant(
    admin: &Client,
    role: &ClusterRole,
    kind: &str,
    subject: &str,
) -> anyhow::Result<()> {
    let name = role.name_any();
    let binding = ClusterRoleBinding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name,
        },
        subjects: Some(vec![Subject {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: kind.to_owned(),
            name: subject.to_owned(),
            namespace: None,
        }]),
    };
    let params = PostParams::default();
    Api::all(admin.clone())
        .create(&params, role)
        .await
        .context("creating a role")?;
    Api::all(admin.clone())
        .create(&params, &binding)
        .await
        .context("creating a binding")?;
    Ok(())
}
