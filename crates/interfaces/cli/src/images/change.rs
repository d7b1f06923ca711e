//! `--dry-run` of commands that change objects.

use clap::{Args, ValueEnum};

/// Values of `--dry-run`, as in kubectl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    /// The change is made.
    None,
    /// Nothing is sent.
    Client,
    /// The API server validates the change.
    Server,
}

/// The `--dry-run` flag.
#[derive(Debug, Args)]
pub(crate) struct ChangeArguments {
    /// Only print what would change: without sending it (client), or after validation by the API
    /// server (server).
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client"
    )]
    dry_run: DryRun,
}

impl ChangeArguments {
    /// Whether anything is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.dry_run != DryRun::Client
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
