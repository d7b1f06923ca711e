//! Changes that can be tried.

use clap::{Args, ValueEnum};

/// Whether something is really done, as kubectl asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    /// It is done.
    None,
    /// Nothing is sent.
    Client,
    /// The server says what it would do.
    Server,
}

/// Whether to do it.
#[derive(Debug, Args)]
pub(crate) struct ChangeArguments {
    /// Say what would be done, and do nothing: nothing is sent (client), or the server checks it
    /// (server).
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

    /// Whether the server only tries it.
    pub(crate) fn is_tried(&self) -> bool {
        self.dry_run == DryRun::Server
    }

    /// What is said after what was done.
    pub(crate) fn suffix(&self) -> &'static str {
        match self.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}
