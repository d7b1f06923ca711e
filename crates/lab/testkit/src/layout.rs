//! OCI layouts, built in a folder: for `skopeo` to push, or to be read without a registry.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A folder with images in the OCI layout.
#[derive(Debug)]
pub struct Layout {
    folder: PathBuf,
    named: Vec<Value>,
}

impl Layout {
    /// Creates a folder with an empty layout.
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder.join("blobs/sha256"))
            .with_context(|| format!("creating a layout in {}", folder.display()))?;
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        let layout = Self {
            folder: folder.to_owned(),
            named: Vec::new(),
        };
        layout.write()?;
        Ok(layout)
    }

    /// The source argument of `skopeo` for an image in the layout.
    pub fn source(&self, name: &str) -> String {
        format!("oci:{}:{name}", self.folder.display())
    }

    /// Adds a blob and returns its descriptor.
    pub fn blob(&self, media_type: &str, bytes: &[u8]) -> anyhow::Result<Value> {
        let mut hash = String::new();
        for byte in Sha256::digest(bytes) {
            write!(hash, "{byte:02x}")?;
        }
        fs::write(self.folder.join("blobs/sha256").join(&hash), bytes)?;
        Ok(json!({
            "mediaType": media_type,
            "digest": format!("sha256:{hash}"),
            "size": bytes.len(),
        }))
    }

    /// Adds an image for Linux on an architecture, with labels and layers of plain tar files.
    /// Returns the descriptor of its manifest, with the platform.
    pub fn image(
        &self,
        architecture: &str,
        layers: &[&[u8]],
        labels: &Value,
    ) -> anyhow::Result<Value> {
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": labels},
        });
        self.image_of(&config, layers)
    }

    /// Adds an image with this config, of layers that are plain tar files. The layers are added to
    /// the config; the descriptor has the config's platform.
    pub fn image_of(&self, config: &Value, layers: &[&[u8]]) -> anyhow::Result<Value> {
        let layers: Vec<Value> = layers
            .iter()
            .map(|layer| self.blob(LAYER, layer))
            .collect::<anyhow::Result<_>>()?;
        let diff_ids: Vec<&Value> = layers.iter().map(|layer| &layer["digest"]).collect();
        let mut config = config.clone();
        config["rootfs"] = json!({"type": "layers", "diff_ids": diff_ids});
        let mut platform = json!({});
        for key in ["architecture", "os", "variant", "os.version"] {
            if let Some(value) = config.get(key) {
                platform[key] = value.clone();
            }
        }
        let config = self.blob(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers,
        });
        let mut descriptor = self.blob(MANIFEST, manifest.to_string().as_bytes())?;
        descriptor["platform"] = platform;
        Ok(descriptor)
    }

    /// Adds an index of images and returns its descriptor.
    pub fn index(&self, images: &[Value]) -> anyhow::Result<Value> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images});
        self.blob(INDEX, index.to_string().as_bytes())
    }

    /// Tags an image or an index.
    pub fn name(&mut self, name: &str, descriptor: &Value) -> anyhow::Result<()> {
        let mut entry = descriptor.clone();
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        self.named
            .retain(|entry| entry["annotations"]["org.opencontainers.image.ref.name"] != name);
        self.named.push(entry);
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let index = json!({"schemaVersion": 2, "manifests": self.named});
        fs::write(self.folder.join("index.json"), index.to_string())?;
        Ok(())
    }
}
