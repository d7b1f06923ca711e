//! The shared CAs, in a Secret.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tracing::{info, warn};

use super::{Authority, RotationStep, bundle, rotation_step, shared, signer};
use crate::error::Error;

/// Key of the Secret: the certificates, which are public.
const BUNDLE_KEY: &str = "ca.crt";
/// Key of the Secret: the CAs with their private keys, as JSON.
const AUTHORITIES_KEY: &str = "authorities.json";
/// Attempts of a write that conflicts with other replicas.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// The CAs that replicas share.
#[derive(Clone)]
pub struct Authorities {
    secrets: Api<Secret>,
    namespace: String,
    name: String,
    /// Subject alternative names of certificates.
    names: Vec<String>,
    known: Vec<Authority>,
}

impl std::fmt::Debug for Authorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authorities({}/{})", self.namespace, self.name)
    }
}

impl Authorities {
    /// Reads the CAs of a Secret, or creates the first one. Certificates are issued for these names.
    pub async fn open(
        client: Client,
        namespace: &str,
        name: &str,
        names: Vec<String>,
    ) -> Result<Self, Error> {
        let mut authorities = Self {
            secrets: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            names,
            known: Vec::new(),
        };
        authorities.rotate(Timestamp::now()).await?;
        Ok(authorities)
    }

    /// Subject alternative names of certificates.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The certificates that the API server has to trust, in PEM.
    pub fn bundle(&self) -> String {
        bundle(&self.known)
    }

    /// The CA that signs now.
    pub(crate) fn signer(&self, now: Timestamp) -> Option<&Authority> {
        signer(&self.known, now)
    }

    /// Reads the Secret, and creates or drops CAs when due.
    pub(crate) async fn rotate(&mut self, now: Timestamp) -> Result<(), Error> {
        // Replicas start at the same time and each creates a CA. Optimistic locking lets one win; the others read its
        // CA instead of registering their own.
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let found = self
                .secrets
                .get_opt(&self.name)
                .await
                .map_err(|error| self.failed("reading", error))?;
            let before = found.as_ref().map(read).unwrap_or_default();
            let RotationStep { mut kept, another } = rotation_step(before.clone(), now);
            if another {
                kept.push(shared(now)?);
            }
            // A Secret is written only when CAs change: every replica calls this each minute.
            if kept == before || self.write(found, &kept).await? {
                if another {
                    info!(secret = self.name, "created a CA for serving certificates");
                }
                self.known = kept;
                return Ok(());
            }
        }
        Err(runtime::Error::Late(format!(
            "Secret {}/{} was modified by other replicas during {MAX_WRITE_ATTEMPTS} attempts",
            self.namespace, self.name
        ))
        .into())
    }

    /// Writes the Secret; false if another replica wrote it since it was read.
    async fn write(&self, found: Option<Secret>, kept: &[Authority]) -> Result<bool, Error> {
        let json = serde_json::to_vec(kept)
            .map_err(|error| self.failed("writing", kube::Error::SerdeError(error)))?;
        let data = BTreeMap::from([
            (BUNDLE_KEY.to_owned(), ByteString(bundle(kept).into_bytes())),
            (AUTHORITIES_KEY.to_owned(), ByteString(json)),
        ]);
        let params = PostParams::default();
        let written = if let Some(mut secret) = found {
            // The resourceVersion that was read is sent along, so that a write of another replica is not overwritten.
            secret.data = Some(data);
            self.secrets.replace(&self.name, &params, &secret).await
        } else {
            let part_of = ("app.kubernetes.io/part-of".to_owned(), "medley".to_owned());
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    labels: Some(BTreeMap::from([part_of])),
                    ..ObjectMeta::default()
                },
                data: Some(data),
                ..Secret::default()
            };
            self.secrets.create(&params, &secret).await
        };
        match written.map_err(|error| self.failed("writing", error)) {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn failed(&self, doing: &str, error: kube::Error) -> runtime::Error {
        let what = format!("{doing} Secret {}/{}", self.namespace, self.name);
        runtime::Error::api(what)(error)
    }
}

/// The CAs of a Secret; none if they cannot be decoded, so that new ones are created.
fn read(secret: &Secret) -> Vec<Authority> {
    let Some(json) = secret
        .data
        .as_ref()
        .and_then(|data| data.get(AUTHORITIES_KEY))
    else {
        return Vec::new();
    };
    serde_json::from_slice(&json.0).unwrap_or_else(|error| {
        warn!(%error, "cannot decode the CAs in the Secret; creating a new one");
        Vec::new()
    })
}
