//! Pure crates: no runtime, network, files, clock or randomness, not even through a dependency.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::Value;

use crate::shell;

/// Crates that compute and do nothing else.
const PURE: [&str; 1] = ["machinery"];

/// What no pure crate may reach.
const IMPURE: [&str; 11] = [
    "aws-lc-rs",
    "getrandom",
    "hyper",
    "kube-client",
    "mio",
    "redb",
    "reqwest",
    "rustls",
    "socket2",
    "tokio",
    "uuid",
];

/// One line for every impure crate that a pure one reaches, with the way there.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let text = shell::read(shell::cargo().args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        &host()?,
    ]))?;
    let metadata: Value =
        serde_json::from_str(&text).context("reading the output of cargo metadata")?;
    let graph = Graph::read(&metadata);
    let mut wrong = Vec::new();
    for pure in PURE {
        let reached = graph
            .reached(pure)
            .with_context(|| format!("there is no crate {pure}"))?;
        wrong.extend(reached.into_iter().map(|way| {
            format!(
                "crate {pure} must be pure, but reaches {}",
                way.join(" -> ")
            )
        }));
    }
    Ok(wrong)
}

/// The platform rustc builds for; dependencies of others do not count.
fn host() -> anyhow::Result<String> {
    let version = shell::read(shell::command("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("rustc does not say what it builds for")
}

/// Normal dependencies by package id.
struct Graph {
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let names = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let edges = list(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| {
                let dependencies = list(&node["deps"])
                    .iter()
                    .filter(|dep| {
                        list(&dep["dep_kinds"])
                            .iter()
                            .any(|kind| kind["kind"].is_null())
                    })
                    .map(|dep| text(&dep["pkg"]))
                    .collect();
                (text(&node["id"]), dependencies)
            })
            .collect();
        Self { names, edges }
    }

    /// Ways from a crate to what it must not reach; `None` if there is no such crate.
    fn reached(&self, name: &str) -> Option<Vec<Vec<String>>> {
        let start = self.names.iter().find(|(_, have)| *have == name)?.0;
        let mut seen = BTreeSet::from([start]);
        let mut ways = Vec::new();
        let mut open = vec![(start, Vec::new())];
        while let Some((id, way)) = open.pop() {
            for next in self
                .edges
                .get(id)
                .into_iter()
                .flatten()
                .filter(|next| seen.insert(next))
            {
                let name = self.names.get(next).cloned().unwrap_or_default();
                let mut way: Vec<String> = way.clone();
                way.push(name.clone());
                if IMPURE.contains(&name.as_str()) {
                    ways.push(way);
                } else {
                    open.push((next, way));
                }
            }
        }
        Some(ways)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ways_to_impure_crates_are_found_through_normal_dependencies() {
        let edge = |to: &str, kind: Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let packages = ["a", "b", "tokio", "redb"].map(|name| json!({"id": name, "name": name}));
        let graph = Graph::read(&json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "a", "deps": [edge("b", Value::Null), edge("redb", json!("dev"))]},
                {"id": "b", "deps": [edge("tokio", Value::Null)]},
            ]},
        }));
        assert_eq!(
            graph.reached("a"),
            Some(vec![vec!["b".to_owned(), "tokio".to_owned()]])
        );
        assert_eq!(graph.reached("redb"), Some(vec![]));
        assert_eq!(graph.reached("none"), None);
    }
}
