//! Reading and changing VirtPlatformConfigs, with errors that say what to do.

use ::governance::profile::node_health::NodeHealthRemediation;
use ::governance::{Profile as _, Registry};
use anyhow::{Context as _, anyhow, bail};
use api::advisor::{GROUP, PLURAL, VirtPlatformConfig};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// Who changes specifications, in `managedFields`.
pub(crate) const MANAGER: &str = "medley-cli";

/// How often a change is tried that others come before.
pub(crate) const ATTEMPTS: usize = 10;

/// Every profile there is. Which of them the operator has switched on shows in the objects there are.
pub(crate) fn registry() -> anyhow::Result<Registry> {
    Ok(Registry::standard(&[NodeHealthRemediation.about().name])?)
}

/// The configurations of a cluster.
pub(crate) struct Configs {
    api: Api<VirtPlatformConfig>,
}

impl Configs {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            api: Api::all(client.clone()),
        }
    }

    /// All of them, by name; `None` if the kind is not installed.
    pub(crate) async fn try_list(&self) -> anyhow::Result<Option<Vec<VirtPlatformConfig>>> {
        match self.api.list(&ListParams::default()).await {
            Ok(list) => Ok(Some(list.items)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(said(error).context("listing VirtPlatformConfigs")),
        }
    }

    /// All of them, by name.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<VirtPlatformConfig>> {
        self.try_list().await?.ok_or_else(not_installed)
    }

    /// One that has to be there.
    pub(super) async fn get(&self, name: &str) -> anyhow::Result<VirtPlatformConfig> {
        match self.api.get(name).await {
            Ok(found) => return Ok(found),
            // Also a kind that nobody serves is answered with 404.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                return Err(said(error).context(format!("reading VirtPlatformConfig {name}")));
            }
        }
        let names: Vec<_> = self
            .list()
            .await?
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        bail!(
            "there is no VirtPlatformConfig {name}; {}",
            there_are(&names)
        )
    }

    /// Changes one, unless what was asked of it or its plan changed since it was read. What else the
    /// operator wrote into its status in the meantime is no reason to be refused.
    pub(super) async fn change(
        &self,
        config: &VirtPlatformConfig,
        patch: Value,
    ) -> anyhow::Result<VirtPlatformConfig> {
        self.change_if(config, patch, |now| {
            same_specification(config, now) && plan_of(config) == plan_of(now)
        })
        .await
    }

    /// Changes one, unless what was asked of it changed since it was read: for those who do not care
    /// about its plan.
    pub(super) async fn change_whatever_is_planned(
        &self,
        config: &VirtPlatformConfig,
        patch: Value,
    ) -> anyhow::Result<VirtPlatformConfig> {
        self.change_if(config, patch, |now| same_specification(config, now))
            .await
    }

    async fn change_if(
        &self,
        config: &VirtPlatformConfig,
        mut patch: Value,
        unchanged: impl Fn(&VirtPlatformConfig) -> bool,
    ) -> anyhow::Result<VirtPlatformConfig> {
        let name = config.name_any();
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let mut version = config.resource_version();
        for _ in 0..ATTEMPTS {
            patch["metadata"]["resourceVersion"] = json!(version);
            match self.api.patch(&name, &params, &Patch::Merge(&patch)).await {
                Ok(changed) => return Ok(changed),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let now = self.get(&name).await?;
                    if !unchanged(&now) {
                        break;
                    }
                    version = now.resource_version();
                }
                Err(error) => {
                    return Err(said(error).context(format!("changing VirtPlatformConfig {name}")));
                }
            }
        }
        bail!(
            "VirtPlatformConfig {name} changed while it was looked at, and nothing was done; look at it again"
        )
    }
}

/// Whether the same is asked of both; a namesake made since is another.
fn same_specification(old: &VirtPlatformConfig, new: &VirtPlatformConfig) -> bool {
    old.metadata.uid == new.metadata.uid && old.metadata.generation == new.metadata.generation
}

fn plan_of(config: &VirtPlatformConfig) -> Option<&str> {
    config.status.as_ref()?.plan_digest.as_deref()
}

/// What there is, for those who asked for something else.
pub(crate) fn there_are<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    }
}

fn not_installed() -> anyhow::Error {
    anyhow!(
        "VirtPlatformConfig is not installed: the cluster has no CustomResourceDefinition {PLURAL}.{GROUP}; \
         it comes with the operator. `medley plan --profile NAME` plans without it"
    )
}

/// What the server said, without the wrapping.
pub(crate) fn said(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => anyhow::Error::new(other),
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &std::path::Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        return std::io::read_to_string(std::io::stdin()).context("reading standard input");
    }
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use api::advisor::VirtPlatformConfigSpec;
    use kube::api::PostParams;
    use testkit::TestCluster;

    use super::*;

    /// A cluster with one configuration, and that as it was read.
    async fn with_one() -> anyhow::Result<(TestCluster, Configs, VirtPlatformConfig)> {
        let cluster = TestCluster::start().await?;
        operator::install(&cluster.client(), "medley-system").await?;
        let configs = Configs::new(&cluster.client());
        let spec = VirtPlatformConfigSpec {
            profile: "example-profile".to_owned(),
            ..VirtPlatformConfigSpec::default()
        };
        let read = configs
            .api
            .create(
                &PostParams::default(),
                &VirtPlatformConfig::new("example-profile", spec),
            )
            .await?;
        Ok((cluster, configs, read))
    }

    #[tokio::test]
    async fn what_somebody_else_changed_in_between_is_left_alone() -> anyhow::Result<()> {
        let (_cluster, configs, read) = with_one().await?;
        let changed = configs
            .change(&read, json!({ "spec": { "action": "Ignore" } }))
            .await?;
        let refused = configs
            .change(&read, json!({ "spec": { "action": "Apply" } }))
            .await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("changed while it was looked at"), "{said}");
        assert_eq!(configs.get("example-profile").await?, changed);
        Ok(())
    }

    #[tokio::test]
    async fn a_status_written_in_between_is_in_nobodys_way_but_a_new_plan_is() -> anyhow::Result<()>
    {
        let (_cluster, configs, read) = with_one().await?;
        let report = async |status: Value| {
            let patch = json!({ "status": status });
            let params = PatchParams::default();
            let api = &configs.api;
            api.patch_status("example-profile", &params, &Patch::Merge(&patch))
                .await
        };
        report(json!({ "phase": "Drafting" })).await?;
        let policy = |value: &str| json!({ "spec": { "failurePolicy": value } });
        let changed = configs.change(&read, policy("Continue")).await?;
        assert_eq!(
            serde_json::to_value(changed.spec.failure_policy)?,
            "Continue"
        );
        report(json!({ "planDigest": "sha256:new" })).await?;
        let refused = configs.change(&changed, policy("Abort")).await;
        assert!(refused.is_err(), "another plan is not what was looked at");
        let patch = policy("Abort");
        configs.change_whatever_is_planned(&changed, patch).await?;
        Ok(())
    }
}
