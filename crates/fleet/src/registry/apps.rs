//! Small images of applications: what differs between them is what they are for. They hold no program that
//! anybody could run, and never change.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use platform::document::Schema2;
use platform::{Descriptor, Digest, Index, Manifest, MediaType, Platform};
use serde_json::json;

use super::image::{Published, descriptor, tar};

/// The tag that all of them have.
pub const TAG: &str = "1";

/// An image of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct App {
    /// Where it is in the registry.
    pub repository: &'static str,
    /// What it is made for, in the order of its entries.
    pub platforms: &'static [&'static str],
    /// Whether there is an index; otherwise it is the one image.
    pub is_index: bool,
}

/// All of them.
pub static APPS: [App; 4] = [
    // A node that pulls it compares it with itself only if it is in an index.
    App {
        repository: "apps/amd64-only",
        platforms: &["linux/amd64"],
        is_index: false,
    },
    App {
        repository: "apps/arm64-only",
        platforms: &["linux/arm64/v8"],
        is_index: true,
    },
    App {
        repository: "apps/everywhere",
        platforms: &["linux/amd64", "linux/arm64/v8", "linux/s390x"],
        is_index: true,
    },
    App {
        repository: "apps/windows",
        platforms: &[
            "windows(10.0.17763.6532)/amd64",
            "windows(10.0.20348.2849)/amd64",
            "windows(10.0.26100.2314)/amd64",
        ],
        is_index: true,
    },
];

/// Makes all of them.
pub(super) fn publish() -> std::io::Result<Vec<(&'static App, Published)>> {
    APPS.iter().map(|app| Ok((app, published(app)?))).collect()
}

fn published(app: &App) -> std::io::Result<Published> {
    let mut published = Published::default();
    let mut entries = Vec::new();
    for text in app.platforms {
        let platform: Platform = text.parse().map_err(std::io::Error::other)?;
        let (layer, diff) = layer(app, text)?;
        let layer = published.blob(&layer);
        let config = published.blob(&config(&platform, &diff)?);
        let manifest = Manifest {
            schema_version: Schema2,
            media_type: MediaType::OciManifest,
            artifact_type: String::new(),
            config: descriptor(MediaType::OciConfig, config),
            layers: vec![descriptor(
                MediaType::read("application/vnd.oci.image.layer.v1.tar+gzip"),
                layer,
            )],
            annotations: BTreeMap::new(),
        };
        let written = published.document(&MediaType::OciManifest, &manifest)?;
        entries.push(Descriptor {
            platform: Some(platform),
            ..descriptor(MediaType::OciManifest, written)
        });
    }
    if app.is_index {
        let index = Index {
            schema_version: Schema2,
            media_type: MediaType::OciIndex,
            manifests: entries,
            annotations: BTreeMap::new(),
        };
        published.root = Some(published.document(&MediaType::OciIndex, &index)?.0);
    } else {
        published.root = entries.first().map(|entry| entry.digest.clone());
    }
    Ok(published)
}

/// A layer with one file that says what it is, and the digest of what is unpacked.
fn layer(app: &App, platform: &str) -> std::io::Result<(Vec<u8>, Digest)> {
    let text = format!("{} for {platform}\n", app.repository);
    let archive = tar::write_file("app.txt", text.as_bytes());
    let mut packed = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::fast());
    packed.write_all(&archive)?;
    Ok((packed.finish()?, Digest::sha256(&archive)))
}

fn config(platform: &Platform, diff: &Digest) -> std::io::Result<Vec<u8>> {
    let mut config = json!({
        "architecture": platform.architecture,
        "os": platform.os,
        "config": { "Entrypoint": ["/app"] },
        "rootfs": { "type": "layers", "diff_ids": [diff] },
    });
    if !platform.variant.is_empty() {
        config["variant"] = platform.variant.as_str().into();
    }
    if !platform.os_version.is_empty() {
        config["os.version"] = platform.os_version.as_str().into();
    }
    Ok(serde_json::to_vec(&config)?)
}
