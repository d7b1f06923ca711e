//! Maintains the config map with the API server's certificate authority in every namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::ObjectMeta;
use runtime::{Cache, Error, Key, Next, Reconcile, Writer};

use super::{is_active, unless_terminating};

/// The config map, which pods mount.
pub(super) const NAME: &str = "kube-root-ca.crt";
const ENTRY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
                    internal endpoints such as the internal service IP or kubernetes.default.svc. \
                    No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(super) struct Certificates {
    pub(super) writer: Writer<ConfigMap>,
    pub(super) namespaces: Cache<Namespace>,
    pub(super) maps: Cache<ConfigMap>,
    pub(super) root_ca: Arc<str>,
}

impl Reconcile for Certificates {
    fn name(&self) -> &'static str {
        "root-certificate"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        if !self.namespaces.find(key).is_some_and(|one| is_active(&one)) {
            return Ok(Next::Wait);
        }
        let known = self.maps.get(&key.name, NAME);
        let Some(mut wanted) = publish(known.as_deref(), &self.root_ca) else {
            return Ok(Next::Wait);
        };
        wanted.metadata.namespace = Some(key.name.clone());
        unless_terminating(match known {
            None => self.writer.create(&wanted).await,
            Some(_) => self.writer.replace(&wanted).await,
        })
    }
}

/// The desired config map, or `None` if it is up to date. Other keys are kept, and any description
/// annotation is accepted.
fn publish(known: Option<&ConfigMap>, root_ca: &str) -> Option<ConfigMap> {
    let data = BTreeMap::from([(ENTRY.to_owned(), root_ca.to_owned())]);
    let mut map = known.cloned().unwrap_or_else(|| ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    });
    let annotations = map.metadata.annotations.get_or_insert_default();
    let described = annotations
        .get(DESCRIPTION)
        .is_some_and(|text| !text.is_empty());
    if described && map.data.as_ref() == Some(&data) {
        return None;
    }
    annotations.insert(DESCRIPTION.to_owned(), TEXT.to_owned());
    map.data = Some(data);
    Some(map)
}

#[cfg(test)]
mod tests;
