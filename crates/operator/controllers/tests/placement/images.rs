//! A registry with images for many platforms.

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Layout, Registry, RegistryOptions};

pub(crate) struct Images {
    pub(crate) registry: Registry,
    /// The descriptor of the image `arm`.
    arm: Value,
    _folder: TempDir,
}

impl Images {
    /// A registry without authentication.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::with(RegistryOptions::default()).await
    }

    /// A registry with authentication.
    pub(crate) async fn private() -> anyhow::Result<Self> {
        Self::with(RegistryOptions {
            password: true,
            ..RegistryOptions::default()
        })
        .await
    }

    async fn with(options: RegistryOptions) -> anyhow::Result<Self> {
        let registry = Registry::start_with(options).await?;
        let folder = tempfile::tempdir()?;
        let mut layout = Layout::new(&folder.path().join("layout"))?;
        let linux = |architecture: &str| {
            let layer = format!("for {architecture}");
            layout.image(architecture, &[layer.as_bytes()], &json!({}))
        };
        let windows = |build: &str| {
            let layer = format!("for {build}");
            let mut image = layout.image("amd64", &[layer.as_bytes()], &json!({}))?;
            image["platform"] =
                json!({ "architecture": "amd64", "os": "windows", "os.version": build });
            anyhow::Ok(image)
        };
        let (amd, arm, z) = (linux("amd64")?, linux("arm64")?, linux("s390x")?);
        let attestation = {
            let mut it = layout.image("unknown", &[b"provenance"], &json!({}))?;
            it["platform"] = json!({ "architecture": "unknown", "os": "unknown" });
            it["annotations"] = json!({
                "vnd.docker.reference.type": "attestation-manifest",
                "vnd.docker.reference.digest": amd["digest"],
            });
            it
        };
        let bare = {
            let mut it = layout.image("amd64", &[b"bare"], &json!({}))?;
            if let Some(it) = it.as_object_mut() {
                it.remove("platform");
            }
            it
        };
        let inner = layout.index(std::slice::from_ref(&arm))?;
        let outer = json!({ "schemaVersion": 2, "manifests": [inner] });
        let builds = [
            windows("10.0.17763.5329")?,
            windows("10.0.20348.2227")?,
            windows("10.0.26100.1742")?,
        ];
        let named: [(&str, Value); 9] = [
            ("arm", layout.index(std::slice::from_ref(&arm))?),
            ("both", layout.index(&[amd.clone(), arm.clone()])?),
            ("mainframe", layout.index(std::slice::from_ref(&z))?),
            ("windows", layout.index(&builds)?),
            ("old-windows", layout.index(&builds[..1])?),
            ("single", arm.clone()),
            ("nested", inner),
            ("attested", layout.index(&[amd, attestation])?),
            ("bare", layout.index(&[bare, z])?),
        ];
        for (name, descriptor) in &named {
            layout.name(name, descriptor)?;
            registry.push(&layout.source(name), &format!("{name}:1"))?;
        }
        registry.put_index("nested:1", outer.to_string().as_bytes())?;
        Ok(Self {
            registry,
            arm,
            _folder: folder,
        })
    }

    /// The reference of an image in pods.
    pub(crate) fn name(&self, image: &str) -> String {
        format!("{}/{image}:1", self.registry.host())
    }

    /// Pushes an image for arm64 that no component has inspected yet; returns its reference.
    pub(crate) fn push_unknown(&self, tag: &str) -> anyhow::Result<String> {
        let index = json!({ "schemaVersion": 2, "manifests": [self.arm] });
        let image = format!("arm:{tag}");
        self.registry
            .put_index(&image, index.to_string().as_bytes())?;
        Ok(format!("{}/{image}", self.registry.host()))
    }

    /// Number of GET requests for manifests and blobs of an image since it was pushed.
    pub(crate) fn reads(&self, image: &str) -> usize {
        let requests = self.registry.requests();
        let path = format!("GET /v2/{image}/");
        let reads = requests.iter().filter(|it| it.starts_with(&path));
        reads.count()
    }
}
