//! `medley uninstall`: removes Medley from a cluster, after a preview.
//!
//! ```text
//! gather   what is installed, and what depends on it -> InstalledState
//! plan     (manifests::uninstall) -> steps in phases, refusals, what is kept
//! export   policies, plans and history to a file, before the first change
//! execute  the steps of the first phase; then gather and plan again, until none is left
//! ```

mod execute;
mod export;
mod gather;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::SignedDuration;
use machinery::time::parse_duration;
use manifests::uninstall::{Change, Phase, Step, UninstallOptions, UninstallPlan, plan};
use serde_json::json;

use self::execute::Executor;
use crate::cluster::ClusterArguments;
use crate::images::change::ChangeArguments;
use crate::output::{OutputArguments, plural, remark, section, table};
use crate::{exit, process};

/// Steps of one kind that the preview shows one by one.
const SHOWN: usize = 10;

/// Remove Medley from the cluster.
///
/// Prints what would be deleted, changed and kept, in order; --yes does it. The webhooks go first, so that nothing is
/// gated or refused any more, then operator and webhooks, then pods are released from the scheduling gate. Virtual
/// machines that leave the choice of their CPU model to Medley do not start without it: give them fixed models with
/// --fix-cpu-models. CRDs, policies, plans and their history stay unless --delete-crds is set. Disks, DataSources and
/// applied plans always stay. An interrupted run can be repeated, and continues. An installation of Helm is prepared,
/// and the command that removes it printed; one of OLM, Argo CD or Flux has to be removed there first.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Arguments {
    /// Namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    /// Do it, instead of printing what would be done.
    #[arg(short, long)]
    yes: bool,

    /// Give virtual machines with best-match-model the model that they run with, or KubeVirt's
    /// default if they do not run.
    #[arg(long)]
    fix_cpu_models: bool,

    /// Leave virtual machines with best-match-model, although they do not start without Medley.
    #[arg(long, conflicts_with = "fix_cpu_models")]
    keep_cpu_models: bool,

    /// Write policies, plans and their history to this file first, as JSON lines and without
    /// secrets. An existing export is completed, so that a repeated run loses nothing.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,

    /// Also delete the CRDs, and with them policies, plans and their history.
    #[arg(long, requires = "export")]
    delete_crds: bool,

    /// Time limit for the pods of Medley to end.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

fn duration(text: &str) -> Result<Duration, String> {
    let found: SignedDuration = parse_duration(text).map_err(|error| error.to_string())?;
    Duration::try_from(found).map_err(|_| "expected a duration of 0 or more".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(Box::pin(arguments.uninstall()))
}

impl Arguments {
    fn options(&self) -> UninstallOptions {
        UninstallOptions {
            fix_cpu_models: self.fix_cpu_models,
            keep_cpu_models: self.keep_cpu_models,
            delete_crds: self.delete_crds,
        }
    }

    async fn uninstall(&self) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let state = gather::gather(&client, &self.namespace).await?;
        let planned = plan(&state, self.options());
        self.print(&planned)?;
        refuse(&planned)?;
        if !self.yes || !self.change.is_sent() {
            if !self.yes && !planned.steps.is_empty() {
                remark("Nothing was changed; --yes does it.");
            }
            return Ok(());
        }
        if let Some(path) = self.export.as_deref().filter(|_| !self.change.is_tried()) {
            let exported = export::export(&client, &state, path).await?;
            remark(&exported);
        }
        let executor = Executor::new(&client, self.change.is_tried());
        if self.change.is_tried() {
            // In a dry run no step changes the state that the next phase is planned from.
            for step in planned
                .steps
                .iter()
                .filter(|it| it.change != Change::AwaitEnd)
            {
                executor.execute(step).await?;
                self.report(&line(step, self.change.suffix()))?;
            }
            return Ok(());
        }
        self.carry_out(&executor, &client, planned).await
    }

    /// Plans again after each phase, until no step is left.
    async fn carry_out(
        &self,
        executor: &Executor,
        client: &kube::Client,
        mut planned: UninstallPlan,
    ) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + self.timeout;
        let mut rounds = Rounds::default();
        while let Some(first) = planned.steps.first() {
            let phase = first.phase;
            let mut waiting = None;
            for step in planned.first_phase() {
                if step.change == Change::AwaitEnd {
                    waiting = Some(step.object.to_string());
                    continue;
                }
                rounds.count(step)?;
                executor.execute(step).await?;
                self.report(&line(step, ""))?;
            }
            if let Some(pod) = waiting {
                if tokio::time::Instant::now() >= deadline {
                    bail!(
                        "{pod} has not ended within {:?}; run the command again when it has, or with a longer --timeout",
                        self.timeout
                    );
                }
                tokio::time::sleep(execute::POLL_INTERVAL).await;
            }
            let state = gather::gather(client, &self.namespace).await?;
            planned = plan(&state, self.options());
            refuse(&planned).with_context(|| format!("after the phase {phase:?}"))?;
        }
        for command in &planned.commands {
            self.report(&format!("Now run: {command}"))?;
        }
        Ok(())
    }

    /// Prints a line about what was done; to standard error where standard output is the plan as data.
    fn report(&self, line: &str) -> anyhow::Result<()> {
        if self.output.is_data() {
            remark(line);
            return Ok(());
        }
        exit::print(&format!("{line}\n"))
    }

    fn print(&self, planned: &UninstallPlan) -> anyhow::Result<()> {
        let refusals: Vec<String> = planned.refusals.iter().map(ToString::to_string).collect();
        let value = json!({
            "kind": "UninstallPlan",
            "steps": planned.steps,
            "kept": planned.kept,
            "commands": planned.commands,
            "refusals": refusals,
        });
        self.output.print(&value, || preview(planned))
    }
}

/// How often each step was executed.
#[derive(Default)]
struct Rounds(std::collections::BTreeMap<String, u32>);

impl Rounds {
    /// A webhook that still runs may register once more, but not again and again.
    fn count(&mut self, step: &Step) -> anyhow::Result<()> {
        const MOST: u32 = 5;
        let count = self.0.entry(step.object.to_string()).or_default();
        *count += 1;
        if *count > MOST {
            bail!(
                "{} was changed {MOST} times and is back: a controller restores it; remove that controller first",
                step.object
            );
        }
        Ok(())
    }
}

/// An error if the plan has refusals.
fn refuse(planned: &UninstallPlan) -> anyhow::Result<()> {
    for refusal in &planned.refusals {
        remark(&format!("refused: {refusal}"));
    }
    match planned.refusals.len() {
        0 => Ok(()),
        count => bail!("not uninstalled, for {count} reason{}", plural(count)),
    }
}

/// A line about a step that was made.
fn line(step: &Step, suffix: &str) -> String {
    let object = &step.object;
    let done = match &step.change {
        Change::Delete => "deleted".to_owned(),
        Change::ScaleToZero => "scaled to 0".to_owned(),
        Change::AwaitEnd => "ended".to_owned(),
        Change::Release => "released".to_owned(),
        Change::SetCpuModel(model) => format!("gets CPU model {model} at its next start"),
        Change::SetFinalizers(_) => "finalizers changed".to_owned(),
    };
    format!("{object} {done}{suffix}")
}

/// The preview: steps in their order, what is kept, and the commands for the rest.
fn preview(planned: &UninstallPlan) -> String {
    let mut text = String::new();
    if planned.steps.is_empty() && planned.commands.is_empty() && planned.refusals.is_empty() {
        text.push_str("Medley is not installed.\n");
    }
    if !planned.steps.is_empty() {
        text.push_str(&table(
            &["PHASE", "CHANGE", "OBJECT", "REASON"],
            rows(&planned.steps),
        ));
    }
    let kept = planned.kept.iter();
    let kept: Vec<String> = kept
        .map(|kept| format!("{}: {}", kept.objects, kept.reason))
        .collect();
    text.push_str(&section("Kept", &kept));
    text.push_str(&section("Afterwards", &planned.commands));
    text
}

/// One row for each step; of many of a kind, the first ones and their number.
fn rows(steps: &[Step]) -> Vec<[String; 4]> {
    let alike = |one: &Step, other: &Step| {
        (
            one.phase,
            &one.object.kind,
            &one.reason,
            one.change.to_string(),
        ) == (
            other.phase,
            &other.object.kind,
            &other.reason,
            other.change.to_string(),
        )
    };
    let mut rows = Vec::new();
    for steps in steps.chunk_by(alike) {
        for step in steps.iter().take(SHOWN) {
            let object = step.object.to_string();
            rows.push(row(step, object));
        }
        if let (Some(step), more @ 1..) = (steps.first(), steps.len().saturating_sub(SHOWN)) {
            rows.push(row(step, format!("{} and {more} more", step.object.kind)));
        }
    }
    rows
}

fn row(step: &Step, object: String) -> [String; 4] {
    let phase: Phase = step.phase;
    let change = step.change.to_string();
    [format!("{phase:?}"), change, object, step.reason.clone()]
}
