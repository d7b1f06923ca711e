//! `medley gather`: the contents of a bundle, and the absence of secrets.

use std::path::Path;
use std::process::Stdio;

use api::advisor::{VirtPlatformConfig, VirtPlatformConfigSpec};
use fleet::operators::{self, Installed};
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::{CommandOutput, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
/// A secret that must not be in a bundle, plain and in base64.
const SECRET: &str = "correct-horse-battery";
const ENCODED: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";
/// A service account token with a meaningless signature.
const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl";

struct GatherFixture {
    served: ServedCluster,
    client: Client,
    /// Kept alive with the fixture.
    _cluster: TestCluster,
}

impl GatherFixture {
    /// A cluster with secrets in every place where users put them.
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let fixture = Self {
            served: cluster.serve().await?,
            client: cluster.client(),
            _cluster: cluster,
        };
        controllers::install(&fixture.client, "medley-system").await?;
        let installed = Installed {
            virtual_machines: true,
            cdi: true,
            ..Installed::default()
        };
        operators::install(&fixture.client, &installed).await?;
        let spec = VirtPlatformConfigSpec {
            profile: "example-profile".to_owned(),
            ..VirtPlatformConfigSpec::default()
        };
        let configs: Api<VirtPlatformConfig> = Api::all(fixture.client.clone());
        let config = VirtPlatformConfig::new("example-profile", spec);
        configs.create(&PostParams::default(), &config).await?;
        fixture.secrets().await?;
        Ok(fixture)
    }

    async fn secrets(&self) -> anyhow::Result<()> {
        self.create(
            ("", "v1", "Secret"),
            json!({ "metadata": { "name": "pull" }, "stringData": { "password": SECRET } }),
        )
        .await?;
        self.create(
            ("", "v1", "ConfigMap"),
            json!({ "metadata": { "name": "somebodys" }, "data": { "password": SECRET } }),
        )
        .await?;
        self.create(
            ("", "v1", "Pod"),
            json!({
                "metadata": {
                    "name": "operator",
                    "labels": { "app.kubernetes.io/part-of": "medley" },
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration":
                            format!("{{\"env\":[{{\"name\":\"A\",\"value\":\"{SECRET}\"}}]}}"),
                    },
                },
                "spec": { "containers": [{
                    "name": "c", "image": "x",
                    "args": ["--registry-token", SECRET, format!("--password={SECRET}")],
                    "env": [{ "name": "DATABASE", "value": SECRET }],
                }] },
            }),
        )
        .await?;
        self.create(
            ("kubevirt.io", "v1", "VirtualMachineInstance"),
            json!({
                "metadata": { "name": "vm" },
                "spec": {
                    "domain": { "devices": {} },
                    "volumes": [
                        { "name": "a", "cloudInitNoCloud": { "userData": format!("password: {SECRET}") } },
                        { "name": "b", "cloudInitConfigDrive": { "userDataBase64": ENCODED } },
                    ],
                },
            }),
        )
        .await?;
        self.create(
            ("", "v1", "Event"),
            json!({
                "metadata": { "name": "told" },
                "involvedObject": { "kind": "Pod", "name": "operator", "namespace": "default" },
                "reason": "Told",
                "message": format!("pulling https://user:{SECRET}@quay.io/x with Bearer {TOKEN}"),
            }),
        )
        .await
    }

    async fn create(&self, of: (&str, &str, &str), object: Value) -> anyhow::Result<()> {
        let (group, version, kind) = of;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &resource);
        let mut object = object;
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = kind.into();
        object["metadata"]["namespace"] = "default".into();
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    async fn gather(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = tokio::process::Command::new(MEDLEY)
            .arg("gather")
            .args(line)
            .current_dir(self.served.folder())
            .env("KUBECONFIG", &self.served.kubeconfig)
            .env_remove("MUST_GATHER_SINCE")
            .env_remove("MUST_GATHER_SINCE_TIME")
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
    }
}

/// Every file below a folder, as path and text.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.display().to_string();
                found.push((name, std::fs::read_to_string(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Panics if a text contains one of the secrets.
#[track_caller]
fn assert_no_secret(name: &str, text: &str) {
    let signature = TOKEN.rsplit('.').next().unwrap_or(TOKEN);
    for secret in [SECRET, ENCODED, signature] {
        assert!(!text.contains(secret), "{secret} in {name}:\n{text}");
    }
}

#[tokio::test]
async fn bundle_has_diagnostics_and_no_secret() -> anyhow::Result<()> {
    let fixture = GatherFixture::start().await?;
    let folder = fixture.served.folder().join("bundle");
    let result = fixture
        .gather(&["--dest-dir", &folder.display().to_string()])
        .await?;
    assert_no_secret("what it says", &format!("{}{}", result.out, result.err));
    has(&result.ok()?, &["bundle: ", "values redacted"]);
    let files = files(&folder)?;
    for (name, text) in &files {
        assert_no_secret(name, text);
        assert!(!name.contains("/secrets"), "{name}");
    }
    let text = |name: &str| {
        let found = files.iter().find(|(it, _)| it == name);
        let names: Vec<&String> = files.iter().map(|(it, _)| it).collect();
        found.map_or_else(|| panic!("{name} in {names:?}"), |(_, text)| text.clone())
    };
    assert!(text("version").starts_with("medley\nv0."));
    has(
        &text(
            "cluster-scoped-resources/advisor.kubevirt.io/virtplatformconfigs/example-profile.yaml",
        ),
        &["kind: VirtPlatformConfig", "profile: example-profile"],
    );
    has(
        &text("namespaces/default/core/pods.yaml"),
        &["kind: PodList", "name: DATABASE", "<redacted>"],
    );
    has(
        &text("namespaces/default/kubevirt.io/virtualmachineinstances.yaml"),
        &["cloudInitNoCloud", "<redacted>"],
    );
    has(
        &text("namespaces/default/core/events.yaml"),
        &["reason: Told", "https://<redacted>@quay.io/x"],
    );
    has(&text("status.txt"), &["Governance", "example-profile"]);
    let status: Value = serde_json::from_str(&text("status.json"))?;
    assert_eq!(status["items"].as_array().map(Vec::len), Some(5));
    let index: Value = serde_json::from_str(&text("gather.json"))?;
    assert_eq!(index["format"], "medley-gather");
    assert_eq!(index["events"], 1);
    assert!(index["redacted"].as_u64() >= Some(8), "{index}");
    Ok(())
}

#[tokio::test]
async fn archive_is_private_and_has_the_same_files() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = GatherFixture::start().await?;
    fixture.gather(&["--to", "ticket.tar.gz"]).await?.ok()?;
    let path = fixture.served.folder().join("ticket.tar.gz");
    let mode = std::fs::metadata(&path)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = tokio::process::Command::new("tar")
        .args(["-xzOf", &path.display().to_string()])
        .output()
        .await?;
    let all = CommandOutput::of(&listed).ok()?;
    assert_no_secret("the archive", &all);
    has(&all, &["kind: VirtPlatformConfig", "medley-gather"]);
    let refused = fixture.gather(&["--to", "ticket.zip"]).await?.refused()?;
    has(&refused, &["ticket.zip", ".tar.gz or .tgz"]);
    Ok(())
}

#[tokio::test]
async fn timeout_is_recorded_and_collected_data_is_kept() -> anyhow::Result<()> {
    let fixture = GatherFixture::start().await?;
    let folder = fixture.served.folder().join("short");
    let result = fixture
        .gather(&[
            "--dest-dir",
            &folder.display().to_string(),
            "--timeout",
            "1ms",
        ])
        .await?;
    has(&result.err, &["not read: status: "]);
    result.ok()?;
    let index: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("gather.json"))?)?;
    let missing = index["missing"].as_array().cloned().unwrap_or_default();
    assert!(
        missing.iter().any(|it| it["reason"]
            .as_str()
            .is_some_and(|it| it.contains("--timeout"))),
        "{index}"
    );
    assert!(folder.join("version").exists());
    for wrong in ["0s", "-1s", "soon"] {
        let result = fixture.gather(&[&format!("--timeout={wrong}")]).await?;
        assert_eq!(result.code, Some(1), "{wrong}");
        has(&result.err, &["--timeout", wrong]);
    }
    Ok(())
}

#[tokio::test]
async fn since_excludes_older_logs_and_events() -> anyhow::Result<()> {
    let fixture = GatherFixture::start().await?;
    let folder = fixture.served.folder().join("recent");
    let future = "2126-01-01T00:00:00Z";
    fixture
        .gather(&[
            "--dest-dir",
            &folder.display().to_string(),
            "--since-time",
            future,
        ])
        .await?
        .ok()?;
    assert!(!folder.join("namespaces/default/core/events.yaml").exists());
    assert!(folder.join("namespaces/default/core/pods.yaml").exists());
    let both = fixture
        .gather(&["--since", "1h", "--since-time", future])
        .await?;
    assert_eq!(both.code, Some(1));
    Ok(())
}
