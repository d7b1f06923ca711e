//! The welcome text of `medley up`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use api::node;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use super::cluster::Cluster;
use super::console::Running;
use crate::lab::embedded::Embedded;

/// Address of the cluster, its nodes, and what to try next.
pub(crate) async fn text(
    embedded: &Embedded,
    cluster: &Cluster,
    console: Option<&Running>,
) -> anyhow::Result<String> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let nodes = nodes
        .list(&ListParams::default())
        .await
        .context("listing the nodes")?
        .items;
    let mut text = format!(
        "Medley is up at {} with {}.\n",
        embedded.url(),
        fleet(&nodes)
    );
    // Writing to a string cannot fail.
    if let Some(registry) = cluster.registry() {
        let _ = writeln!(
            text,
            "Boot images, and applications that not every node can run, come from its registry at {registry}."
        );
    }
    if let Some(console) = console {
        text.push_str(&console.text());
    }
    let absolute = std::path::absolute(embedded.kubeconfig()).context("finding the kubeconfig")?;
    let _ = write!(
        text,
        "\n  export KUBECONFIG={}\n",
        quoted(&absolute.display().to_string())
    );
    if let Some(registry) = cluster.registry() {
        // It has no TLS, which commands accept only for registries named here.
        let _ = writeln!(text, "  export MEDLEY_INSECURE={registry}");
    }
    text.push_str("\nThen try:\n");
    for command in [
        "kubectl get nodes -L kubernetes.io/arch,kubernetes.io/os",
        "kubectl create deployment web --image=nginx --replicas=5",
        "kubectl rollout status deployment web",
        "kubectl get virtplatformconfig",
        "medley plan --profile load-aware-rebalancing",
        "medley images",
        "medley fleet publish fedora --arch arm64",
        "kubectl get vms,vmis -A",
        "kubectl get runtimeclasses",
        "medley release migrate --to-multi-arch && kubectl get clusterversion,clusteroperators",
    ] {
        let _ = writeln!(text, "  {command}");
    }
    if let Some(registry) = cluster.registry() {
        let _ = writeln!(
            text,
            "  kubectl run sensor --image={registry}/apps/arm64-only:1 && medley place explain sensor"
        );
    }
    text.push_str("\nready\n");
    Ok(text)
}

/// `11 nodes: 7 linux/amd64, 2 linux/arm64`.
fn fleet(nodes: &[Node]) -> String {
    let mut platforms: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let os = node::os(node).unwrap_or("unknown");
        let platform = format!("{os}/{}", node::architecture(node).unwrap_or("unknown"));
        *platforms.entry(platform).or_default() += 1;
    }
    let count = match nodes.len() {
        0 => return "no nodes".to_owned(),
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    let platforms: Vec<String> = platforms
        .into_iter()
        .map(|(platform, count)| format!("{count} {platform}"))
        .collect();
    format!("{count}: {}", platforms.join(", "))
}

/// A path, quoted for a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,=@".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        for (path, expected) in [
            ("/srv/medley-1.0/kube+config", "/srv/medley-1.0/kube+config"),
            ("/my data/k", "'/my data/k'"),
            ("/it's", r"'/it'\''s'"),
        ] {
            assert_eq!(quoted(path), expected);
        }
    }
}
