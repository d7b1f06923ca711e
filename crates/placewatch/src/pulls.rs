//! What pods bring along for registries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chassis::Error;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};
use oci::Keyring;
use serde_json::Value;
use tracing::debug;

use crate::read::read;
use crate::registries::Registries;
use crate::remembered::Remembered;

/// How long a secret or an account is believed to be what it was. A secret that is taken away counts for that long.
const LIFE: Duration = Duration::from_secs(10);
/// Secrets that are remembered.
const MOST: u64 = 2_000;
/// The most pull secrets of a pod that are read; a kubelet reads all, one after the other.
const SECRETS: usize = 32;

/// Reads the credentials of pods; clones share what they remember.
///
/// A pod brings its own pull secrets, or those of its service account if it has none, and nodes have
/// theirs: in that order, as for a kubelet. Nothing of another namespace is ever looked at.
#[derive(Clone)]
pub struct Pulls {
    client: Client,
    registries: Registries,
    /// What secrets hold; nothing for those that are not there.
    secrets: Remembered<Arc<Keyring>>,
    /// The names of the pull secrets of service accounts.
    accounts: Remembered<Arc<[String]>>,
    /// What pods have that bring nothing along.
    usual: Arc<Keyring>,
}

impl Pulls {
    /// Nothing is read yet.
    pub fn new(client: Client, registries: Registries) -> Self {
        Self {
            client,
            usual: Arc::new(registries.nodes().clone()),
            registries,
            secrets: Remembered::new(MOST, LIFE),
            accounts: Remembered::new(MOST, LIFE),
        }
    }

    /// The credentials of a pod. A secret that cannot be read does not count: a kubelet says so when it
    /// pulls.
    pub async fn keyring(&self, namespace: &str, pod: &Value) -> Result<Arc<Keyring>, Error> {
        let names = self.secrets_of(namespace, pod).await?;
        if names.is_empty() {
            return Ok(Arc::clone(&self.usual));
        }
        let mut keyring = Keyring::anonymous();
        for name in names.iter().take(SECRETS) {
            let reading = || secret(self.client.clone(), namespace.to_owned(), name.clone());
            let key = (namespace.to_owned(), name.clone());
            keyring.add_keyring(&*self.secrets.get(key, reading).await?);
        }
        keyring.add_keyring(self.registries.nodes());
        Ok(Arc::new(keyring))
    }

    /// The names of the pull secrets of a pod.
    async fn secrets_of(&self, namespace: &str, pod: &Value) -> Result<Arc<[String]>, Error> {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let own = spec.get("imagePullSecrets");
        let own = own.and_then(Value::as_array).into_iter().flatten();
        let own: Vec<String> = own
            .filter_map(|it| it.get("name").and_then(Value::as_str))
            .filter(|name| !name.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        if !own.is_empty() {
            return Ok(own.into());
        }
        // The API server gives a pod those of its account as it is made, unless it is told not to.
        let account = spec.get("serviceAccountName");
        let account = account.and_then(Value::as_str).unwrap_or("default");
        let reading = || {
            let client = self.client.clone();
            account_secrets(client, namespace.to_owned(), account.to_owned())
        };
        let key = (namespace.to_owned(), account.to_owned());
        self.accounts.get(key, reading).await
    }
}

/// The names of the pull secrets of a service account.
async fn account_secrets(
    client: Client,
    namespace: String,
    name: String,
) -> Result<Arc<[String]>, Error> {
    let api: Api<ServiceAccount> = Api::namespaced(client, &namespace);
    let found = read(&api, &name).await.map_err(Error::api(format!(
        "reading service account {namespace}/{name}"
    )))?;
    let secrets = found.and_then(|account| account.image_pull_secrets);
    let secrets = secrets.into_iter().flatten().map(|secret| secret.name);
    Ok(secrets.filter(|name| !name.is_empty()).collect())
}

/// What a secret holds for registries.
async fn secret(client: Client, namespace: String, name: String) -> Result<Arc<Keyring>, Error> {
    let api: Api<Secret> = Api::namespaced(client, &namespace);
    let found = read(&api, &name)
        .await
        .map_err(Error::api(format!("reading secret {namespace}/{name}")))?;
    let mut keyring = Keyring::anonymous();
    let kind = found.as_ref().and_then(|secret| secret.type_.as_deref());
    let kind = kind.filter(|kind| kind.starts_with("kubernetes.io/dockerc"));
    if let (Some(kind), Some(secret)) = (kind, &found) {
        let data = secret.data.iter().flatten();
        let data: BTreeMap<String, &[u8]> =
            data.map(|(key, value)| (key.clone(), &*value.0)).collect();
        if let Err(error) = keyring.add_secret(kind, &data, "") {
            debug!(namespace, name, %error, "a pull secret cannot be read");
        }
    }
    Ok(Arc::new(keyring))
}
