//! `medley manifests`: the installation manifests.

use std::collections::BTreeSet;

use ::manifests::{IMAGE, NAMESPACE, Object, Options, Part, PullSecrets, objects};
use anyhow::Context as _;
use clap::Args;
use controllers::Job;
use serde_json::{Value, json};

use crate::exit;
use crate::governance::output::Data;

/// Print the manifests to install Medley, for `kubectl apply --server-side -f -`.
///
/// Namespace, CRDs, RBAC, the operator, admission webhooks and network policies, in an order that
/// an empty cluster accepts. RBAC rules are those of the controllers that run. ServiceMonitors and
/// alerts need the CRDs of the Prometheus Operator: --monitoring adds them.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: InstallArguments,

    /// Only these parts, separated by commas: namespace, crds, rbac, operator, webhook, network,
    /// monitoring.
    /// [default: all; monitoring with --monitoring]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,

    /// Output format; YAML by default, JSON is one List.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

/// Options of an installation.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and none excludes another"
)]
pub(crate) struct InstallArguments {
    /// The namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,

    /// The image of the operator and of the admission webhooks.
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,

    /// Number of operator replicas. One leads, the others stand by.
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().replicas)]
    replicas: u32,

    /// The controllers to run, separated by commas, as in `medley run`.
    /// [default: governance, cpu-models, release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<Job>>,

    /// Governance profiles to enable that are off by default, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_profile: Vec<String>,

    /// Let the operator manage the ClusterVersion: only where no cluster version operator does.
    #[arg(long)]
    release_owner: bool,

    /// Let the operator read releases that are kept as ConfigMaps in openshift-cluster-version, by
    /// a Role there. The namespace has to exist.
    #[arg(long)]
    release_payloads: bool,

    /// Pull secrets that placement may read: those that pods and their service accounts name
    /// (pods), none, or those that policies name, as NAMESPACE/NAME separated by commas. Only pods
    /// needs get on all Secrets.
    #[arg(long, value_name = "SECRETS", default_value = "pods")]
    pull_secrets: PullSecrets,

    /// Serve the web console, behind the Service medley-console.
    #[arg(long)]
    console: bool,

    /// Host names of the console, separated by commas, behind an ingress or route that terminates
    /// TLS.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "console"
    )]
    console_host: Vec<String>,

    /// Common names of the client certificates that API servers present to webhooks, separated by
    /// commas.
    /// [default: those that kube-system/extension-apiserver-authentication allows for proxies]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    client_name: Vec<String>,

    /// Make the admission webhooks reject callers without such a certificate. Only where API
    /// servers present one to webhooks: otherwise all reviews fail.
    #[arg(long)]
    require_client_cert: bool,

    /// Networks of the API servers, separated by commas: no other address can reach the admission
    /// webhooks.
    /// [default: every address]
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    api_server_cidr: Vec<String>,

    /// Add ServiceMonitors and alerts for the Prometheus Operator. Its CRDs have to be installed.
    #[arg(long)]
    monitoring: bool,
}

impl InstallArguments {
    /// The options, with defaults.
    pub(crate) fn options(&self) -> Options {
        let standard = || Job::STANDARD.iter().copied().collect();
        let named = |jobs: &Vec<Job>| jobs.iter().copied().collect();
        Options {
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            replicas: self.replicas,
            jobs: self.controllers.as_ref().map_or_else(standard, named),
            profiles: self.enable_profile.iter().cloned().collect(),
            release_owner: self.release_owner,
            release_payloads: self.release_payloads,
            pull_secrets: self.pull_secrets.clone(),
            console: self.console,
            console_hosts: self.console_host.clone(),
            monitoring: self.monitoring,
            client_names: self.client_name.clone(),
            require_client_cert: self.require_client_cert,
            api_server_cidrs: self.api_server_cidr.clone(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut options = arguments.install.options();
    let only: BTreeSet<Part> = arguments.only.iter().copied().collect();
    // `--only monitoring` implies `--monitoring`.
    options.monitoring |= only.contains(&Part::Monitoring);
    let mut objects = objects(&options)?;
    objects.retain(|object| only.is_empty() || only.contains(&object.part));
    exit::print(&text(objects, arguments.output.unwrap_or(Data::Yaml))?)
}

fn text(objects: Vec<Object>, form: Data) -> anyhow::Result<String> {
    let objects: Vec<Value> = objects.into_iter().map(|it| it.value).collect();
    match form {
        Data::Json => form.write(&json!({ "apiVersion": "v1", "kind": "List", "items": objects })),
        Data::Yaml => {
            let mut text = String::new();
            for object in &objects {
                text.push_str("---\n");
                let object = form.write(object).context("writing the manifests")?;
                text.push_str(object.trim_end());
                text.push('\n');
            }
            Ok(text)
        }
    }
}
