//! The pull credentials of pods.

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
use crate::placement::read_cache::{Key, ReadCache};
use crate::placement::registries::Registries;

/// How long a Secret or ServiceAccount stays cached. A deleted Secret is still used for that long.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Upper bound of cached Secrets, and of cached ServiceAccounts.
const CACHE_CAPACITY: usize = 2_000;
/// The most pull secrets of a pod that are read; a kubelet reads all of them.
const MAX_PULL_SECRETS: usize = 32;

/// How long a denied read is reported if it is not repeated.
const DENIAL_TTL: Duration = Duration::from_mins(10);
/// Upper bound of reported denials: one missing RBAC rule causes one per pull secret.
const MAX_DENIALS: usize = 64;

/// Reads the credentials that images of pods are inspected with; clones share the cache.
///
/// The policy decides ([`PullSecrets`]). In mode `Pods`, the pod's own pull secrets come first, or
/// those of its ServiceAccount if it has none, then those of the nodes: the order of a kubelet. Objects
/// in other namespaces are not read. In mode `Named`, the Secrets named in the policy are read and
/// those of pods are not.
///
/// A Secret that RBAC denies counts as missing and is [reported](Self::forbidden): an error would hold
/// pods until an administrator grants a permission, which may never happen.
#[derive(Clone)]
pub struct PullCredentials {
    client: Client,
    registries: Registries,
    /// The contents of Secrets; empty for those that do not exist.
    secrets: ReadCache<Arc<Keyring>>,
    /// The names of the pull secrets of ServiceAccounts.
    accounts: ReadCache<Arc<[String]>>,
    /// The credentials of pods without pull secrets.
    node_keyring: Arc<Keyring>,
    forbidden: Denials,
}

impl PullCredentials {
    /// An empty cache.
    pub fn new(client: Client, registries: Registries) -> Self {
        Self {
            client,
            node_keyring: Arc::new(registries.nodes().clone()),
            registries,
            secrets: ReadCache::new(CACHE_CAPACITY, CACHE_TTL),
            accounts: ReadCache::new(CACHE_CAPACITY, CACHE_TTL),
            forbidden: Denials::default(),
        }
    }

    /// The credentials for a pod, by its policy. A Secret that cannot be parsed is skipped: the kubelet
    /// reports it when it pulls.
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
                let names = names.iter().take(MAX_PULL_SECRETS);
                names
                    .map(|name| (namespace.to_owned(), name.clone()))
                    .collect()
            }
        };
        if names.is_empty() {
            return Ok(Arc::clone(&self.node_keyring));
        }
        let mut keyring = Keyring::anonymous();
        for key in names {
            keyring.add_keyring(&*self.read(key).await?);
        }
        // After those of the pod, as kubelet's keyring puts image pull secrets before the node's own configuration
        // (`pkg/credentialprovider/secrets/secrets.go`): a pod that names a credential means that one.
        keyring.add_keyring(self.registries.nodes());
        Ok(Arc::new(keyring))
    }

    /// The reads RBAC denied for the credentials of a policy, in the words of the API server. Secrets
    /// that the policy names are read for this; those of pods are known from earlier reads.
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
        // The ServiceAccount admission plugin copies the account's pull secrets into the pod, but it
        // can be disabled.
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

/// The Secrets a policy names.
fn named(policy: &PullSecrets) -> Vec<Key> {
    let named = policy.named.iter().take(MAX_PULL_SECRETS);
    named
        .map(|it| (it.namespace.clone(), it.name.clone()))
        .collect()
}

/// The reads RBAC denied, by object; clones share it.
#[derive(Clone, Default)]
struct Denials(Arc<Mutex<BTreeMap<(Key, &'static str), Denial>>>);

/// When the read was denied, and the API server's message.
type Denial = (Instant, String);

impl Denials {
    /// Reads an object; records a denial and returns `None`.
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
                let operation = format!("reading {kind} {namespace}/{name}");
                Err(Error::api(operation)(error))
            }
        }
    }

    fn note(&self, what: (Key, &'static str), message: String) {
        let mut all = self.0.lock();
        all.retain(|_, (at, _)| at.elapsed() < DENIAL_TTL);
        // Further denials are not recorded: sixty-four messages name the missing RBAC rule often
        // enough, and the list is written to a status.
        if all.len() >= MAX_DENIALS && !all.contains_key(&what) {
            return;
        }
        // One log line for each series of denials, not for each pod; the condition of the policy carries the rest.
        if all.is_empty() {
            warn!(
                message,
                "cannot read pull secrets; inspecting images without them"
            );
        }
        all.insert(what, (Instant::now(), message));
    }

    fn all(&self, of: impl Fn(&Key) -> bool) -> Vec<String> {
        let all = self.0.lock();
        let all = all.iter().filter(|((key, _), _)| of(key));
        let recent = all.filter(|(_, (at, _))| at.elapsed() < DENIAL_TTL);
        recent.map(|(_, (_, message))| message.clone()).collect()
    }
}

/// The names of the pull secrets of a ServiceAccount.
async fn account_secrets(
    client: Client,
    namespace: String,
    name: String,
    forbidden: Denials,
) -> Result<Arc<[String]>, Error> {
    let api: Api<ServiceAccount> = Api::namespaced(client, &namespace);
    let found = forbidden
        .read(&api, "service account", (namespace, name))
        .await?;
    let secrets = found.and_then(|account| account.image_pull_secrets);
    let secrets = secrets.into_iter().flatten().map(|secret| secret.name);
    Ok(secrets.filter(|name| !name.is_empty()).collect())
}

/// The registry credentials in a Secret.
async fn secret(
    client: Client,
    namespace: String,
    name: String,
    forbidden: Denials,
) -> Result<Arc<Keyring>, Error> {
    let api: Api<Secret> = Api::namespaced(client, &namespace);
    let key = (namespace.clone(), name.clone());
    let found = forbidden.read(&api, "secret", key).await?;
    let mut keyring = Keyring::anonymous();
    let kind = found.as_ref().and_then(|secret| secret.type_.as_deref());
    // kubelet skips Secrets of any other type. `add_secret` would read CDI's `accessKeyId` from an Opaque one, and an
    // unrelated Secret must not be sent to a registry because a pod lists it.
    let kind = kind.filter(|kind| kind.starts_with("kubernetes.io/dockerc"));
    if let (Some(kind), Some(secret)) = (kind, &found) {
        let data = secret.data.iter().flatten();
        let data: BTreeMap<String, &[u8]> =
            data.map(|(key, value)| (key.clone(), &*value.0)).collect();
        if let Err(error) = keyring.add_secret(kind, &data, "") {
            debug!(namespace, name, %error, "ignoring an invalid pull secret");
        }
    }
    Ok(Arc::new(keyring))
}
