//! Genuine programs of other projects, which `cargo xtask peers` builds, beside a cluster.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};

use crate::objects::until;
use crate::{TestCluster, genuine};

/// Time for the API server to serve a new kind.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_mins(1);

/// The path of a genuine program.
///
/// # Errors
/// If `KUBEBUILDER_ASSETS` names no folder with the program; the message has the command that builds it.
pub fn peer(name: &str) -> anyhow::Result<PathBuf> {
    let folder = genuine::assets().with_context(|| advice(name))?;
    let path = folder.join(name);
    anyhow::ensure!(path.is_file(), "{}: {}", path.display(), advice(name));
    Ok(path)
}

/// The project and the version of a genuine program, such as `etcd@v3.7.3`.
pub fn peer_version(name: &str) -> anyhow::Result<String> {
    let path = peer(name)?;
    // `bin` has links into a folder for each version.
    let program = path
        .canonicalize()
        .with_context(|| format!("resolving {}", path.display()))?;
    let folder = program.parent().and_then(|folder| folder.file_name());
    let version = folder.and_then(|it| it.to_str());
    let version = version.filter(|it| it.contains('@')).with_context(|| {
        format!(
            "{} is in no folder of a version: {}",
            program.display(),
            advice(name)
        )
    })?;
    Ok(version.to_owned())
}

/// Installs the CRDs that a project ships, from the modules in `peers/`, and waits until they are served.
pub async fn install_peer_crds(cluster: &TestCluster, project: &str) -> anyhow::Result<()> {
    let name = format!("{project}-crds");
    let folder = genuine::assets().with_context(|| advice(&name))?;
    // The cache has programs in `bin` and CRDs in `crds` beside it.
    let path = folder
        .with_file_name("crds")
        .join(format!("{project}.yaml"));
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("reading {}: {}", path.display(), advice(&name)))?;
    let crds: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text)
        .with_context(|| format!("decoding {}", path.display()))?;
    anyhow::ensure!(!crds.is_empty(), "{} has no CRDs", path.display());
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client());
    for crd in &crds {
        let params = PatchParams::apply("peers").force();
        api.patch(&crd.name_any(), &params, &Patch::Apply(crd))
            .await
            .with_context(|| format!("applying CRD {} of {project}", crd.name_any()))?;
    }
    for crd in &crds {
        until(
            &api,
            &crd.name_any(),
            "is established",
            ESTABLISHED_TIMEOUT,
            |crd| {
                let conditions = crd
                    .status
                    .as_ref()
                    .and_then(|status| status.conditions.as_ref());
                conditions
                    .into_iter()
                    .flatten()
                    .any(|condition| condition.type_ == "Established" && condition.status == "True")
            },
        )
        .await?;
    }
    Ok(())
}

fn advice(name: &str) -> String {
    format!(
        "run the suite with `cargo xtask test --genuine`, or build the program with `cargo xtask peers {name}` and set \
         KUBEBUILDER_ASSETS"
    )
}
