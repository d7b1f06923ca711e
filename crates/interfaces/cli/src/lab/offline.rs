//! A copy of a cluster in memory: the API server for dry runs when there is no cluster.

use std::net::Ipv4Addr;
use std::path::Path;

use ::apiserver::auth::{MASTERS, StaticTokens, UserInfo};
use ::apiserver::pki::Authority;
use ::apiserver::store::Store;
use ::apiserver::{ApiServer, Options};
use anyhow::Context as _;
use api::advisor::{GROUP, VERSION};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _};

use crate::lab::restore;
use crate::output::remark;

/// A client for a copy of the cluster in a snapshot. Missing kinds are printed as warnings.
pub(crate) async fn open(path: &Path, history_namespace: &str) -> anyhow::Result<Client> {
    let copy = restore::Copy::open(path)?;
    let authority = Authority::generate().context("creating the server's keys")?;
    let server = ApiServer::start(Options {
        store: Store::memory(),
        token_key: authority
            .token_key()
            .context("creating the key of service account tokens")?,
        issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
        tokens: StaticTokens::default(),
        host: Ipv4Addr::LOCALHOST.to_string(),
        port: 6443,
        service_accounts: false,
    })
    .await
    .context("starting a server in memory")?;
    let copied = copy.restore(&server).await?;
    remark(copied.to_string().trim_end());
    let user = UserInfo::known("system:medley", &[MASTERS]);
    let client = Client::new(server.as_user(user), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = api::advisor::definition().name_any();
    let defined = definitions
        .get_opt(&name)
        .await
        .with_context(|| format!("reading CustomResourceDefinition {name}"))?;
    if defined.is_none() {
        controllers::install(&client, history_namespace).await?;
        server
            .serves(&format!("{GROUP}/{VERSION}"), "VirtPlatformConfig")
            .await;
    }
    Ok(client)
}
