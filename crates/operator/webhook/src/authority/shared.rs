//! Authorities in a Secret.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tracing::{info, warn};

use super::{Authority, Turn, bundle, shared, signer, turn};
use crate::error::Error;

/// What may be known to anybody: the certificates to trust.
const BUNDLE: &str = "ca.crt";
/// The authorities with their keys, as JSON.
const AUTHORITIES: &str = "authorities.json";
/// How often to look again when another replica was faster.
const TRIES: usize = 5;

/// Keeps the authorities that replicas share.
#[derive(Clone)]
pub struct Authorities {
    secrets: Api<Secret>,
    namespace: String,
    name: String,
    /// Whom certificates are for.
    names: Vec<String>,
    known: Vec<Authority>,
}

impl std::fmt::Debug for Authorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authorities({}/{})", self.namespace, self.name)
    }
}

impl Authorities {
    /// Reads the authorities of a Secret, or makes the first one. Certificates are for these names.
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
        authorities.look(Timestamp::now()).await?;
        Ok(authorities)
    }

    /// Whom certificates are for.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// What the API server has to trust, in PEM.
    pub fn bundle(&self) -> String {
        bundle(&self.known)
    }

    /// The authority that signs now.
    pub(crate) fn signer(&self, now: Timestamp) -> Option<&Authority> {
        signer(&self.known, now)
    }

    /// Reads what is kept, and makes or drops authorities if it is time to.
    pub(crate) async fn look(&mut self, now: Timestamp) -> Result<(), Error> {
        for _ in 0..TRIES {
            let found = self
                .secrets
                .get_opt(&self.name)
                .await
                .map_err(|error| self.failed("reading", error))?;
            let before = found.as_ref().map(read).unwrap_or_default();
            let Turn { mut kept, another } = turn(before.clone(), now);
            if another {
                kept.push(shared(now)?);
            }
            if kept == before || self.write(found, &kept).await? {
                if another {
                    info!(secret = self.name, "made an authority for certificates");
                }
                self.known = kept;
                return Ok(());
            }
        }
        Err(runtime::Error::Late(format!(
            "others keep changing Secret {}/{}; tried {TRIES} times",
            self.namespace, self.name
        ))
        .into())
    }

    /// Writes what is kept; false if somebody else was faster.
    async fn write(&self, found: Option<Secret>, kept: &[Authority]) -> Result<bool, Error> {
        let json = serde_json::to_vec(kept)
            .map_err(|error| self.failed("writing", kube::Error::SerdeError(error)))?;
        let data = BTreeMap::from([
            (BUNDLE.to_owned(), ByteString(bundle(kept).into_bytes())),
            (AUTHORITIES.to_owned(), ByteString(json)),
        ]);
        let params = PostParams::default();
        let written = if let Some(mut secret) = found {
            // The version that was read goes along: whoever was faster is not overwritten.
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
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(self.failed("writing", error)),
        }
    }

    fn failed(&self, doing: &str, error: kube::Error) -> Error {
        let what = format!("{doing} Secret {}/{}", self.namespace, self.name);
        runtime::Error::api(what)(error).into()
    }
}

/// The authorities of a Secret; none if they cannot be read, so that there will be new ones.
fn read(secret: &Secret) -> Vec<Authority> {
    let Some(json) = secret.data.as_ref().and_then(|data| data.get(AUTHORITIES)) else {
        return Vec::new();
    };
    serde_json::from_slice(&json.0).unwrap_or_else(|error| {
        warn!(%error, "what the Secret holds are no authorities; making a new one");
        Vec::new()
    })
}
