//! `medley place take-over` and `medley place hand-back`: which operator places pods.

use anyhow::bail;
use clap::Args;
use edits::{hand_over, take_step};
use placement::hand_over::Direction;

use crate::cluster::ClusterArguments;
use crate::governance::configs::MANAGER;
use crate::images::change::ChangeArguments;
use crate::output::{ConfirmArguments, remark};
use crate::{exit, process};

/// Let Medley place pods that the multiarch-tuning-operator places.
///
/// Shows the changes and asks before making them: without names the ClusterPodPlacementConfig is deleted, otherwise its
/// namespaceSelector excludes the namespaces. Its operator lifts its own gates. The command is refused while Medley could
/// not place pods, and can be repeated.
#[derive(Debug, Args)]
pub(super) struct TakeOver {
    #[command(flatten)]
    arguments: Arguments,
}

/// Let the multiarch-tuning-operator place pods, and Medley none.
///
/// Shows the changes and asks before making them: without names the PlacementPolicy default is set to the operator mode
/// Assist, otherwise the ClusterPodPlacementConfig selects the namespaces again that take-over has excluded. Medley releases
/// the pods that wait at its gate. The command is refused while the other operator could not place pods, and can be repeated.
#[derive(Debug, Args)]
pub(super) struct HandBack {
    #[command(flatten)]
    arguments: Arguments,
}

#[derive(Debug, Args)]
struct Arguments {
    /// Names of namespaces.
    /// [default: all]
    #[arg(value_name = "NAMESPACE")]
    namespaces: Vec<String>,

    /// Namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    #[command(flatten)]
    confirm: ConfirmArguments,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

impl TakeOver {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        self.arguments.run(Direction::TakeOver)
    }
}

impl HandBack {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        self.arguments.run(Direction::HandBack)
    }
}

impl Arguments {
    fn run(&self, direction: Direction) -> anyhow::Result<()> {
        process::build_runtime()?.block_on(async {
            let client = self.cluster.client().await?;
            let planned = hand_over(&client, direction, &self.namespaces, &self.namespace).await?;
            let steps = match planned {
                Ok(steps) => steps,
                Err(refused) => bail!("{refused}"),
            };
            if steps.is_empty() {
                remark(match direction {
                    Direction::TakeOver => "Nothing to change: Medley places these pods.",
                    Direction::HandBack => "Nothing to change: Medley gates none of these pods.",
                });
                return Ok(());
            }
            let change = &self.change;
            let is_changed = change.is_sent() && !change.is_tried();
            if is_changed && !self.confirm.yes {
                for step in &steps {
                    exit::print(&format!("{step}\n"))?;
                }
                self.confirm.ask("Make these changes?")?;
            }
            for step in &steps {
                if !change.is_sent() {
                    exit::print(&format!("{step}{}\n", change.suffix()))?;
                    continue;
                }
                let done = take_step(&client, step, (MANAGER, change.is_tried())).await?;
                exit::print(&format!("{done}{}\n", change.suffix()))?;
            }
            Ok(())
        })
    }
}
