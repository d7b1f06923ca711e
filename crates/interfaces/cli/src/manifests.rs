//! `medley manifests`: the installation manifests.

use std::collections::BTreeSet;

use ::manifests::{ConsoleOidc, IMAGE, NAMESPACE, Options, Part, PullSecrets, objects};
use anyhow::Context as _;
use clap::Args;
use controllers::Job;
use serde_json::Value;

use crate::exit;
use crate::output::{Data, list};
use crate::service::jobs;

/// Print the manifests to install Medley, for `kubectl apply --server-side -f -`.
///
/// Prints the namespace, CRDs, RBAC, the operator, admission webhooks and network policies, in an
/// order that an empty cluster accepts. RBAC grants only what the enabled controllers need.
/// --monitoring adds ServiceMonitors and alerts, which need the CRDs of the Prometheus Operator.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: InstallArguments,

    /// Comma-separated parts to print: namespace, crds, rbac, operator, webhook, network,
    /// monitoring.
    /// [default: all, but monitoring only with --monitoring]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,

    /// Output format; json prints one List.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Data,
}

/// Options of an installation.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and none excludes another"
)]
pub(crate) struct InstallArguments {
    /// Namespace to install to.
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,

    /// Image of the operator and of the admission webhooks.
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,

    /// Number of operator replicas. One leads; the others stand by.
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().replicas)]
    replicas: u32,

    /// Comma-separated controllers to run, as in `medley run`.
    /// [default: governance, cpu-models, release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<Job>>,

    /// Comma-separated governance profiles to enable besides the default ones.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_profile: Vec<String>,

    /// Let the operator manage the ClusterVersion. Use this only where no cluster version operator
    /// runs.
    #[arg(long)]
    release_owner: bool,

    /// Grant the operator a Role to read releases that are kept as ConfigMaps in
    /// openshift-cluster-version. The namespace has to exist.
    #[arg(long)]
    release_payloads: bool,

    /// Grant a Role to read the CA certificates of OpenShift's proxy and registries, which are
    /// ConfigMaps in openshift-config. The namespace has to exist.
    #[arg(long)]
    openshift_config: bool,

    /// Install on OpenShift: adds SecurityContextConstraints for importer pods, a Route and a menu
    /// entry for the console if it has host names, certificates of the service CA for metrics, and
    /// the marks of cluster monitoring and workload partitioning. Implies --openshift-config.
    #[arg(long)]
    openshift: bool,

    /// Pull secrets that placement may read: those of pods and their service accounts (pods), which
    /// grants get on all Secrets; none; or comma-separated NAMESPACE/NAME of those that policies
    /// name.
    #[arg(long, value_name = "SECRETS", default_value = "pods")]
    pull_secrets: PullSecrets,

    /// Serve the web console, behind the Service medley-console.
    #[arg(long)]
    console: bool,

    /// Comma-separated host names of the console, behind an ingress or route that terminates TLS, or
    /// with --console-tls.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(requires = "console")]
    console_host: Vec<String>,

    /// Serve the console with the certificate in Secret medley-console-tls, which has to exist. On
    /// OpenShift it is created.
    #[arg(long, requires = "console")]
    console_tls: bool,

    /// Let users of the console sign in at this OpenID Connect provider. Secret medley-console-oidc
    /// has the client-secret; an empty one for a public client.
    #[arg(long, value_name = "URL", requires_all = ["console", "console_oidc_client_id"])]
    console_oidc_issuer: Option<String>,

    /// Client ID of the console at the OpenID Connect provider.
    #[arg(long, value_name = "ID", requires = "console_oidc_issuer")]
    console_oidc_client_id: Option<String>,

    /// Trust the CA certificates in Secret medley-console-oidc (ca.crt) for the OpenID Connect
    /// provider, instead of the system's.
    #[arg(long, requires = "console_oidc_issuer")]
    console_oidc_ca: bool,

    /// Comma-separated common names of the client certificates that API servers present to
    /// webhooks.
    /// [default: those that kube-system/extension-apiserver-authentication allows for proxies]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    client_name: Vec<String>,

    /// Make the admission webhooks reject callers without such a certificate. Use this only if API
    /// servers present client certificates to webhooks; otherwise all reviews fail.
    #[arg(long)]
    require_client_cert: bool,

    /// Comma-separated networks of the API servers; the network policy admits no other address to
    /// the webhooks.
    /// [default: all addresses]
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    api_server_cidr: Vec<String>,

    /// Environment variable of the operator and the webhooks, such as
    /// HTTPS_PROXY=http://proxy.example.com:3128. Can be repeated. They are kept in the Secret
    /// medley-environment.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,

    /// Add ServiceMonitors and alerts for the Prometheus Operator, whose CRDs have to be installed.
    #[arg(long)]
    monitoring: bool,
}

impl InstallArguments {
    /// The options, with defaults.
    pub(crate) fn options(&self) -> Options {
        Options {
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            replicas: self.replicas,
            jobs: jobs(self.controllers.as_ref()),
            profiles: self.enable_profile.iter().cloned().collect(),
            release_owner: self.release_owner,
            release_payloads: self.release_payloads,
            openshift_config: self.openshift_config,
            openshift: self.openshift,
            pull_secrets: self.pull_secrets.clone(),
            console: self.console,
            console_hosts: self.console_host.clone(),
            console_tls: self.console_tls,
            console_oidc: self.console_oidc_issuer.clone().map(|issuer| ConsoleOidc {
                issuer,
                client_id: self.console_oidc_client_id.clone().unwrap_or_default(),
                has_ca: self.console_oidc_ca,
            }),
            monitoring: self.monitoring,
            client_names: self.client_name.clone(),
            require_client_cert: self.require_client_cert,
            environment: self.environment.iter().cloned().collect(),
            api_server_cidrs: self.api_server_cidr.clone(),
        }
    }
}

/// `NAME=VALUE`. The value may contain a password and is not repeated in errors.
fn variable(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut options = arguments.install.options();
    let only: BTreeSet<Part> = arguments.only.iter().copied().collect();
    // `--only monitoring` implies `--monitoring`.
    options.monitoring |= only.contains(&Part::Monitoring);
    let mut objects = objects(&options)?;
    objects.retain(|object| only.is_empty() || only.contains(&object.part));
    let objects: Vec<Value> = objects.into_iter().map(|it| it.value).collect();
    if arguments.output == Data::Json {
        return exit::print(&Data::Json.write(&list(&objects))?);
    }
    for object in &objects {
        let object = Data::Yaml.write(object).context("writing the manifests")?;
        exit::print(&format!("---\n{}\n", object.trim_end()))?;
    }
    Ok(())
}
