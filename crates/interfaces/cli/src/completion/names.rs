//! Names of objects and kubeconfig entries as completion candidates.
//!
//! The cluster is asked with the connection flags of the incomplete command line. A shell waits for the answer, so there is
//! a short limit, and every failure means no candidates: an error would be printed into the user's prompt.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use api::advisor::VirtPlatformConfig;
use api::cdi::DataSource;
use api::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::openshift::ClusterOperator;
use api::ssp::GOLDEN_NAMESPACE;
use clap::{Arg, ArgMatches, Command, FromArgMatches as _};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::config::Kubeconfig;
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};

use crate::cluster::ClusterArguments;
use crate::process;

/// How long a shell waits.
const TIMEOUT: Duration = Duration::from_secs(2);
/// More candidates than this help no user to choose.
const LIMIT: u32 = 500;

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Contexts,
    Clusters,
    Users,
    Namespaces,
    Nodes,
    Configs,
    Images,
    VirtualMachines,
    Pods,
    ClusterOperators,
}

impl Named {
    /// What the argument of a command names; `path` is the command without the program.
    pub(super) fn of(path: &[&str], argument: &Arg) -> Option<Self> {
        let id = argument.get_id().as_str();
        let positional = argument.is_positional();
        match (path, id) {
            (["fleet", ..], "nodes" | "names" | "like") => Some(Self::Nodes),
            (["up" | "apiserver" | "envtest" | "fleet", ..], _) => None,
            (_, "context") => Some(Self::Contexts),
            (_, "cluster") => Some(Self::Clusters),
            (_, "user") => Some(Self::Users),
            (_, "namespace" | "history_namespace" | "operator_namespace") => Some(Self::Namespaces),
            (_, "node" | "remove_node") => Some(Self::Nodes),
            (["images", "import", ..], _) => None,
            (["images", ..], "name") if positional => Some(Self::Images),
            (["cpu", "explain"], "name") if positional => Some(Self::VirtualMachines),
            (["place", "explain"], "pod") | (["place", "release"], "pods") => Some(Self::Pods),
            (["release", "explain"], "operator") => Some(Self::ClusterOperators),
            (
                [
                    "plan" | "diff" | "approve" | "reject" | "rollback" | "history" | "adopt"
                    | "explain" | "eject",
                ],
                "name",
            ) => Some(Self::Configs),
            _ => None,
        }
    }

    /// The names that exist, for the command line so far.
    pub(super) fn list(self, command: &Command, words: &[String]) -> Vec<String> {
        let line = std::iter::once(command.get_name().to_owned()).chain(words.iter().cloned());
        let lenient = command.clone().ignore_errors(true);
        let Ok(matches) = lenient.try_get_matches_from(line) else {
            return Vec::new();
        };
        let mut innermost = &matches;
        while let Some((_, inner)) = innermost.subcommand() {
            innermost = inner;
        }
        match self {
            Self::Contexts | Self::Clusters | Self::Users => self.in_kubeconfig(innermost),
            _ => self.in_cluster(innermost),
        }
    }

    fn in_kubeconfig(self, matches: &ArgMatches) -> Vec<String> {
        let path = matches.try_get_one::<PathBuf>("kubeconfig").ok().flatten();
        let read = match path {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let Ok(read) = read else {
            return Vec::new();
        };
        match self {
            Self::Contexts => read.contexts.into_iter().map(|it| it.name).collect(),
            Self::Clusters => read.clusters.into_iter().map(|it| it.name).collect(),
            _ => read.auth_infos.into_iter().map(|it| it.name).collect(),
        }
    }

    fn in_cluster(self, matches: &ArgMatches) -> Vec<String> {
        // The ids that clap has to know, or else it panics.
        if matches.try_contains_id("request_timeout").is_err() {
            return Vec::new();
        }
        let Ok(cluster) = ClusterArguments::from_arg_matches(matches) else {
            return Vec::new();
        };
        let one = |id: &str| matches.try_get_one::<String>(id).ok().flatten().cloned();
        let namespace = one("namespace");
        let Ok(runtime) = process::build_runtime() else {
            return Vec::new();
        };
        let listing = async {
            let client = cluster.client().await.ok()?;
            Some(self.read(&client, namespace).await)
        };
        let listed = runtime.block_on(async { tokio::time::timeout(TIMEOUT, listing).await });
        // Do not wait for a credential plugin that hangs.
        runtime.shutdown_background();
        listed.ok().flatten().unwrap_or_default()
    }

    async fn read(self, client: &Client, namespace: Option<String>) -> Vec<String> {
        let kinds = match self {
            Self::Namespaces => vec![ApiResource::erase::<Namespace>(&())],
            Self::Nodes => vec![ApiResource::erase::<Node>(&())],
            Self::Configs => vec![ApiResource::erase::<VirtPlatformConfig>(&())],
            Self::Images => vec![ApiResource::erase::<DataSource>(&())],
            Self::VirtualMachines => vec![
                ApiResource::erase::<VirtualMachineInstance>(&()),
                ApiResource::erase::<VirtualMachine>(&()),
            ],
            Self::Pods => vec![ApiResource::erase::<Pod>(&())],
            Self::ClusterOperators => vec![ApiResource::erase::<ClusterOperator>(&())],
            Self::Contexts | Self::Clusters | Self::Users => Vec::new(),
        };
        let namespace = match self {
            Self::Images => Some(namespace.unwrap_or_else(|| GOLDEN_NAMESPACE.to_owned())),
            Self::Pods | Self::VirtualMachines => {
                Some(namespace.unwrap_or_else(|| client.default_namespace().to_owned()))
            }
            _ => None,
        };
        let mut names = BTreeSet::new();
        for kind in kinds {
            let api: Api<DynamicObject> = match &namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
                None => Api::all_with(client.clone(), &kind),
            };
            // Metadata only: Pods and Nodes are large.
            let listed = api.list_metadata(&ListParams::default().limit(LIMIT)).await;
            names.extend(listed.iter().flatten().map(ResourceExt::name_any));
        }
        names.into_iter().collect()
    }
}
