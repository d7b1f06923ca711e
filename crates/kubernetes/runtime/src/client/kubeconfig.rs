//! The cluster and user of a kubeconfig, without kube's reading of proxy variables.
//!
//! `kube::Config` reads `HTTPS_PROXY` and `NO_PROXY` while it loads a kubeconfig, by rules of its own, and fails if it
//! cannot parse them. Here `proxy_url` is `proxy-url` of the kubeconfig and nothing else.

use std::io::IsTerminal as _;

use http::Uri;
use kube::Config;
use kube::config::{
    Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode, InClusterError, KubeConfigOptions,
    Kubeconfig, KubeconfigError,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Why there is no configuration of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The kubeconfig cannot be read, or lacks what its context names.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// `certificate-authority` has no certificates.
    #[error("certificate-authority of cluster {cluster:?}: expected certificates in PEM: {why}")]
    Authority {
        /// The name of the cluster.
        cluster: String,
        /// What is wrong with it.
        why: String,
    },
    /// `proxy-url` is not a URL. The value may have a password and is not shown.
    #[error(
        "proxy-url of cluster {cluster:?}: expected http://HOST:PORT, https:// or socks5://: {source}"
    )]
    Proxy {
        /// The name of the cluster.
        cluster: String,
        /// What is wrong with it.
        source: http::uri::InvalidUri,
    },
    /// The credential plugin has to ask the user, and there is no terminal.
    #[error(
        "credential plugin {command:?} has interactiveMode Always, and standard input is no terminal"
    )]
    Interactive {
        /// Its command.
        command: String,
    },
    /// There is no kubeconfig, and this is not a pod with a service account.
    #[error(
        "there is no usable kubeconfig ({kubeconfig}), and this is no pod of a cluster ({pod})"
    )]
    Nowhere {
        /// Why the kubeconfig cannot be used.
        kubeconfig: Box<Self>,
        /// Why the service account cannot be used.
        pod: InClusterError,
    },
}

/// The configuration that kubectl would use: `$KUBECONFIG` or `~/.kube/config`, else the service account of the pod.
pub fn usual() -> Result<Config, ContextError> {
    let mut config = match in_usual_kubeconfig(&KubeConfigOptions::default()) {
        Ok(config) => config,
        Err(kubeconfig) => Config::incluster().map_err(|pod| ContextError::Nowhere {
            kubeconfig: Box::new(kubeconfig),
            pod,
        })?,
    };
    config.apply_debug_overrides();
    Ok(config)
}

/// The configuration of a context in `$KUBECONFIG` or `~/.kube/config`.
pub fn in_usual_kubeconfig(options: &KubeConfigOptions) -> Result<Config, ContextError> {
    in_kubeconfig(&Kubeconfig::read()?, options)
}

/// The configuration of a context of a kubeconfig: the current one unless the options name another.
pub fn in_kubeconfig(
    kubeconfig: &Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, ContextError> {
    let context = options.context.as_ref();
    let name = context
        .or(kubeconfig.current_context.as_ref())
        .ok_or(KubeconfigError::CurrentContextNotSet)?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts
        .find(|it| it.name == *name)
        .and_then(|it| it.context.as_ref())
        .ok_or_else(|| KubeconfigError::LoadContext(name.clone()))?;
    let name = options.cluster.as_ref().unwrap_or(&context.cluster);
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters
        .find(|it| it.name == *name)
        .and_then(|it| it.cluster.as_ref())
        .ok_or_else(|| KubeconfigError::LoadClusterOfContext(name.clone()))?;
    // A missing user is anonymous, as in client-go.
    let user = options.user.as_ref().or(context.user.as_ref());
    let user = user.and_then(|user| {
        let mut users = kubeconfig.auth_infos.iter();
        users.find(|it| it.name == *user)?.auth_info.clone()
    });

    let mut config = of_cluster(name, cluster)?;
    config.auth_info = user.unwrap_or_default();
    if let Some(exec) = &mut config.auth_info.exec {
        if exec.provide_cluster_info {
            exec.cluster = Some(ExecAuthCluster::try_from(cluster)?);
        }
        settle_interaction(exec, std::io::stdin().is_terminal())?;
    }
    if let Some(namespace) = &context.namespace {
        config.default_namespace.clone_from(namespace);
    }
    Ok(config)
}

/// Whether a credential plugin may ask the user, as client-go decides: only at a terminal.
pub(super) fn settle_interaction(
    exec: &mut ExecConfig,
    has_terminal: bool,
) -> Result<(), ContextError> {
    match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => {}
        _ if has_terminal => {}
        Some(ExecInteractiveMode::Always) => {
            return Err(ContextError::Interactive {
                command: exec.command.clone().unwrap_or_default(),
            });
        }
        Some(ExecInteractiveMode::IfAvailable) | None => {
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
    }
    Ok(())
}

/// The configuration of a cluster, without a user.
fn of_cluster(name: &str, cluster: &Cluster) -> Result<Config, ContextError> {
    let server = cluster.server.as_ref();
    let server: Uri = server
        .ok_or(KubeconfigError::MissingClusterUrl)?
        .parse()
        .map_err(KubeconfigError::ParseClusterUrl)?;
    let mut config = Config::new(server);
    // The conversion reads the file that `certificate-authority` names.
    let authority = ExecAuthCluster::try_from(cluster)?.certificate_authority_data;
    if let Some(pem) = authority {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.map_err(|error| ContextError::Authority {
            cluster: name.to_owned(),
            why: error.to_string(),
        })?;
        config.root_cert = Some(certificates.iter().map(|it| it.to_vec()).collect());
    }
    let proxy = cluster.proxy_url.as_deref();
    if let Some(proxy) = proxy.filter(|it| !it.is_empty()) {
        let wrong = |source| ContextError::Proxy {
            cluster: name.to_owned(),
            source,
        };
        config.proxy_url = Some(proxy.parse().map_err(wrong)?);
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    Ok(config)
}
