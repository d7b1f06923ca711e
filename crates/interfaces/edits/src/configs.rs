//! Changes of VirtPlatformConfigs, with errors that name the next step.

use api::advisor::{Action, GROUP, PLURAL, VirtPlatformConfig};
use governance::Registry;
use governance::profile::built_in::NODE_HEALTH_REMEDIATION;
use governance::user_patches::list_valid_names;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent as _, Error, Key, Writer};
use serde_json::{Value, json};

use crate::ATTEMPTS;

/// Every built-in profile. The objects in a cluster show which of them its operator has enabled.
pub fn registry() -> Result<Registry, Error> {
    let optional = [NODE_HEALTH_REMEDIATION];
    Registry::standard(&optional).map_err(|error| Error::Invalid(error.to_string()))
}

/// The configurations of a cluster.
pub struct Configs {
    api: Api<VirtPlatformConfig>,
    manager: &'static str,
}

impl Configs {
    /// The configurations of a cluster; changes use this field manager.
    pub fn new(client: &Client, manager: &'static str) -> Self {
        Self {
            api: Api::all(client.clone()),
            manager,
        }
    }

    /// All of them, by name; `None` if the CRD is not installed.
    pub async fn try_list(&self) -> Result<Option<Vec<VirtPlatformConfig>>, Error> {
        let listed = self.api.list(&ListParams::default()).await;
        let listed = listed.not_found_as_none();
        let listed = listed.map_err(Error::api("listing VirtPlatformConfigs"))?;
        Ok(listed.map(|list| list.items))
    }

    /// All of them, by name.
    pub async fn list(&self) -> Result<Vec<VirtPlatformConfig>, Error> {
        self.try_list().await?.ok_or_else(not_installed)
    }

    /// One that has to exist.
    pub async fn get(&self, name: &str) -> Result<VirtPlatformConfig, Error> {
        let found = self.api.get(name).await.not_found_as_none();
        let found = found.map_err(Error::api(format!("reading VirtPlatformConfig {name}")))?;
        // The API server answers 404 for a kind that is not installed, too.
        if let Some(found) = found {
            return Ok(found);
        }
        let names: Vec<_> = self
            .list()
            .await?
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        Err(Error::Invalid(format!(
            "there is no VirtPlatformConfig {name}; {}",
            list_valid_names(&names)
        )))
    }

    /// Changes one, unless its spec or its plan changed since it was read. Other status updates by
    /// the operator in the meantime do not conflict.
    pub async fn change(
        &self,
        config: &VirtPlatformConfig,
        patch: Value,
    ) -> Result<VirtPlatformConfig, Error> {
        self.change_if(config, patch, |now| {
            same_specification(config, now) && plan_of(config) == plan_of(now)
        })
        .await
    }

    /// Changes one, unless its spec changed since it was read: for changes that do not depend on
    /// the plan.
    pub async fn change_ignoring_plan(
        &self,
        config: &VirtPlatformConfig,
        patch: Value,
    ) -> Result<VirtPlatformConfig, Error> {
        self.change_if(config, patch, |now| same_specification(config, now))
            .await
    }

    /// Makes the operator discard the plan and compute a new one. Only a change of the spec does
    /// that, and this one results in nothing but a plan for review.
    pub async fn renew(&self, config: &VirtPlatformConfig) -> Result<VirtPlatformConfig, Error> {
        let action = |action: Action| json!({ "spec": { "action": action } });
        // Two writes, because the operator discards a plan only when the spec changes, and one that
        // sets DryRun on DryRun changes nothing.
        let ignored = self
            .change_ignoring_plan(config, action(Action::Ignore))
            .await?;
        self.change_ignoring_plan(&ignored, action(Action::DryRun))
            .await
    }

    async fn change_if(
        &self,
        config: &VirtPlatformConfig,
        mut patch: Value,
        unchanged: impl Fn(&VirtPlatformConfig) -> bool,
    ) -> Result<VirtPlatformConfig, Error> {
        let name = config.name_any();
        let writer = Writer::new(self.api.clone(), self.manager);
        let mut version = config.resource_version();
        for _ in 0..ATTEMPTS {
            // A merge patch alone has no conflicts; the version makes it fail where the object has
            // changed since.
            patch["metadata"]["resourceVersion"] = json!(version);
            match writer.merge(&Key::new("", &name), &patch).await {
                Ok(changed) => return Ok(changed),
                Err(error) if error.code() == Some(409) => {
                    let now = self.get(&name).await?;
                    // The operator writes the status of a configuration often. Only a change of
                    // what the user has seen ends the attempt; others get a new version and the
                    // same patch.
                    if !unchanged(&now) {
                        break;
                    }
                    version = now.resource_version();
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Invalid(format!(
            "VirtPlatformConfig {name} changed since it was read, and nothing was written; review it again"
        )))
    }
}

/// Whether both have the same spec and UID; a recreated object of the same name is another one.
fn same_specification(old: &VirtPlatformConfig, new: &VirtPlatformConfig) -> bool {
    old.metadata.uid == new.metadata.uid && old.metadata.generation == new.metadata.generation
}

fn plan_of(config: &VirtPlatformConfig) -> Option<&str> {
    config.status.as_ref()?.plan_digest.as_deref()
}

fn not_installed() -> Error {
    Error::Invalid(format!(
        "VirtPlatformConfig is not installed: the cluster has no CustomResourceDefinition {PLURAL}.{GROUP}; \
         it comes with the operator. `medley plan --profile NAME` plans without it"
    ))
}

#[cfg(test)]
mod tests {
    use api::advisor::VirtPlatformConfigSpec;
    use kube::api::{Patch, PatchParams, PostParams};
    use testkit::TestCluster;

    use super::*;

    /// A cluster with one configuration, and that configuration as it was read.
    async fn with_one() -> anyhow::Result<(TestCluster, Configs, VirtPlatformConfig)> {
        let cluster = TestCluster::start().await?;
        controllers::install(&cluster.client(), "medley-system").await?;
        let configs = Configs::new(&cluster.client(), "test");
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
    async fn concurrent_spec_change_is_not_overwritten() -> anyhow::Result<()> {
        let (_cluster, configs, read) = with_one().await?;
        let changed = configs
            .change(&read, json!({ "spec": { "action": "Ignore" } }))
            .await?;
        let refused = configs
            .change(&read, json!({ "spec": { "action": "Apply" } }))
            .await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("changed since it was read"), "{said}");
        assert_eq!(configs.get("example-profile").await?, changed);
        Ok(())
    }

    #[tokio::test]
    async fn status_update_does_not_conflict_but_a_new_plan_does() -> anyhow::Result<()> {
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
        configs.change_ignoring_plan(&changed, patch).await?;
        Ok(())
    }
}
