//! `medley plan`: a plan computed now.

use ::governance::user_patches::takeovers;
use anyhow::bail;
use api::advisor::{Action, ApprovalRequirement, VirtPlatformConfig};
use clap::{Args, ValueEnum};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::planning::{Attempt, Planned, PlanningArguments, Standing};
use super::{markdown, render};
use crate::controller::ControllerArguments;
use crate::output::{
    Data, Format, FormatParser, OutputForm, TemplateArguments, list, plural, section,
};
use crate::{exit, process};

/// Plan configurations now, and show the result without changing anything.
///
/// Runs the planner of the operator, with a server-side dry run for each item. With --offline, the
/// dry runs use an in-memory API server that is loaded with a snapshot of a cluster.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    planning: PlanningArguments,

    /// Output format; also jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE,
    /// custom-columns=HEADER:PATH,... and custom-columns-file=FILE.
    #[arg(short, long, value_parser = FormatParser::<PlanForm>::new())]
    #[arg(default_value = "table")]
    output: Format<PlanForm>,

    #[command(flatten)]
    template: TemplateArguments,

    /// Make the operator recompute a stale plan from the current state. Approvals of the old plan
    /// do not carry over.
    #[arg(long, requires = "name", conflicts_with_all = ["offline", "profile"])]
    renew: bool,

    #[command(flatten)]
    controller: ControllerArguments,
}

/// Output formats of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanForm {
    Table,
    Wide,
    Json,
    Yaml,
    /// A comment on a pull request.
    Markdown,
}

impl OutputForm for PlanForm {
    fn data(self) -> Option<Data> {
        match self {
            Self::Table | Self::Wide | Self::Markdown => None,
            Self::Json => Some(Data::Json),
            Self::Yaml => Some(Data::Yaml),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let renew = arguments.renew.then_some(&arguments.controller);
        let attempts = arguments.planning.plan(renew).await?;
        exit::print(&arguments.write(&attempts)?)?;
        impossible(&attempts)
    })
}

impl Arguments {
    fn write(&self, attempts: &[Attempt]) -> anyhow::Result<String> {
        let Some(data) = self.output.data() else {
            let named = self.output.named();
            if named == Some(PlanForm::Markdown) {
                return Ok(markdown::comment(attempts));
            }
            let wide = named == Some(PlanForm::Wide);
            let texts: Vec<String> = attempts
                .iter()
                .filter_map(|attempt| match attempt {
                    Attempt::Planned(planned) => Some(text(planned, wide)),
                    // Reported as an error.
                    Attempt::Impossible { .. } => None,
                })
                .collect();
            return Ok(texts.join("\n"));
        };
        let values: Vec<Value> = attempts.iter().map(value).collect();
        match values.last() {
            Some(single) if self.planning.is_single() => data.write(single, &self.template),
            _ => data.write(&list(&values), &self.template),
        }
    }
}

/// An error if something could not be planned.
pub(super) fn impossible(attempts: &[Attempt]) -> anyhow::Result<()> {
    let why: Vec<String> = attempts
        .iter()
        .filter_map(|attempt| match attempt {
            Attempt::Planned(_) => None,
            Attempt::Impossible { config, why } => {
                Some(format!("{} cannot be planned: {why}", config.name_any()))
            }
        })
        .collect();
    if why.is_empty() {
        return Ok(());
    }
    bail!("{}", why.join("\n"))
}

fn text(planned: &Planned, wide: bool) -> String {
    let Planned { config, plan, .. } = planned;
    let mut text = format!(
        "{} (action {:?}): {} item{}, impact {}\nDigest: {}{}\n\n",
        config.name_any(),
        config.spec.action,
        plan.items.len(),
        plural(plan.items.len()),
        plan.impact,
        plan.digest,
        match planned.standing() {
            Standing::UnderReview => " (this is the plan under review)",
            Standing::InProgress => " (this is the plan that is being applied)",
            Standing::OtherUnderReview => " (another plan is under review)",
            Standing::Imagined | Standing::Unreviewed => "",
        }
    );
    text.push_str(&render::items(&plan.items, wide));
    let takeovers = render::takeovers(&plan.items);
    text.push_str(&section("Taken over from other managers", &takeovers));
    let deviations = render::deviations(&plan.items);
    text.push_str(&section("Kept otherwise by the API server", &deviations));
    text.push_str(&section("Derived from", &render::inputs(&plan.inputs)));
    text.push_str(&section("Warnings", &plan.warnings));
    text.push_str(&section("Approval", &approval(planned)));
    text
}

/// The approvals that the plan needs before it is applied.
fn approval(planned: &Planned) -> Vec<String> {
    let name = planned.config.name_any();
    if planned.plan.changes_nothing {
        return vec!["None is needed: everything is already in the desired state.".to_owned()];
    }
    let mut lines = match planned.standing() {
        Standing::UnderReview => vec![format!("{} approves it.", command(planned))],
        Standing::InProgress => vec!["It is approved.".to_owned()],
        Standing::Imagined => vec![format!(
            "Nothing was created. To have it reviewed, create VirtPlatformConfig {name} with action DryRun."
        )],
        Standing::OtherUnderReview => vec![format!(
            "The plan under review is an older one; `medley explain {name}` shows what changed."
        )],
        Standing::Unreviewed if planned.config.spec.action == Action::Ignore => {
            vec!["It is ignored. Set action to DryRun to have it reviewed.".to_owned()]
        }
        Standing::Unreviewed => vec![format!(
            "Set action to DryRun to have it reviewed, then: {}",
            command(planned)
        )],
    };
    let fields = takeovers(&planned.plan.items).len();
    if fields > 0 {
        lines.push(format!(
            "It needs consent to take over {fields} field{} from other managers (--take-over).",
            plural(fields)
        ));
    }
    for (requirement, by) in planned.requirements() {
        let ApprovalRequirement {
            source, approvals, ..
        } = requirement;
        let approvers = match by.join(", ") {
            names if names.is_empty() => names,
            names => format!(" (by {names})"),
        };
        lines.push(format!(
            "A plan of {} impact needs {approvals} approval{} ({source}), and has {}{approvers}.",
            planned.plan.impact,
            if approvals == 1 { "" } else { "s" },
            by.len(),
        ));
    }
    lines
}

fn command(planned: &Planned) -> String {
    let consent = if takeovers(&planned.plan.items).is_empty() {
        ""
    } else {
        " --take-over"
    };
    format!("medley approve {}{consent}", planned.config.name_any())
}

/// A plan as JSON.
fn value(attempt: &Attempt) -> Value {
    let head = |config: &VirtPlatformConfig| {
        json!({
            "apiVersion": "cli.medley.dev/v1alpha1",
            "kind": "Plan",
            "metadata": { "name": config.name_any() },
            "profile": config.spec.profile,
            "action": config.spec.action,
        })
    };
    match attempt {
        Attempt::Planned(planned) => {
            let plan = &planned.plan;
            let requirements = planned.requirements().into_iter().map(|(one, _)| one);
            let requirements: Vec<ApprovalRequirement> = requirements.collect();
            let needed = requirements.iter().map(|one| one.approvals).max();
            let mut value = head(&planned.config);
            value["planDigest"] = json!(plan.digest);
            value["sourceSnapshotHash"] = json!(plan.hash);
            value["impactSeverity"] = json!(plan.impact);
            value["changesNothing"] = json!(plan.changes_nothing);
            value["underReview"] = json!(planned.standing() == Standing::UnderReview);
            value["items"] = json!(plan.items);
            value["inputs"] = json!(plan.inputs);
            value["warnings"] = json!(plan.warnings);
            value["needs"] = json!({
                "approvals": needed.unwrap_or_default(),
                "requirements": requirements,
                "takeovers": takeovers(&plan.items),
            });
            value
        }
        Attempt::Impossible { config, why } => {
            let mut value = head(config);
            value["problem"] = json!(why);
            value
        }
    }
}
