//! What pods bring along for registries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::placement::{PullSecrets, PullSecretsMode};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};
use oci::Keyring;
use parking_lot::Mutex;
use runtime::Error;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::placement::read::read;
use crate::placement::registries::Registries;
use crate::placement::remembered::{Key, Remembered};

/// How long a secret or an account is believed to be what it was. A secret that is taken away counts for that long.
const LIFE: Duration = Duration::from_secs(10);
/// Secrets that are remembered.
const MOST: u64 = 2_000;
/// The most pull secrets of a pod that are read; a kubelet reads all, one after the other.
const SECRETS: usize = 32;

/// How long it counts that something was forbidden that was not asked for again.
const FORBIDDEN: Duration = Duration::from_mins(10);
/// The most refusals that are remembered: one missing rule makes as many as there are pull secrets.
const REFUSALS: usize = 64;

/// Reads the credentials that images of pods are inspected with; clones share what they remember.
///
/// What the policy says counts ([`PullSecrets`]). In the mode `Pods`, a pod brings its own pull secrets, or those of its
/// service account if it has none, and nodes have theirs: in that order, as for a kubelet. Nothing of another namespace is
/// looked at then. In the mode `Named`, the secrets of the policy are read and those of pods are not.
///
/// A Secret that RBAC keeps from us counts as one that is not there, and is [noted](Self::forbidden): an error would have
/// pods wait for a right that an administrator may never grant.
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
    forbidden: Refusals,
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
            forbidden: Refusals::default(),
        }
    }

    /// The credentials for a pod, as its policy says. A secret that cannot be read does not count: a kubelet says so when it
    /// pulls.
    pub async fn keyring(
        &self,
        namespace: &str,
        pod: &Value,
        policy: &PullSecrets,
    ) -> Result<Arc<Keyring>, Error> {
        let names: Vec<(String, String)> = match policy.mode {
            PullSecretsMode::None => Vec::new(),
            PullSecretsMode::Named => named(policy),
            PullSecretsMode::Pods => {
                let names = self.secrets_of(namespace, pod).await?;
                let names = names.iter().take(SECRETS);
                names
                    .map(|name| (namespace.to_owned(), name.clone()))
                    .collect()
            }
        };
        if names.is_empty() {
            return Ok(Arc::clone(&self.usual));
        }
        let mut keyring = Keyring::anonymous();
        for key in names {
            keyring.add_keyring(&*self.read(key).await?);
        }
        keyring.add_keyring(self.registries.nodes());
        Ok(Arc::new(keyring))
    }

    /// What RBAC keeps from us of what a policy inspects images with, as the API server says it. Secrets that a policy names
    /// are tried; those of pods are known as pods come.
    pub async fn forbidden(&self, policy: &PullSecrets) -> Result<Vec<String>, Error> {
        match policy.mode {
            PullSecretsMode::None => Ok(Vec::new()),
            PullSecretsMode::Pods => Ok(self.forbidden.all(|_| true)),
            PullSecretsMode::Named => {
                let names = named(policy);
                for key in &names {
                    self.read(key.clone()).await?;
                }
                Ok(self.forbidden.all(|key| names.contains(key)))
            }
        }
    }

    async fn read(&self, key: Key) -> Result<Arc<Keyring>, Error> {
        let (namespace, name) = key.clone();
        let reading = || secret(self.client.clone(), namespace, name, self.forbidden.clone());
        self.secrets.get(key, reading).await
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
            let forbidden = self.forbidden.clone();
            account_secrets(client, namespace.to_owned(), account.to_owned(), forbidden)
        };
        let key = (namespace.to_owned(), account.to_owned());
        self.accounts.get(key, reading).await
    }
}

/// The secrets that a policy names.
fn named(policy: &PullSecrets) -> Vec<Key> {
    let named = policy.named.iter().take(SECRETS);
    named
        .map(|it| (it.namespace.clone(), it.name.clone()))
        .collect()
}

/// What RBAC kept from us, by what was asked for; clones share it.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<BTreeMap<(Key, &'static str), Refused>>>);

/// When it was asked for, and what the API server said.
type Refused = (Instant, String);

impl Refusals {
    /// Reads an object, or notes that it may not be read.
    async fn read<K>(&self, api: &Api<K>, kind: &'static str, key: Key) -> Result<Option<K>, Error>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let (namespace, name) = key.clone();
        match read(api, &name).await {
            Ok(found) => {
                self.0.lock().remove(&(key, kind));
                Ok(found)
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                self.note((key, kind), status.message.clone());
                Ok(None)
            }
            Err(error) => {
                let doing = format!("reading {kind} {namespace}/{name}");
                Err(Error::api(doing)(error))
            }
        }
    }

    fn note(&self, what: (Key, &'static str), message: String) {
        let mut all = self.0.lock();
        all.retain(|_, (at, _)| at.elapsed() < FORBIDDEN);
        if all.len() >= REFUSALS && !all.contains_key(&what) {
            return;
        }
        if all.is_empty() {
            warn!(
                message,
                "pull secrets cannot be read; images are inspected without them"
            );
        }
        all.insert(what, (Instant::now(), message));
    }

    fn all(&self, of: impl Fn(&Key) -> bool) -> Vec<String> {
        let all = self.0.lock();
        let all = all.iter().filter(|((key, _), _)| of(key));
        let recent = all.filter(|(_, (at, _))| at.elapsed() < FORBIDDEN);
        recent.map(|(_, (_, message))| message.clone()).collect()
    }
}

/// The names of the pull secrets of a service account.
async fn account_secrets(
    client: Client,
    namespace: String,
    name: String,
    forbidden: Refusals,
) -> Result<Arc<[String]>, Error> {
    let api: Api<ServiceAccount> = Api::namespaced(client, &namespace);
    let found = forbidden
        .read(&api, "service account", (namespace, name))
        .await?;
    let secrets = found.and_then(|account| account.image_pull_secrets);
    let secrets = secrets.into_iter().flatten().map(|secret| secret.name);
    Ok(secrets.filter(|name| !name.is_empty()).collect())
}

/// What a secret holds for registries.
async fn secret(
    client: Client,
    namespace: String,
    name: String,
    forbidden: Refusals,
) -> Result<Arc<Keyring>, Error> {
    let api: Api<Secret> = Api::namespaced(client, &namespace);
    let key = (namespace.clone(), name.clone());
    let found = forbidden.read(&api, "secret", key).await?;
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
