//! `medley eject`: the desired state of a profile as plain manifests, for GitOps repositories.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use api::advisor::{Item, Operation, TargetRef, names};
use clap::Args;
use kube::ResourceExt as _;
use serde_json::Value;

use super::planning::PlanningArguments;
use crate::output::Data;
use crate::{exit, process};

/// Print the desired state of a profile as plain manifests, in the order to apply them.
///
/// The manifests carry no labels or annotations of Medley, and Medley does not manage the objects
/// after you apply them. Comments name what to wait for before you apply the next manifest.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    planning: PlanningArguments,

    /// Write one file per manifest to this directory, created if missing, instead of printing the
    /// manifests.
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// A manifest with its comments.
#[derive(Debug)]
struct Manifest {
    file: String,
    text: String,
}

/// Prints or writes the manifests.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !arguments.planning.is_single() {
        bail!("name a configuration, or a profile with --profile NAME");
    }
    process::build_runtime()?.block_on(async {
        let (planner, selected) = arguments.planning.open().await?;
        let mut manifests = Vec::new();
        for mut config in selected {
            // The desired state of the profile, not a rollback.
            config.spec.rollback_to = None;
            let name = config.name_any();
            match planner.draft(&config).await? {
                Ok((draft, ..)) => manifests.extend(render(&name, &draft.items, &draft.warnings)?),
                Err(why) => bail!("{name} cannot be ejected: {why}"),
            }
        }
        if let Some(folder) = &arguments.directory {
            write(folder, &manifests)
        } else {
            let texts: Vec<&str> = manifests.iter().map(|it| it.text.as_str()).collect();
            exit::print(&texts.join("---\n"))
        }
    })
}

fn write(folder: &Path, manifests: &[Manifest]) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("creating the directory {}", folder.display()))?;
    for manifest in manifests {
        let path = folder.join(&manifest.file);
        fs::write(&path, &manifest.text).with_context(|| format!("writing {}", path.display()))?;
        exit::print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// The manifests of the desired state. The first one lists objects that are no longer desired.
fn render(config: &str, items: &[Item], warnings: &[String]) -> anyhow::Result<Vec<Manifest>> {
    let (wanted, unwanted): (Vec<&Item>, Vec<&Item>) = items
        .iter()
        .partition(|item| item.operation == Operation::Apply);
    let mut manifests = Vec::new();
    let count = wanted.len();
    for (index, item) in wanted.into_iter().enumerate() {
        let number = index + 1;
        let mut text = format!("# {config}, {number} of {count}: {}\n", item.name);
        if let Some(impact) = item.impact_severity {
            let _ = writeln!(text, "# Impact: {impact}");
        }
        if !item.depends_on.is_empty() {
            let _ = writeln!(text, "# After: {}", item.depends_on.join(", "));
        }
        let _ = writeln!(text, "# Then: {}", health(&item.target_ref));
        if index == 0 {
            for warning in warnings {
                let _ = writeln!(text, "# Warning: {warning}");
            }
            for item in &unwanted {
                let message = item.message.as_deref().unwrap_or_default();
                let _ = writeln!(text, "# No longer desired: {message}");
            }
        }
        let mut object = item.desired_state.clone().unwrap_or_default();
        unmark(&mut object);
        text.push_str(&Data::Yaml.write(&object)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        manifests.push(Manifest {
            file: format!("{number:02}-{}.yaml", item.name),
            text,
        });
    }
    Ok(manifests)
}

/// Removes Medley's labels and annotations: ejected objects are not governed.
fn unmark(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(names::GOVERNED_BY);
        annotations.remove(names::APPLIED_PROFILE_HASH);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// What to wait for before the next manifest, as the operator does.
fn health(target: &TargetRef) -> &'static str {
    let group = target.api_version.split('/').next().unwrap_or_default();
    match (group, target.kind.as_str()) {
        ("machineconfiguration.openshift.io", "MachineConfig") => {
            "wait until every MachineConfigPool that takes it is Updated; nodes may reboot one after the other"
        }
        ("operator.openshift.io", "KubeDescheduler") => {
            "wait until Deployment descheduler runs with the annotation kubedeschedulers.operator.openshift.io/cluster of its \
             metadata.generation, and TargetConfigControllerDegraded is False"
        }
        ("hco.kubevirt.io", "HyperConverged") => {
            "wait until status.observedGeneration is metadata.generation, and neither Degraded nor Progressing is True"
        }
        ("remediation.medik8s.io", "NodeHealthCheck") => "check that status.phase is not Disabled",
        _ => "nothing to wait for",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ejected_manifests_lose_only_medley_annotations() {
        let annotated = |annotations: Value| json!({ "kind": "K", "metadata": { "name": "n", "annotations": annotations } });
        let mut object =
            annotated(json!({ names::GOVERNED_BY: "a", names::APPLIED_PROFILE_HASH: "b" }));
        unmark(&mut object);
        assert_eq!(object, json!({ "kind": "K", "metadata": { "name": "n" } }));
        let mut object = annotated(json!({ names::GOVERNED_BY: "a", "mine": "b" }));
        unmark(&mut object);
        assert_eq!(object, annotated(json!({ "mine": "b" })));
    }

    #[test]
    fn deleted_objects_become_comments() {
        let item = |name: &str, operation| Item {
            name: name.to_owned(),
            operation,
            desired_state: Some(json!({ "kind": "K" })),
            message: Some(format!("{name} will be deleted")),
            ..Item::default()
        };
        let items = [
            item("stays", Operation::Apply),
            item("goes", Operation::Delete),
        ];
        let manifests = render("c", &items, &["beware".to_owned()]).unwrap();
        assert_eq!(manifests.len(), 1);
        assert_eq!(manifests[0].file, "01-stays.yaml");
        for part in [
            "# c, 1 of 1: stays\n",
            "# No longer desired: goes will be deleted\n",
            "# Warning: beware\n",
            "\nkind: K\n",
        ] {
            assert!(manifests[0].text.contains(part), "{}", manifests[0].text);
        }
    }
}
