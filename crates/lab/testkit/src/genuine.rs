//! etcd, kube-apiserver and kube-controller-manager as child processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use apiserver::auth::MASTERS;
use apiserver::kubeconfig;
use apiserver::pki::Authority;
use base64::Engine as _;
use http::Request;
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use crate::cluster::WEBHOOK_CALLER;
use crate::process::{Process, free_port};
use crate::remote::Remote;
use crate::served::ServedCluster;
use crate::wait::wait_until;

/// The binary of the controllers.
const CONTROLLERS: &str = "kube-controller-manager";
/// Who the server is for aggregated APIs.
const FRONT_PROXY: &str = "front-proxy-client";
/// Startup timeout: seconds are enough on an idle host, but test hosts are loaded.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Whether etcd syncs its writes to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Synced, as in a cluster.
    On,
    /// Not synced, which is faster; data of tests need not survive them.
    Off,
}

/// The processes. Fields drop in order: each process before those it depends on, and the folder
/// last.
pub(crate) struct Genuine {
    pub(crate) remote: Remote,
    url: String,
    kubeconfig: String,
    authority: Authority,
    controllers: Option<Process>,
    server: Process,
    etcd: Process,
    _folder: TempDir,
}

/// The folder with the upstream binaries, if `KUBEBUILDER_ASSETS` names one.
pub(crate) fn assets() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    ["etcd", "kube-apiserver"]
        .iter()
        .all(|name| folder.join(name).is_file())
        .then_some(folder)
}

impl Genuine {
    /// Starts etcd and the server. With `controlled`, the server relies on controllers as in a
    /// cluster, and kube-controller-manager runs if its binary is there.
    pub(crate) async fn start(
        assets: &Path,
        sync: Fsync,
        controlled: bool,
    ) -> anyhow::Result<Self> {
        let folder = TempDir::new().context("making a folder for a control plane")?;
        let (etcd, etcd_url) = start_etcd(assets, folder.path(), sync).await?;
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let authority = write_keys(folder.path())?;
        write_admission_configuration(folder.path(), &authority)?;
        let arguments = server_arguments(&etcd_url, port, controlled);
        let mut server = Process::start(&assets.join("kube-apiserver"), arguments, folder.path())?;
        let admin = authority
            .client("admin", MASTERS)
            .context("making a certificate")?;
        let kubeconfig = kubeconfig::kubeconfig(&url, authority.certificate(), &admin);
        let remote = Remote::new(&kubeconfig).await?;
        // The default namespace is created shortly after the server reports ready.
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            wait_until(
                &format!("kube-apiserver answers {path}"),
                START_TIMEOUT,
                || {
                    let (remote, checked) = (remote.clone(), server.check());
                    async move {
                        checked?;
                        let request = Request::get(path)
                            .body(Body::empty())
                            .context("a request")?;
                        let answer = remote.oneshot(request).await;
                        Ok(answer
                            .ok()
                            .filter(|answer| answer.status().is_success())
                            .map(drop))
                    }
                },
            )
            .await?;
        }
        let controllers = match assets.join(CONTROLLERS) {
            program if controlled && program.is_file() => {
                Some(start_controllers(&program, &kubeconfig, folder.path())?)
            }
            _ => None,
        };
        Ok(Self {
            remote,
            url,
            kubeconfig,
            authority,
            controllers,
            server,
            etcd,
            _folder: folder,
        })
    }

    pub(crate) fn process_ids(&self) -> Vec<u32> {
        let controllers = self.controllers.as_ref().map(Process::id);
        let others = [self.server.id(), self.etcd.id()];
        others.into_iter().chain(controllers).collect()
    }

    /// Whether kube-controller-manager runs.
    pub(crate) fn has_controllers(&self) -> bool {
        self.controllers.is_some()
    }

    pub(crate) fn root_ca(&self) -> &str {
        self.authority.certificate()
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn serve(&self) -> anyhow::Result<ServedCluster> {
        let folder = TempDir::new().context("making a folder for a kubeconfig")?;
        let path = folder.path().join("kubeconfig");
        kubeconfig::write(&path, &self.kubeconfig).context("writing a kubeconfig")?;
        Ok(ServedCluster {
            url: self.url.clone(),
            kubeconfig: path,
            folder,
            _stop: None,
        })
    }
}

/// Starts etcd with envtest's flags.
async fn start_etcd(
    assets: &Path,
    folder: &Path,
    sync: Fsync,
) -> anyhow::Result<(Process, String)> {
    let port = free_port()?;
    let url = format!("http://127.0.0.1:{port}");
    let mut arguments = vec![
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--data-dir=etcd".to_owned(),
    ];
    if sync == Fsync::Off {
        arguments.push("--unsafe-no-fsync".to_owned());
    }
    let mut etcd = Process::start(&assets.join("etcd"), arguments, folder)?;
    wait_until("etcd listens", START_TIMEOUT, || {
        let checked = etcd.check();
        async move {
            checked?;
            Ok(TcpStream::connect(("127.0.0.1", port)).await.ok())
        }
    })
    .await?;
    Ok((etcd, url))
}

/// Certificates for the server and its clients, and a key for service account tokens.
fn write_keys(folder: &Path) -> anyhow::Result<Authority> {
    let authority = Authority::generate().context("making keys")?;
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let server = authority.server(&names).context("making a certificate")?;
    let tokens = rcgen::KeyPair::generate().context("making a token key")?;
    let proxy = authority.client(FRONT_PROXY, "tests");
    let proxy = proxy.context("making a certificate")?;
    for (name, content) in [
        ("ca.crt", authority.certificate()),
        ("server.crt", &server.certificate),
        ("server.key", &server.key),
        ("sa.key", &tokens.serialize_pem()),
        ("sa.pub", &tokens.public_key_pem()),
        ("front-proxy.crt", &proxy.certificate),
        ("front-proxy.key", &proxy.key),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(authority)
}

/// Makes the server present a client certificate to every webhook that requests one.
fn write_admission_configuration(folder: &Path, authority: &Authority) -> anyhow::Result<()> {
    let identity = authority.client(WEBHOOK_CALLER, "tests");
    let identity = identity.context("making a certificate")?;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let kubeconfig = folder.join("webhooks.kubeconfig");
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"].map(|name| {
        json!({
            "name": name,
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": kubeconfig,
            },
        })
    });
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins,
    });
    let users = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{
            "name": "*",
            "user": {
                "client-certificate-data": encoded(&identity.certificate),
                "client-key-data": encoded(&identity.key),
            },
        }],
    });
    for (path, content) in [
        (folder.join("admission.json"), configuration),
        (kubeconfig, users),
    ] {
        std::fs::write(&path, content.to_string())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Starts kube-controller-manager with the minimum of flags.
fn start_controllers(program: &Path, kubeconfig: &str, folder: &Path) -> anyhow::Result<Process> {
    let path = folder.join("kubeconfig");
    kubeconfig::write(&path, kubeconfig).context("writing a kubeconfig")?;
    let arguments = [
        "--kubeconfig=kubeconfig",
        "--service-account-private-key-file=sa.key",
        "--root-ca-file=ca.crt",
        "--leader-elect=false",
        "--secure-port=0",
    ];
    Process::start(program, arguments, folder)
}

fn server_arguments(etcd: &str, port: u16, controlled: bool) -> Vec<OsString> {
    let mut arguments = vec![
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--tls-cert-file=server.crt".to_owned(),
        "--tls-private-key-file=server.key".to_owned(),
        "--client-ca-file=ca.crt".to_owned(),
        "--service-account-key-file=sa.pub".to_owned(),
        "--service-account-signing-key-file=sa.key".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--cert-dir=.".to_owned(),
        "--admission-control-config-file=admission.json".to_owned(),
        // As in every cluster with aggregated APIs: operators that serve one, or webhooks, end without it.
        "--requestheader-client-ca-file=ca.crt".to_owned(),
        format!("--requestheader-allowed-names={FRONT_PROXY},{WEBHOOK_CALLER}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--proxy-client-cert-file=front-proxy.crt".to_owned(),
        "--proxy-client-key-file=front-proxy.key".to_owned(),
    ];
    if !controlled {
        // Without its controller pods would wait for their service account.
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    arguments.into_iter().map(OsString::from).collect()
}
