//! `medley manifests`: everything that a cluster gets, for `kubectl apply`.

use std::collections::BTreeSet;

use ::manifests::{IMAGE, NAMESPACE, Object, Options, Part, PullSecrets, objects};
use anyhow::Context as _;
use clap::Args;
use controllers::Job;
use serde_json::{Value, json};

use crate::exit;
use crate::governance::output::Data;

/// Print everything that a cluster needs to run Medley, for `kubectl apply --server-side -f -`.
///
/// Namespace, kinds, rights, the operator, the admission checks, and who may reach them, in the order in
/// which an empty cluster can take them. Rights are those of the controllers that run. Alerts and what
/// tells Prometheus where metrics are need the kinds of the Prometheus Operator: --monitoring asks for them.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: InstallArguments,

    /// Only these parts, separated by commas: namespace, crds, rbac, operator, webhook, network, monitoring.
    /// [default: all; monitoring with --monitoring]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,

    /// Form of the output; YAML if absent, JSON is one list.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

/// What can be chosen of an installation.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and none excludes another"
)]
pub(crate) struct InstallArguments {
    /// The namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,

    /// The image of the operator and of the admission checks.
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,

    /// How many operators there are. One works, the others wait to take over.
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().replicas)]
    replicas: u32,

    /// The controllers to run, separated by commas, as `medley run` names them.
    /// [default: governance, cpu-models, release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<Job>>,

    /// Profiles of governance to switch on that are off otherwise, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_profile: Vec<String>,

    /// Let the operator keep the ClusterVersion: only where no cluster version operator does.
    #[arg(long)]
    release_owner: bool,

    /// Let the operator read releases that are kept as ConfigMaps in openshift-cluster-version, by a Role there. The
    /// namespace has to exist.
    #[arg(long)]
    release_payloads: bool,

    /// Pull secrets that placement may read: those that pods and their service accounts name (pods), none, or those that
    /// policies name, as NAMESPACE/NAME separated by commas. Only pods needs get on all Secrets.
    #[arg(long, value_name = "SECRETS", default_value = "pods")]
    pull_secrets: PullSecrets,

    /// Serve the web console, behind the Service medley-console.
    #[arg(long)]
    console: bool,

    /// Names that browsers reach the console by, separated by commas, over TLS that an ingress or a route ends.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "console"
    )]
    console_host: Vec<String>,

    /// Common names of the client certificates that API servers present to webhooks, separated by commas.
    /// [default: those that kube-system/extension-apiserver-authentication allows for proxies]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    client_name: Vec<String>,

    /// Have the admission checks refuse callers without such a certificate. Only where API servers present one to
    /// webhooks: otherwise all reviews fail.
    #[arg(long)]
    require_client_cert: bool,

    /// Networks that API servers come from, separated by commas: no other address reaches the admission checks.
    /// [default: every address]
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    api_server_cidr: Vec<String>,

    /// Tell the Prometheus Operator of metrics and alerts. Its kinds have to be in the cluster.
    #[arg(long)]
    monitoring: bool,
}

impl InstallArguments {
    /// What was chosen, with defaults for the rest.
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

/// Prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut options = arguments.install.options();
    let only: BTreeSet<Part> = arguments.only.iter().copied().collect();
    // Whoever names it wants it.
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
