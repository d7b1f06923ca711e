//! `medley profile pack`: a profile as an OCI artifact.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::source::{MEDIA_TYPE, ProfileArguments};
use crate::{exit, process};

/// The empty configuration of an artifact, as the image specification defines it.
const EMPTY: &[u8] = b"{}";
/// Its media type.
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// Write a profile as an OCI artifact into a folder with an OCI layout. The profile must not have errors.
///
/// Medley does not push images; `skopeo copy oci:FOLDER docker://...` or `oras cp --from-oci-layout` uploads the folder.
/// Signatures of the tools that sign images apply to it as to any other image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    profile: ProfileArguments,

    /// Folder to write; it must not exist.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        arguments.profile.compiled().await?;
        let text = arguments.profile.check().await?.text;
        let to = &arguments.to;
        ensure!(
            !to.exists(),
            "{} exists already; a new folder is needed",
            to.display()
        );
        let digest = write(to, text.as_bytes())
            .with_context(|| format!("writing the OCI layout {}", to.display()))?;
        exit::print(&format!("{digest}\n"))
    })
}

/// Writes the layout; returns the digest of the manifest.
fn write(folder: &Path, profile: &[u8]) -> anyhow::Result<String> {
    let blobs = folder.join("blobs").join("sha256");
    fs::create_dir_all(&blobs)?;
    let blob = |media_type: &str, bytes: &[u8]| -> anyhow::Result<Value> {
        let mut digest = String::new();
        for byte in Sha256::digest(bytes) {
            write!(digest, "{byte:02x}")?;
        }
        fs::write(blobs.join(&digest), bytes)?;
        Ok(
            json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() }),
        )
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": MEDIA_TYPE,
        "config": blob(EMPTY_TYPE, EMPTY)?,
        "layers": [blob(MEDIA_TYPE, profile)?],
    });
    let manifest = blob(MANIFEST_TYPE, &serde_json::to_vec(&manifest)?)?;
    let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(folder.join("index.json"), serde_json::to_vec(&index)?)?;
    let layout = json!({ "imageLayoutVersion": "1.0.0" });
    fs::write(folder.join("oci-layout"), serde_json::to_vec(&layout)?)?;
    Ok(digest)
}
