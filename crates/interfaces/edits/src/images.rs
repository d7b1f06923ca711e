//! Golden images: the policy that pins versions, and polls of their sources.

use api::cdi::{DataImportCron, DataVolume};
use api::golden::{GROUP, GoldenImagePolicy, GoldenImagePolicySpec, ImagePolicy, NAME, PLURAL};
use cluster_view::policies;
use golden_images::overview::Variant;
use golden_images::pins::asked;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use runtime::{Absent as _, Error, Key, Writer};
use serde_json::json;

use crate::ATTEMPTS;

/// The GoldenImagePolicy of a cluster.
pub struct Policies {
    client: Client,
    api: Api<GoldenImagePolicy>,
    manager: &'static str,
}

impl Policies {
    /// The GoldenImagePolicy of a cluster; changes use this field manager.
    pub fn new(client: &Client, manager: &'static str) -> Self {
        Self {
            client: client.clone(),
            api: Api::all(client.clone()),
            manager,
        }
    }

    /// Changes the policy, or only validates the change (dry run). Concurrent changes of other
    /// writers are kept.
    pub async fn change(
        &self,
        dry_run: bool,
        edit: impl Fn(&GoldenImagePolicySpec) -> Vec<ImagePolicy>,
    ) -> Result<GoldenImagePolicy, Error> {
        let writer = Writer::new(self.api.clone(), self.manager).dry_run(dry_run);
        for _ in 0..ATTEMPTS {
            let found: Option<GoldenImagePolicy> = policies::read(&self.client).await?;
            let images = edit(&found.as_ref().map(|it| it.spec.clone()).unwrap_or_default());
            let outcome = if let Some(found) = found {
                let patch = json!({ "spec": { "images": images } });
                writer.merge_into(&found.metadata, patch).await
            } else {
                // Only on the way to a create: the API server answers 404 for a missing CRD and for
                // a missing object alike.
                self.installed().await?;
                let spec = GoldenImagePolicySpec {
                    images,
                    ..GoldenImagePolicySpec::default()
                };
                writer.create(&GoldenImagePolicy::new(NAME, spec)).await
            };
            match outcome {
                Ok(written) => return Ok(written),
                // Conflict with another writer: read again and apply the change to the new object.
                Err(error) if error.code() == Some(409) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Invalid(format!(
            "GoldenImagePolicy {NAME} keeps changing; nothing was written, try again"
        )))
    }

    /// An error if the CRD is not installed, which looks like a missing object otherwise.
    async fn installed(&self) -> Result<(), Error> {
        let listed = self.api.list(&ListParams::default().limit(1)).await;
        let listed = listed.not_found_as_none();
        if listed
            .map_err(Error::api("listing GoldenImagePolicies"))?
            .is_some()
        {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "GoldenImagePolicy is not installed: the cluster has no CustomResourceDefinition {PLURAL}.{GROUP}; it comes with the operator"
        )))
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
    (manager, dry_run): (&str, bool),
    now: Timestamp,
) -> Result<Option<Refreshed>, Error> {
    let Some(asked) = asked(variant, now) else {
        return Ok(None);
    };
    let crons = Api::<DataImportCron>::namespaced(client.clone(), namespace);
    let crons = Writer::new(crons, manager).dry_run(dry_run);
    let (cron, patch) = asked.poll;
    // Two objects, so two writes that cannot be atomic; the poll first, because it alone is already
    // what the user asked for.
    crons.merge(&Key::new(namespace, &cron), &patch).await?;
    let mut import = None;
    if let Some((name, patch)) = asked.retry {
        let volumes = Api::<DataVolume>::namespaced(client.clone(), namespace);
        let volumes = Writer::new(volumes, manager).dry_run(dry_run);
        volumes.merge(&Key::new(namespace, &name), &patch).await?;
        import = Some(name);
    }
    Ok(Some(Refreshed { cron, import }))
}
