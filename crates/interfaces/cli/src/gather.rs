//! `medley gather`: a support bundle, without secrets ([`crate::redact`]).
//!
//! The layout is that of `oc adm must-gather`, so that tools for its bundles read ours. Called as
//! `gather`, the binary follows that contract: no arguments, output in `/must-gather`, as much as
//! can be read, and a `version` file.

mod collect;
mod folder;
mod kinds;
mod logs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use machinery::time::parse_duration;

use self::collect::{Limits, collect};
use self::folder::Folder;
use crate::cluster::ClusterArguments;
use crate::output::remark;
use crate::{args, exit, process};

/// Output directory expected by `oc adm must-gather`.
const MUST_GATHER: &str = "/must-gather";

/// Collect a support bundle without secrets.
///
/// Collects Medley's objects, the third-party objects that its controllers read, their events, the
/// logs of the operator, versions, and the output of `medley status`. Secrets are not read. Values of
/// ConfigMaps and environment variables, passwords, tokens, keys, last-applied configurations and the
/// user data of virtual machines are redacted before anything is written; gather.json counts the
/// redactions by kind and rule, and lists the objects that could not be read.
///
/// Called as `gather`, the program behaves as `oc adm must-gather --image` expects of
/// /usr/bin/gather.
#[derive(Debug, Args)]
// A limit by default, unlike for other commands: one API that does not answer must not cost the bundle.
#[command(mut_arg("request_timeout", |it| it.default_value("30s").help_heading(None)))]
pub(crate) struct Arguments {
    /// Archive to write, a .tar.gz.
    /// [default: medley-gather-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,

    /// Directory to write to instead of an archive.
    #[arg(long, value_name = "DIR", conflicts_with = "to")]
    dest_dir: Option<PathBuf>,

    /// Collect only logs and events newer than this, such as 5s, 2m or 3h.
    #[arg(long, value_name = "DURATION", env = "MUST_GATHER_SINCE", value_parser = duration)]
    since: Option<SignedDuration>,

    /// Collect only logs and events after this time, such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", env = "MUST_GATHER_SINCE_TIME")]
    #[arg(conflicts_with = "since")]
    since_time: Option<Timestamp>,

    /// Time limit of the collection; the bundle keeps what was collected until then.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    timeout: SignedDuration,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// The equivalent command line when the binary is called by the name that `oc adm must-gather`
/// uses.
pub(crate) fn by_name(line: &[OsString]) -> Option<Vec<OsString>> {
    if args::stem(line.first()) != Some("gather") {
        return None;
    }
    let meant = ["medley", "gather", "--dest-dir", MUST_GATHER].map(OsString::from);
    let more = line.iter().skip(1).cloned();
    Some(meant.into_iter().chain(more).collect())
}

/// A duration in kubectl's format.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let found = parse_duration(text).map_err(|error| error.to_string())?;
    if found.is_positive() {
        Ok(found)
    } else {
        Err("expected a duration of more than zero".to_owned())
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let limits = arguments.limits(now)?;
    let (folder, archive) = if let Some(path) = &arguments.dest_dir {
        (Folder::at(path)?, None)
    } else {
        let path = arguments.to.clone().unwrap_or_else(|| {
            let stamp = now.strftime("%Y%m%d-%H%M%S");
            PathBuf::from(format!("medley-gather-{stamp}.tar.gz"))
        });
        ensure!(
            path.extension()
                .is_some_and(|end| end == "gz" || end == "tgz"),
            "--to {}: the archive is compressed, and its name has to end in .tar.gz or .tgz",
            path.display()
        );
        (Folder::passing()?, Some(path))
    };
    let index = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        collect(&client, &folder, &limits).await
    })?;
    for missing in &index.missing {
        remark(&format!("not read: {}: {}", missing.what, missing.reason));
    }
    for line in index.removed.to_string().lines() {
        remark(line);
    }
    let place = match archive {
        Some(path) => {
            folder.pack(&path)?;
            path
        }
        None => folder.path().to_owned(),
    };
    exit::print(&format!(
        "{}: {} objects, {} events, {} logs; {} values redacted\n",
        place.display(),
        index.objects,
        index.events,
        index.logs,
        index.redacted
    ))
}

impl Arguments {
    fn limits(&self, now: Timestamp) -> anyhow::Result<Limits> {
        let since = match self.since {
            Some(since) => Some(now.checked_sub(since).context("--since is too long ago")?),
            None => self.since_time,
        };
        Ok(Limits {
            now,
            since,
            all: self.timeout.unsigned_abs(),
            request: self.cluster.request_timeout().unwrap_or(Duration::MAX),
        })
    }
}
