//! A real registry: Debian's `docker-registry` on a free port of the loopback address, with images
//! pushed by `skopeo`.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::process::{Process, free_port};
use crate::wait::wait_until;

/// User name for registries with authentication.
pub const USERNAME: &str = "tester";

/// The password of [`USERNAME`].
pub const PASSWORD: &str = "hunter2";

/// The password hashed for `htpasswd` (bcrypt, the only scheme the registry accepts).
pub(crate) const HASHED: &str = "$2b$04$qFaRk98n2fFqqdMgI/7vNOEBe8X1QzjvtzglfErIERYwdY6JHvZGe";

/// Both, as in a basic authentication header.
const BASIC: &str = "dGVzdGVyOmh1bnRlcjI=";

/// Media type of an index.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Name of the configuration file in the folder of a registry.
const CONFIGURATION: &str = "config.yml";

/// Startup timeout of a registry.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Configuration of a registry.
#[derive(Debug, Clone, Default)]
pub struct RegistryOptions {
    /// Whether it requires [`USERNAME`] and [`PASSWORD`].
    pub password: bool,
    /// Certificate and key in PEM, to serve TLS.
    pub tls: Option<(String, String)>,
}

/// A registry, which stops with the test.
#[derive(Debug)]
pub struct Registry {
    /// `None` while it is killed.
    process: Option<Process>,
    folder: TempDir,
    port: u16,
    options: RegistryOptions,
}

/// Starts the process of a registry, and waits until it listens.
async fn start(folder: &TempDir, port: u16) -> anyhow::Result<Process> {
    let file = folder.path().join(CONFIGURATION);
    let program = Path::new("docker-registry");
    let arguments = [Path::new("serve"), &file];
    let mut process = Process::start(program, arguments, folder.path())
        .context("the tests need docker-registry (Debian package docker-registry)")?;
    let listening = wait_until("a registry that listens", START_TIMEOUT, || async move {
        Ok(TcpStream::connect(("127.0.0.1", port)).await.ok())
    });
    if let Err(error) = listening.await {
        process.check()?;
        return Err(error);
    }
    Ok(process)
}

impl Registry {
    /// Starts a registry without authentication and TLS.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(RegistryOptions::default()).await
    }

    /// Starts a registry.
    pub async fn start_with(options: RegistryOptions) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("creating a folder for a registry")?;
        let port = free_port()?;
        let path = |name: &str| folder.path().join(name);
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info"},
            "storage": {
                "filesystem": {"rootdirectory": path("data")},
                "delete": {"enabled": true},
            },
            "http": {"addr": format!("127.0.0.1:{port}")},
        });
        if options.password {
            std::fs::write(path("htpasswd"), format!("{USERNAME}:{HASHED}\n"))?;
            config["auth"] = json!({"htpasswd": {"realm": "tests", "path": path("htpasswd")}});
        }
        if let Some((certificate, key)) = &options.tls {
            std::fs::write(path("tls.crt"), certificate)?;
            std::fs::write(path("tls.key"), key)?;
            config["http"]["tls"] = json!({"certificate": path("tls.crt"), "key": path("tls.key")});
        }
        // JSON is YAML.
        std::fs::write(path(CONFIGURATION), config.to_string())?;
        Ok(Self {
            process: Some(start(&folder, port).await?),
            folder,
            port,
            options,
        })
    }

    /// Kills the process; its content and its port are kept for [`Self::restart`].
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the registry again after it was killed. Its log begins anew.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process = Some(start(&self.folder, self.port).await?);
        Ok(())
    }

    /// Host and port, as in image references.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The folder with its blobs and manifests.
    pub fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data/docker/registry/v2")
    }

    /// Pushes a complete image, from any source that `skopeo` reads (`oci:/folder:name`), under a
    /// name such as `disks/fedora:41`.
    pub fn push(&self, from: &str, name: &str) -> anyhow::Result<()> {
        let mut command = Command::new("skopeo");
        command.args([
            "--insecure-policy",
            "copy",
            "--quiet",
            "--all",
            // Otherwise skopeo compresses layers, and the digests differ from the pushed ones.
            "--preserve-digests",
            "--dest-tls-verify=false",
        ]);
        if self.options.password {
            command.arg(format!("--dest-creds={USERNAME}:{PASSWORD}"));
        }
        let output = command
            .arg(from)
            .arg(format!("docker://{}/{name}", self.host()))
            .output()
            .context("the tests need skopeo (Debian package skopeo)")?;
        if !output.status.success() {
            bail!(
                "pushing {from} as {name}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// Puts an index under a name such as `disks:41`, byte for byte: `skopeo` does not push indexes
    /// of indexes. Its entries have to be in the repository already.
    pub fn put_index(&self, name: &str, index: &[u8]) -> anyhow::Result<()> {
        let (repository, tag) = name.rsplit_once(':').context("a name with a tag")?;
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port))?;
        let authorization = if self.options.password {
            format!("Authorization: Basic {BASIC}\r\n")
        } else {
            String::new()
        };
        let head = format!(
            "PUT /v2/{repository}/manifests/{tag} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{authorization}Content-Type: {INDEX}\r\nContent-Length: {}\r\n\r\n",
            self.host(),
            index.len(),
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(index)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if !answer.starts_with("HTTP/1.1 201") {
            bail!("putting an index as {name}: {answer}");
        }
        Ok(())
    }

    /// All requests so far, as `GET /v2/...`, in order, including those of pushes.
    pub fn requests(&self) -> Vec<String> {
        let answers = self.answers().into_iter();
        answers.map(|(request, _)| request).collect()
    }

    /// The same, with the status code of each response: 401 without valid credentials.
    pub fn answers(&self) -> Vec<(String, u16)> {
        let output = self.process.as_ref().map(Process::output);
        output
            .unwrap_or_default()
            .lines()
            .filter_map(|line| {
                // The access log: address, names, time, then the request in quotes.
                let (request, rest) = line.split_once("] \"")?.1.split_once('"')?;
                let (request, _) = request.rsplit_once(" HTTP/")?;
                let status = rest.split_whitespace().next()?.parse().ok()?;
                Some((request.to_owned(), status))
            })
            .collect()
    }
}
