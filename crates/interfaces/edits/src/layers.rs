//! Hand-overs of layers of golden images: the replicas of genuine operators.

use golden_images::hand_over::Scale;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use runtime::{Error, Key, Writer};

use crate::ATTEMPTS;

/// Scales the Deployment of an operator, and records its replicas in an annotation, in one request. Returns false if its
/// replicas are not those that the change was decided on.
pub async fn scale(
    client: &Client,
    scale: &Scale,
    (manager, dry_run): (&'static str, bool),
) -> Result<bool, Error> {
    let namespace = &scale.deployment.namespace;
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let writer = Writer::new(api, manager).dry_run(dry_run);
    let key = Key::new(namespace, &scale.deployment.name);
    for _ in 0..ATTEMPTS {
        let Some(found) = writer.get(&key).await? else {
            return Ok(false);
        };
        let replicas = found.spec.as_ref().and_then(|it| it.replicas);
        if replicas.unwrap_or(1) != scale.from {
            return Ok(false);
        }
        match writer
            .merge_into(&found.metadata, scale.patch.clone())
            .await
        {
            Ok(_) => return Ok(true),
            // Its status changed, which happens often.
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Late(format!(
        "scaling Deployment {key}: it changed during each of {ATTEMPTS} attempts"
    )))
}
