//! What the controllers need in a cluster: the definitions of our kinds, and a namespace.
//!
//! In a real cluster this comes with the manifests, so that the operator need not be allowed to do it.

use std::time::Duration;

use chassis::Error;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};

/// Who owns what is installed.
const MANAGER: &str = "medley";
/// How long a definition may take to be established.
const PATIENCE: Duration = Duration::from_secs(30);

/// Installs or updates the definitions of our kinds, and makes the namespace if there is none.
pub async fn install(client: &Client, namespace: &str) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let wanted = Namespace {
        metadata: ObjectMeta {
            name: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match namespaces.create(&PostParams::default(), &wanted).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(Error::api(format!("creating namespace {namespace}"))(error)),
    }
    for definition in [api::advisor::definition()] {
        let name = definition.name_any();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply(MANAGER).force();
        definitions
            .patch(&name, &params, &Patch::Apply(&definition))
            .await
            .map_err(Error::api(format!(
                "installing CustomResourceDefinition {name}"
            )))?;
        let established = await_condition(definitions, &name, conditions::is_crd_established());
        match tokio::time::timeout(PATIENCE, established).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                return Err(Error::Invalid(format!(
                    "waiting for CustomResourceDefinition {name} to be established: {error}"
                )));
            }
            Err(_) => {
                return Err(Error::Late(format!(
                    "CustomResourceDefinition {name} is not established after {} s",
                    PATIENCE.as_secs()
                )));
            }
        }
    }
    Ok(())
}
