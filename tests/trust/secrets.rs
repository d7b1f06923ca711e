//! Secrets: none in a support bundle or a snapshot, and none readable beyond what a job needs.

use std::path::Path;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use fleet::operators::{self, Installed};
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::{CommandOutput, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");

/// The secrets in the cluster, each with a unique text.
#[derive(Default)]
struct PlantedSecrets(Vec<String>);

impl PlantedSecrets {
    /// A password with special characters.
    fn password(&mut self) -> String {
        let number = self.0.len();
        self.keep(format!("Plant{number:02}-p@ss!word+{number:02}x"))
    }

    /// A secret in the base64 alphabet, like keys and tokens.
    fn word(&mut self) -> String {
        let number = self.0.len();
        self.keep(format!("Plant{number:02}wordABCDEFGHIJKLMNOP{number:02}"))
    }

    fn keep(&mut self, secret: String) -> String {
        self.0.push(secret.clone());
        secret
    }

    /// Panics if a text contains one of them, plain or encoded.
    #[track_caller]
    #[allow(clippy::panic, reason = "test helpers may panic like tests")]
    fn none_in(&self, name: &str, text: &[u8]) {
        for secret in &self.0 {
            for form in forms(secret) {
                let form = form.as_bytes();
                let found = text.windows(form.len()).position(|it| it == form);
                if let Some(at) = found {
                    let around = &text[at.saturating_sub(120)..(at + 80).min(text.len())];
                    panic!("{secret} in {name}: {}", String::from_utf8_lossy(around));
                }
            }
        }
    }
}

/// Encodings of a secret: plain, escaped in JSON, in a URL, and in base64 at each of three offsets.
fn forms(secret: &str) -> Vec<String> {
    let escaped = json!(secret).to_string();
    let percent: String = secret
        .bytes()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == b'-' {
                char::from(c).to_string()
            } else {
                format!("%{c:02X}")
            }
        })
        .collect();
    let mut forms = vec![
        secret.to_owned(),
        escaped.trim_matches('"').to_owned(),
        percent,
        STANDARD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ];
    for offset in 1..3 {
        let encoded = STANDARD.encode(format!("{}{secret}", "x".repeat(offset)));
        // The first and the last group depend on the surrounding bytes.
        forms.push(encoded[4..encoded.len() - 4].to_owned());
    }
    forms
}

fn private_key(body: &str, kind: &str) -> String {
    format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
}

struct SecretPlanter {
    client: Client,
    planted: PlantedSecrets,
}

impl SecretPlanter {
    async fn create(&self, of: (&str, &str, &str), object: Value) -> anyhow::Result<()> {
        let (group, version, kind) = of;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let mut object = object;
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = kind.into();
        let api: Api<DynamicObject> = if object["metadata"]["namespace"].is_string() {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let object = serde_json::from_value(object)?;
        let made = api.create(&PostParams::default(), &object).await;
        made.map_err(|error| anyhow::anyhow!("creating a {kind}: {error}"))?;
        Ok(())
    }

    async fn config(&mut self) -> anyhow::Result<()> {
        let p = &mut self.planted;
        let secret = json!({
            "metadata": {
                "name": "pull", "namespace": "default",
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration":
                    json!({ "kind": "Secret", "data": { "password": STANDARD.encode(p.password()) } }).to_string() },
            },
            "stringData": { "password": p.password() },
            "data": { "key": STANDARD.encode(p.word()) },
        });
        let answers = format!(
            "<unattend><UserAccounts><AdministratorPassword><Value>{}</Value></AdministratorPassword></UserAccounts></unattend>",
            p.password()
        );
        let map = json!({
            "metadata": {
                "name": "of-others", "namespace": "default",
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration":
                    json!({ "kind": "ConfigMap", "data": { "any": p.password() } }).to_string() },
            },
            "data": {
                "plain": p.password(),
                "application.properties": format!("db.user=x\ndb.pass={}\n", p.password()),
                ".pgpass": format!("host:5432:db:user:{}", p.word()),
                "unattend.xml": answers,
                "user-data": format!("#cloud-config\nchpasswd:\n  list: |\n    root:{}\n", p.word()),
                "id_rsa": private_key(&p.word(), "RSA PRIVATE KEY"),
            },
            "binaryData": { "keystore": STANDARD.encode(p.word()) },
        });
        // Medley uses this ConfigMap, so its documents are kept.
        let templates = json!({
            "metadata": { "name": "data-import-cron-templates", "namespace": "default" },
            "data": { "dataImportCronTemplates.yaml": format!(
                "# token: {}\n- metadata: {{name: fedora}}\n  spec: {{url: \"https://u:{}@host/x\", password: {}}}\n",
                p.word(), p.word(), p.word()
            ) },
        });
        self.create(("", "v1", "Secret"), secret).await?;
        self.create(("", "v1", "ConfigMap"), map).await?;
        self.create(("", "v1", "ConfigMap"), templates).await
    }

    async fn workloads(&mut self) -> anyhow::Result<()> {
        let p = &mut self.planted;
        let jwt = p.word();
        let container = json!({
            "name": "c", "image": "x",
            "command": ["sh", "-c", format!("mysql -uroot -p{} && curl -u admin:{} https://x", p.word(), p.word())],
            "args": [
                "--registry-token", p.password(),
                format!("--db-password={}", p.password()),
                "-p", p.password(),
                format!("https://user:{}@host/path", p.password()),
                format!("https://host/x?sig={}&a=1", p.word()),
            ],
            "env": [
                { "name": "DATABASE", "value": p.password() },
                { "name": "HARMLESS", "value": p.word() },
            ],
            "livenessProbe": { "httpGet": {
                "port": 80, "path": format!("/healthz?access_token={}", p.word()),
                "httpHeaders": [{ "name": "X-Whatever", "value": p.word() }],
            } },
            "lifecycle": { "postStart": { "exec": { "command": ["redis-cli", "-a", p.password(), "ping"] } } },
        });
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user:\n    client-key-data: {}\n    token: {}\n",
            p.word(),
            p.password()
        );
        let docker = json!({ "auths": { "quay.io": { "auth": p.word() } } }).to_string();
        let annotations = json!({
            "kubectl.kubernetes.io/last-applied-configuration":
                json!({ "spec": { "containers": [{ "env": [{ "name": "A", "value": p.password() }] }] } }).to_string(),
            "example.com/kubeconfig": kubeconfig,
            "example.com/docker": docker,
            "example.com/encoded": STANDARD.encode(format!("password: {}", p.password())),
            "example.com/basic-auth": p.password(),
            "example.com/note": format!("jwt eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.{jwt}"),
            "example.com/ssh": private_key(&p.word(), "OPENSSH PRIVATE KEY"),
            "example.com/cloud": format!("AKIA{} and aws_secret_access_key = {}", p.keep("PLANTEDPLANTED42".to_owned()), p.word()),
            "example.com/forge": format!("ghp_{} glpat-{} xoxb-{} sk_live_{}", p.word(), p.word(), p.word(), p.word()),
            "example.com/hash": format!("$6$saltsalt${}", p.word()),
            "example.com/storage": format!("DefaultEndpointsProtocol=https;AccountKey={};x", p.word()),
        });
        let labels = json!({ "app.kubernetes.io/part-of": "medley" });
        let pod = json!({ "serviceAccountName": "default", "automountServiceAccountToken": false, "containers": [container] });
        let meta = |name: &str| json!({ "name": name, "namespace": "default", "labels": labels, "annotations": annotations });
        self.create(
            ("", "v1", "Pod"),
            json!({ "metadata": meta("operator"), "spec": pod }),
        )
        .await?;
        let template =
            json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": pod });
        let workload = json!({ "selector": { "matchLabels": labels }, "template": template });
        self.create(
            ("apps", "v1", "Deployment"),
            json!({ "metadata": meta("web"), "spec": workload }),
        )
        .await?;
        self.create(
            ("apps", "v1", "ControllerRevision"),
            json!({ "metadata": meta("web-1"), "revision": 1, "data": { "spec": { "template": template } } }),
        )
        .await
    }

    async fn machines(&mut self) -> anyhow::Result<()> {
        let p = &mut self.planted;
        let volumes = json!([
            { "name": "a", "cloudInitNoCloud": {
                "userData": format!("#cloud-config\npassword: {}\nssh_pwauth: true\n", p.password()),
                "networkData": format!("wifis: {{psk: {}}}", p.password()),
            } },
            { "name": "b", "cloudInitConfigDrive": {
                "userDataBase64": STANDARD.encode(format!("#!/bin/sh\necho root:{} | chpasswd\n", p.word())),
                "networkDataBase64": STANDARD.encode(p.word()),
            } },
        ]);
        let domain = json!({ "devices": {} });
        self.create(
            ("kubevirt.io", "v1", "VirtualMachineInstance"),
            json!({
                "metadata": { "name": "vmi", "namespace": "default" },
                "spec": { "domain": domain, "volumes": volumes },
            }),
        )
        .await?;
        self.create(
            ("kubevirt.io", "v1", "VirtualMachine"),
            json!({
                "metadata": { "name": "vm", "namespace": "default" },
                "spec": { "running": false, "template": { "spec": { "domain": domain, "volumes": volumes } } },
            }),
        )
        .await?;
        let p = &mut self.planted;
        let source = json!({ "http": {
            "url": format!("https://u:{}@host/disk.img", p.password()),
            "extraHeaders": [format!("X-Auth: {}", p.word())],
        } });
        self.create(
            ("cdi.kubevirt.io", "v1beta1", "DataVolume"),
            json!({
                "metadata": { "name": "disk", "namespace": "default" },
                "spec": { "source": source, "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
            }),
        )
        .await
    }

    async fn others(&mut self) -> anyhow::Result<()> {
        let p = &mut self.planted;
        let class = json!({
            "metadata": { "name": "gold" }, "provisioner": "csi.example.com",
            "parameters": { "restuserkey": p.word(), "resturl": format!("http://admin:{}@heketi", p.word()) },
            "mountOptions": [format!("username=x,password={}", p.word())],
        });
        let event = json!({
            "metadata": { "name": "said", "namespace": "default" },
            "involvedObject": { "kind": "Pod", "name": "operator", "namespace": "default" },
            "reason": "Failed",
            "message": format!(
                "pulling https://user:{}@quay.io/x with Authorization: Bearer {} failed: {{\"password\":\"{}\"}}",
                p.password(), p.word(), p.word()
            ),
        });
        let account = json!({
            "metadata": { "name": "robot", "namespace": "default", "annotations": { "vault.example.com/token": p.word() } },
        });
        self.create(("storage.k8s.io", "v1", "StorageClass"), class)
            .await?;
        self.create(("", "v1", "Event"), event).await?;
        self.create(("", "v1", "ServiceAccount"), account).await
    }
}

async fn plant(client: &Client) -> anyhow::Result<PlantedSecrets> {
    controllers::install(client, "medley-system").await?;
    let installed = Installed {
        virtual_machines: true,
        cdi: true,
        ..Installed::default()
    };
    operators::install(client, &installed).await?;
    let mut plot = SecretPlanter {
        client: client.clone(),
        planted: PlantedSecrets::default(),
    };
    plot.config().await?;
    plot.workloads().await?;
    plot.machines().await?;
    plot.others().await?;
    Ok(plot.planted)
}

async fn run(kubeconfig: &Path, folder: &Path, line: &[&str]) -> anyhow::Result<CommandOutput> {
    let output = tokio::process::Command::new(MEDLEY)
        .args(line)
        .current_dir(folder)
        .env("KUBECONFIG", kubeconfig)
        .env_remove("MUST_GATHER_SINCE")
        .env_remove("MUST_GATHER_SINCE_TIME")
        .stdin(Stdio::null())
        .output()
        .await?;
    Ok(CommandOutput::of(&output))
}

/// The raw output of a command.
async fn bytes(program: &str, line: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = tokio::process::Command::new(program)
        .args(line)
        .output()
        .await?;
    anyhow::ensure!(output.status.success(), "{program} {line:?}");
    Ok(output.stdout)
}

/// Every file below a folder.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), std::fs::read(&path)?));
            }
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn support_bundle_has_no_planted_secret() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let planted = plant(&cluster.client()).await?;
    assert!(planted.0.len() >= 40, "{}", planted.0.len());

    let folder = served.folder().join("bundle");
    let place = folder.display().to_string();
    let line = ["gather", "--dest-dir", &place];
    let result = run(&served.kubeconfig, served.folder(), &line).await?;
    let printed = format!("{}{}", result.out, result.err);
    planted.none_in("what is printed", printed.as_bytes());
    has(&result.err, &["redacted: Pod: ", " environment values"]);
    has(&result.ok()?, &[" values redacted"]);
    let all = files(&folder)?;
    for (name, found) in &all {
        planted.none_in(name, name.as_bytes());
        planted.none_in(name, found);
    }
    let named = |name: &str| {
        let found = all.iter().find(|(it, _)| it.ends_with(name));
        found.map_or_else(|| panic!("no {name}"), |(_, found)| text(found))
    };
    // The diagnostics are there.
    has(
        &named("namespaces/default/core/pods.yaml"),
        &["--registry-token", "name: DATABASE", "image: x"],
    );
    has(
        &named("namespaces/default/kubevirt.io/virtualmachineinstances.yaml"),
        &["cloudInitNoCloud"],
    );
    let index: Value = serde_json::from_str(&named("gather.json"))?;
    let removals = index["redactions"].as_array().cloned().unwrap_or_default();
    let sum: u64 = removals.iter().filter_map(|it| it["count"].as_u64()).sum();
    assert_eq!(index["redacted"].as_u64(), Some(sum), "{index}");
    let has_rule = |kind: &str, rule: &str| {
        let mut all = removals.iter();
        all.any(|it| it["kind"] == kind && it["rule"] == rule)
    };
    for (kind, rule) in [
        ("Pod", "environmentValue"),
        ("Pod", "commandLine"),
        ("Pod", "appliedConfiguration"),
        ("VirtualMachineInstance", "userData"),
        ("Event", "url"),
    ] {
        assert!(has_rule(kind, rule), "{kind} {rule}: {index}");
    }

    run(
        &served.kubeconfig,
        served.folder(),
        &["gather", "--to", "ticket.tar.gz"],
    )
    .await?
    .ok()?;
    let archive = served.folder().join("ticket.tar.gz").display().to_string();
    let unpacked = bytes("tar", &["-xzOf", &archive]).await?;
    planted.none_in("the archive", &unpacked);
    has(&text(&unpacked), &["medley-gather"]);
    Ok(())
}

#[tokio::test]
async fn snapshot_has_no_planted_secret() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let planted = plant(&cluster.client()).await?;

    let result = run(
        &served.kubeconfig,
        served.folder(),
        &["snapshot", "-o", "cluster.gz"],
    )
    .await?;
    let printed = format!("{}{}", result.out, result.err);
    planted.none_in("what is printed", printed.as_bytes());
    has(
        &result.ok()?,
        &["redacted: ConfigMap: ", "values redacted; start a copy"],
    );
    let file = served.folder().join("cluster.gz").display().to_string();
    let snapshot = bytes("gzip", &["-dc", &file]).await?;
    planted.none_in("the snapshot", &snapshot);

    let lines = text(&snapshot);
    let lines: Vec<Value> = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let object = |kind: &str, name: &str| -> Value {
        let mut all = lines.iter().map(|it| &it["object"]);
        let found = all.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.cloned().unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    // Names and sizes are kept, and so are documents that jobs use.
    let map = object("ConfigMap", "of-others");
    assert!(
        map["data"]["plain"]
            .as_str()
            .is_some_and(|it| it.starts_with("<redacted: ") && it.ends_with(" bytes>")),
        "{map}"
    );
    let templates = object("ConfigMap", "data-import-cron-templates");
    let document = &templates["data"]["dataImportCronTemplates.yaml"];
    has(
        document.as_str().unwrap_or_default(),
        &["name: fedora", "<redacted>"],
    );
    assert!(object("Secret", "pull").get("data").is_none());
    let end = lines.last().map(|it| &it["end"]["redactions"]);
    let rules = end.and_then(Value::as_array).map(Vec::len);
    assert!(rules > Some(8), "{end:?}");

    // It is still a valid snapshot: a copy has all of its objects.
    let offline = [
        "plan",
        "--offline",
        "-f",
        "cluster.gz",
        "--profile",
        "example-profile",
    ];
    let result = run(Path::new("/nonexistent"), served.folder(), &offline).await?;
    let printed = format!("{}{}", result.out, result.err);
    has(&printed, &["A copy of a ", "example-config"]);
    Ok(())
}
