//! Golden images: the policy that pins versions, and polls of their sources.

use api::cdi::{DataImportCron, DataVolume};
use api::golden::{GROUP, GoldenImagePolicy, GoldenImagePolicySpec, ImagePolicy, NAME, PLURAL};
use golden_images::overview::Variant;
use golden_images::pins::asked;
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use runtime::Error;
use serde_json::json;

use crate::ATTEMPTS;

/// The GoldenImagePolicy of a cluster.
pub struct Policies {
    api: Api<GoldenImagePolicy>,
    manager: &'static str,
}

impl Policies {
    /// The GoldenImagePolicy of a cluster; changes use this field manager.
    pub fn new(client: &Client, manager: &'static str) -> Self {
        Self {
            api: Api::all(client.clone()),
            manager,
        }
    }

    /// The policy, if there is one.
    pub async fn read(&self) -> Result<Option<GoldenImagePolicy>, Error> {
        match self.api.get(NAME).await {
            Ok(found) => Ok(Some(found)),
            // The API server answers 404 for a kind that is not installed, too.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Error::api(format!("reading GoldenImagePolicy {NAME}"))(
                error,
            )),
        }
    }

    /// Changes the policy, or only validates the change (dry run). Concurrent changes of other
    /// writers are kept.
    pub async fn change(
        &self,
        dry_run: bool,
        edit: impl Fn(&GoldenImagePolicySpec) -> Vec<ImagePolicy>,
    ) -> Result<GoldenImagePolicy, Error> {
        for _ in 0..ATTEMPTS {
            let found = self.read().await?;
            let images = edit(&found.as_ref().map(|it| it.spec.clone()).unwrap_or_default());
            let outcome = if let Some(found) = found {
                let patch = Patch::Merge(json!({
                    "metadata": { "resourceVersion": found.resource_version() },
                    "spec": { "images": images },
                }));
                let params = PatchParams {
                    field_manager: Some(self.manager.to_owned()),
                    dry_run,
                    ..PatchParams::default()
                };
                self.api.patch(NAME, &params, &patch).await
            } else {
                self.installed().await?;
                let spec = GoldenImagePolicySpec {
                    images,
                    ..GoldenImagePolicySpec::default()
                };
                let params = PostParams {
                    field_manager: Some(self.manager.to_owned()),
                    dry_run,
                };
                let new = GoldenImagePolicy::new(NAME, spec);
                self.api.create(&params, &new).await
            };
            match outcome {
                Ok(written) => return Ok(written),
                // Conflict with another writer: read again and apply the change to the new object.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    return Err(Error::api(format!("changing GoldenImagePolicy {NAME}"))(
                        error,
                    ));
                }
            }
        }
        Err(Error::Invalid(format!(
            "GoldenImagePolicy {NAME} keeps changing; nothing was written, try again"
        )))
    }

    /// An error if the CRD is not installed, which looks like a missing object otherwise.
    async fn installed(&self) -> Result<(), Error> {
        match self.api.list(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(Error::Invalid(format!(
                "GoldenImagePolicy is not installed: the cluster has no CustomResourceDefinition {PLURAL}.{GROUP}; it comes with the operator"
            ))),
            Err(error) => Err(Error::api("listing GoldenImagePolicies")(error)),
        }
    }
}

/// The objects that a refresh touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refreshed {
    /// The DataImportCron that will be polled.
    pub cron: String,
    /// The DataVolume that will be retried.
    pub import: Option<String>,
}

/// Polls the source of an image now, and retries a failed import; `None` if no DataImportCron
/// imports it.
pub async fn refresh(
    client: &Client,
    namespace: &str,
    variant: &Variant,
    params: &PatchParams,
    now: Timestamp,
) -> Result<Option<Refreshed>, Error> {
    let Some(asked) = asked(variant, now) else {
        return Ok(None);
    };
    let crons: Api<DataImportCron> = Api::namespaced(client.clone(), namespace);
    let (cron, patch) = asked.poll;
    let sent = crons.patch(&cron, params, &Patch::Merge(patch)).await;
    sent.map_err(Error::api(format!("changing DataImportCron {cron}")))?;
    let mut import = None;
    if let Some((name, patch)) = asked.retry {
        let volumes: Api<DataVolume> = Api::namespaced(client.clone(), namespace);
        let sent = volumes.patch(&name, params, &Patch::Merge(patch)).await;
        sent.map_err(Error::api(format!("changing DataVolume {name}")))?;
        import = Some(name);
    }
    Ok(Some(Refreshed { cron, import }))
}
