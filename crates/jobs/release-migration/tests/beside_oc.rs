//! The text of a report, compared with that of `oc adm upgrade status` for oc's own examples. They are read from the Go
//! module that `peers/oc` pins; its text is that of January 2025, so the parts that changed since are translated.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::openshift::{ClusterOperator, ClusterVersion, MachineConfigPool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::json::decode_yaml;
use release_migration::eta::UpdateDurations;
use release_migration::history::KnownPayloads;
use release_migration::report::{Cluster, Details, Report, rendered_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn examples() -> Outcome<PathBuf> {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../peers/oc");
    let module = "github.com/openshift/oc";
    let list = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module];
    let found = Command::new("go").args(list).current_dir(&peer).output()?;
    let error = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{error}");
    let folder = String::from_utf8(found.stdout)?;
    Ok(Path::new(folder.trim()).join("pkg/cli/admin/upgrade/status/examples"))
}

struct Example {
    version: ClusterVersion,
    operators: Vec<ClusterOperator>,
    pools: Vec<MachineConfigPool>,
    nodes: Vec<Node>,
    configurations: BTreeMap<String, String>,
    now: Timestamp,
}

fn read(folder: &Path, name: &str, suffix: &str) -> Outcome<Value> {
    let bytes = fs::read(folder.join(format!("{name}-{suffix}.yaml")))?;
    Ok(decode_yaml(&bytes)?.value)
}

fn items<T: DeserializeOwned>(mut list: Value) -> Outcome<Vec<T>> {
    Ok(serde_json::from_value(list["items"].take())?)
}

impl Example {
    fn read(folder: &Path, name: &str) -> Outcome<Self> {
        let mut version = read(folder, name, "cv")?;
        if version.get("items").is_some() {
            version = version["items"][0].take();
        }
        let version: ClusterVersion = serde_json::from_value(version)?;
        let operators: Vec<ClusterOperator> = items(read(folder, name, "co")?)?;
        let configurations: Vec<Value> = items(read(folder, name, "mc")?)?;
        let metadata = configurations
            .into_iter()
            .map(|mut it| it["metadata"].take());
        let metadata: Vec<ObjectMeta> = metadata
            .map(serde_json::from_value)
            .collect::<Result<_, _>>()?;
        // As oc does for examples: the last transition is now.
        let conditions = version.status.iter().flat_map(|it| &it.conditions);
        let statuses = operators.iter().filter_map(|it| it.status.as_ref());
        let conditions = conditions.chain(statuses.flat_map(|it| &it.conditions));
        let times = conditions.filter_map(|it| it.last_transition_time.as_ref());
        let last = times
            .map(|it| it.0)
            .max()
            .ok_or("no condition has a time")?;
        Ok(Self {
            operators,
            pools: items(read(folder, name, "mcp")?)?,
            nodes: items(read(folder, name, "node")?)?,
            configurations: rendered_for(&metadata),
            now: last + SignedDuration::from_nanos(368_975),
            version,
        })
    }

    fn text(&self, details: Details) -> String {
        let report = Report::of(&Cluster {
            version: &self.version,
            operators: &self.operators,
            pools: &self.pools,
            nodes: &self.nodes.iter().collect::<Vec<_>>(),
            configurations: &self.configurations,
            plan: None,
            machine_config_image: None,
            evidence: &[],
            known: &KnownPayloads::of(&self.version),
            past: &UpdateDurations::default(),
            now: self.now,
        });
        report.text(details, self.now)
    }
}

/// The part of a text from one heading to the next.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim_end);
    let from = lines.skip_while(|line| !line.starts_with(heading));
    let is_next = |line: &&str| line.starts_with("= ") || line.contains("Nodes");
    let section = from
        .enumerate()
        .take_while(|(place, line)| *place == 0 || !is_next(line));
    let section = section.map(|(_, line)| line);
    section.filter(|line| !line.is_empty()).collect()
}

/// The operators, in the words of the newer `oc` whose layout Medley follows.
fn control_plane(text: &str) -> Vec<String> {
    let lines = section(text, "= Control Plane =").into_iter();
    // The newer one lists names as well.
    let lines = lines.filter(|line| !line.starts_with("Updating:"));
    let table = lines.take_while(|line| !line.starts_with("Updating Cluster Operators"));
    table
        .filter(|line| !line.starts_with("All control plane nodes"))
        .map(|line| line.replace("Operator Status:", "Operator Health:"))
        .collect()
}

/// All nodes are updated, but an operator is degraded, and the ClusterVersion reports a failure: `oc` reports completion,
/// Medley does not. Its nodes include unschedulable ones, which `oc` counts as unavailable.
const DEGRADED: &str = "4.16.0-ec2-control-plane-updated-pdb-prohibits-draining";
/// It has alerts, which Medley does not read.
const ALERTS: &str = "4.15.0-ec2-unavailable-mco-20m";

fn compare(suffix: &str, details: Details) -> Outcome<()> {
    let folder = examples()?;
    let mut names = Vec::new();
    for file in fs::read_dir(&folder)? {
        let file = file?.file_name();
        let name = file.to_str().and_then(|it| it.strip_suffix("-cv.yaml"));
        names.extend(name.map(str::to_owned));
    }
    assert_eq!(names.len(), 10, "{names:?}");
    for name in names {
        let ours = Example::read(&folder, &name)?.text(details);
        let theirs = fs::read_to_string(folder.join(format!("{name}{suffix}")))?;
        if theirs == "The cluster is not updating.\n" {
            assert_eq!(ours, theirs, "{name}");
            continue;
        }
        if name == DEGRADED {
            assert!(control_plane(&theirs)[1].ends_with("Completed"));
            assert!(control_plane(&ours)[1].ends_with("Stalled"));
            assert_eq!(
                control_plane(&ours)[2..],
                control_plane(&theirs)[2..],
                "{name}"
            );
            continue;
        }
        assert_eq!(control_plane(&ours), control_plane(&theirs), "{name}");
        let tables: Vec<&str> = theirs
            .lines()
            .filter(|line| line.contains("Nodes"))
            .collect();
        assert!(!tables.is_empty(), "{name}");
        for table in tables {
            assert_eq!(
                section(&ours, table),
                section(&theirs, table),
                "{name}: {table}"
            );
        }
        if name != ALERTS {
            let heading = "= Update Health =";
            assert_eq!(section(&ours, heading), section(&theirs, heading), "{name}");
        }
    }
    Ok(())
}

#[test]
fn examples_have_the_same_text() -> Outcome<()> {
    compare(".output", Details::default())
}

#[test]
fn examples_have_the_same_details() -> Outcome<()> {
    let all = Details {
        nodes: true,
        operators: true,
        health: true,
    };
    compare(".detailed-output", all)
}
