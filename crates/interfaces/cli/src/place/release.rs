//! `medley place release`: removes the scheduling gate of pods.
//!
//! For pods that neither a controller nor the webhook releases any more, for example because both were uninstalled. It
//! needs only the user's own permissions: list and patch pods.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use clap::Args;
use edits::{gated_pods, release_pod};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use machinery::time::human_duration;
use placement::names;

use crate::cluster::ClusterArguments;
use crate::governance::configs::MANAGER;
use crate::images::change::ChangeArguments;
use crate::output::{ConfirmArguments, plural, remark, table};
use crate::{exit, process};

/// Release pods from the scheduling gate of placement.
///
/// The pods keep their other constraints and get no node affinity: the scheduler may choose nodes that cannot run their
/// images. A running operator releases pods by itself, and the webhook does if no operator is running; this command is
/// for clusters where neither is left. It needs permission to list and patch pods, and no part of Medley.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Names of pods, in the namespace of -n or that of the kubeconfig context.
    #[arg(value_name = "POD", required_unless_present = "all")]
    pods: Vec<String>,

    /// Release all gated pods: of the namespace of -n, or of the cluster.
    #[arg(long, conflicts_with = "pods")]
    all: bool,

    /// Namespace of the pods.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    confirm: ConfirmArguments,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let pods = arguments.selected(&client).await?;
        if pods.is_empty() {
            remark(&format!("No pod is held at the gate {}.", names::GATE));
            return Ok(());
        }
        let change = &arguments.change;
        let is_changed = change.is_sent() && !change.is_tried();
        if is_changed && !arguments.confirm.yes {
            exit::print(&preview(&pods))?;
            let (count, s) = (pods.len(), plural(pods.len()));
            arguments
                .confirm
                .ask(&format!("Release {count} pod{s} to any node?"))?;
        }
        let mut failed = 0;
        for pod in &pods {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let released = if change.is_sent() {
                release_pod(&client, pod, (MANAGER, change.is_tried())).await
            } else {
                Ok(true)
            };
            match released {
                Ok(true) => exit::print(&format!(
                    "pod/{name} of namespace {namespace} released{}\n",
                    change.suffix()
                ))?,
                Ok(false) => remark(&format!(
                    "pod/{name} of namespace {namespace} is gone, or was released in the meantime"
                )),
                // The others are released nevertheless: one pod that an admission policy protects must not hold them.
                Err(error) => {
                    failed += 1;
                    remark(&format!("error: {error}"));
                }
            }
        }
        if failed > 0 {
            bail!("{failed} of {} pods could not be released", pods.len());
        }
        Ok(())
    })
}

impl Arguments {
    /// The gated pods that the arguments name.
    async fn selected(&self, client: &Client) -> anyhow::Result<Vec<Pod>> {
        if self.all {
            return Ok(gated_pods(client, self.namespace.as_deref()).await?);
        }
        let namespace = self.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        let mut gated = gated_pods(client, Some(namespace)).await?;
        let wanted: BTreeSet<&str> = self.pods.iter().map(String::as_str).collect();
        gated.retain(|pod| wanted.contains(pod.name_any().as_str()));
        let found: BTreeSet<String> = gated.iter().map(ResourceExt::name_any).collect();
        match wanted.into_iter().find(|name| !found.contains(*name)) {
            None => Ok(gated),
            Some(name) => Err(anyhow!(
                "no pod {name} is held at the gate {} in namespace {namespace}; --all releases every pod that is",
                names::GATE
            )),
        }
    }
}

fn preview(pods: &[Pod]) -> String {
    let now = Timestamp::now();
    let rows = pods.iter().map(|pod| {
        let why = pod.annotations().get(names::WHY);
        let made = pod.metadata.creation_timestamp.as_ref();
        let age = made.map(|made| human_duration(now.duration_since(made.0)));
        [
            pod.namespace().unwrap_or_default(),
            pod.name_any(),
            age.unwrap_or_default(),
            why.cloned().unwrap_or_default(),
        ]
    });
    table(&["NAMESPACE", "NAME", "AGE", "WHY"], rows)
}
