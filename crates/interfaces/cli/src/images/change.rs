//! `--dry-run` of commands that change objects.

use clap::{Args, ValueEnum};

/// Values of `--dry-run`, as in kubectl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    /// Make the change.
    None,
    /// Print the change without sending it.
    Client,
    /// Send the change for validation without persisting it.
    Server,
}

/// The `--dry-run` flag.
#[derive(Debug, Args)]
pub(crate) struct ChangeArguments {
    /// Print what would change without changing it. With server, the API server validates the change
    /// first.
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "client")]
    #[arg(default_value = "none")]
    dry_run: DryRun,
}

impl ChangeArguments {
    /// Whether anything is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.dry_run != DryRun::Client
    }

    /// Whether the change is made, and not only tried.
    pub(crate) fn is_persisted(&self) -> bool {
        self.dry_run == DryRun::None
    }

    /// Whether it is a server-side dry run.
    pub(crate) fn is_tried(&self) -> bool {
        self.dry_run == DryRun::Server
    }

    /// Suffix of the printed line, as in kubectl.
    pub(crate) fn suffix(&self) -> &'static str {
        match self.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}
