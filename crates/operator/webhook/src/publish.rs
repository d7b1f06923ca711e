//! Publishes the CA of the webhook for the operator, which compares it with the registration.

use governance::recorder::{AUTHORITY, AUTHORITY_KEY};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use runtime::{Key, Writer};
use serde_json::json;

use crate::error::Error;
use crate::register::{FIELD_MANAGER, WebhookAddress};

/// A ConfigMap in the namespace of the webhook's Service; a webhook registered by URL publishes nothing.
pub(crate) struct Publisher {
    api: Option<Api<ConfigMap>>,
}

impl Publisher {
    pub(crate) fn new(client: &Client, webhook_address: &WebhookAddress) -> Self {
        let api = match webhook_address {
            WebhookAddress::Url(_) => None,
            WebhookAddress::Service { namespace, .. } => {
                Some(Api::namespaced(client.clone(), namespace))
            }
        };
        Self { api }
    }

    /// Before the registration changes: adds the new CA to the published ones, so that the operator finds whichever one
    /// the registration has.
    pub(crate) async fn announce(&self, authority: &str) -> Result<(), Error> {
        let Some(api) = &self.api else {
            return Ok(());
        };
        let known = api
            .get_opt(AUTHORITY)
            .await
            .map_err(runtime::Error::api(format!(
                "reading ConfigMap {AUTHORITY}"
            )))?;
        let known = known.and_then(|known| known.data?.remove(AUTHORITY_KEY));
        let known = known.unwrap_or_default();
        if known.trim() == authority.trim() {
            return Ok(());
        }
        self.write(&format!("{}\n{}", authority.trim_end(), known))
            .await
    }

    /// After the registration changed: publishes this CA only.
    pub(crate) async fn settle(&self, authority: &str) -> Result<(), Error> {
        self.write(authority).await
    }

    async fn write(&self, authority: &str) -> Result<(), Error> {
        let Some(api) = &self.api else {
            return Ok(());
        };
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": AUTHORITY, "labels": { "app.kubernetes.io/part-of": "medley" } },
            "data": { AUTHORITY_KEY: authority },
        });
        let writer = Writer::new(api.clone(), FIELD_MANAGER);
        writer.apply(&Key::new("", AUTHORITY), &object).await?;
        Ok(())
    }
}
