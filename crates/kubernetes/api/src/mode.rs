//! The mode of a controller beside the genuine operator of its objects.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::operators::RunningOperator;

/// What a controller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// It writes the objects of its job: no other operator does.
    Manage,
    /// It reads, explains, verifies and alerts; another operator writes the objects.
    Assist,
    /// It does nothing.
    Off,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manage => "Manage",
            Self::Assist => "Assist",
            Self::Off => "Off",
        })
    }
}

/// The mode that a policy sets (`spec.mode`).
///
/// There is no `Manage`: a controller never writes beside a genuine operator that runs, and manages by itself without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModeSetting {
    /// [`Mode::Assist`] while the genuine operator runs, else [`Mode::Manage`].
    #[default]
    Auto,
    /// Never writes, even without another operator.
    Assist,
    /// Does nothing.
    Off,
}

impl ModeSetting {
    /// The accepted values.
    pub const VALUES: [&'static str; 3] = ["Auto", "Assist", "Off"];
}

/// Condition reasons of modes, shared by all jobs.
pub mod reasons {
    /// No other operator manages the objects.
    pub const MANAGING: &str = "Managing";
    /// The genuine operator runs.
    pub const UPSTREAM_RUNS: &str = "UpstreamOperatorRuns";
    /// `spec.mode` of the policy.
    pub const SET_BY_POLICY: &str = "SetByPolicy";
    /// A CRD is missing.
    pub const NOT_INSTALLED: &str = "NotInstalled";
    /// The controller is not enabled.
    pub const NOT_ENABLED: &str = "NotEnabled";
}

/// The inputs of [`decide`].
#[derive(Debug, Clone, Copy)]
pub struct ModeInputs<'a> {
    /// The controller in messages, as in `medley run --controllers`.
    pub component: &'a str,
    /// What the policy sets.
    pub setting: ModeSetting,
    /// The policy in messages: `GoldenImagePolicy default`.
    pub policy: &'a str,
    /// Whether a replica of Medley runs the controller.
    pub enabled: bool,
    /// The kind that is not installed, without which there is nothing to do.
    pub missing: Option<&'a str>,
    /// The genuine operator, if it runs.
    pub running: Option<&'a RunningOperator>,
}

/// The mode of a controller, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The mode.
    pub mode: Mode,
    /// Who writes the objects: the controller of Medley, or the genuine operator; `None` if none does.
    pub owner: Option<String>,
    /// One of [`reasons`].
    pub reason: &'static str,
    /// Who owns the objects, and what would have to change.
    pub message: String,
}

impl Ownership {
    /// Whether the controller may write.
    pub fn manages(&self) -> bool {
        self.mode == Mode::Manage
    }
}

/// The mode of a controller. A genuine operator that runs is named also where the policy or a missing CRD decides.
pub fn decide(inputs: &ModeInputs<'_>) -> Ownership {
    let ModeInputs {
        component, policy, ..
    } = *inputs;
    let genuine = inputs.running.map(|it| it.operator.title.to_owned());
    let beside = |text: String| match inputs.running {
        Some(running) => format!("{text}; {running}"),
        None => text,
    };
    let ownership = |mode, owner: Option<String>, reason, message| Ownership {
        mode,
        owner,
        reason,
        message,
    };
    if !inputs.enabled {
        let text =
            format!("no replica of Medley runs {component}; add it to --controllers to enable it");
        return ownership(Mode::Off, genuine, reasons::NOT_ENABLED, beside(text));
    }
    if let Some(kind) = inputs.missing {
        let text = format!("{kind} is not installed; {component} starts when it is");
        return ownership(Mode::Off, genuine, reasons::NOT_INSTALLED, beside(text));
    }
    let set = |mode, does: &str| {
        let text = format!(
            "{policy} sets mode {mode}, so {component} {does}; set spec.mode to Auto to let it write when no other operator does"
        );
        ownership(mode, genuine.clone(), reasons::SET_BY_POLICY, beside(text))
    };
    match (inputs.setting, inputs.running) {
        (ModeSetting::Off, _) => set(Mode::Off, "does nothing"),
        (ModeSetting::Assist, _) => set(Mode::Assist, "only reports"),
        (ModeSetting::Auto, Some(running)) => ownership(
            Mode::Assist,
            genuine,
            reasons::UPSTREAM_RUNS,
            running.message(component),
        ),
        (ModeSetting::Auto, None) => ownership(
            Mode::Manage,
            Some(component.to_owned()),
            reasons::MANAGING,
            format!("{component} manages its objects; no other operator runs that does"),
        ),
    }
}
