//! `--watch`: prints rows as they change.
//!
//! Rows are derived from several objects. So these are watched only to learn that something changed; then the rows are
//! read again and compared. Watches that expire or break are begun again by the cache.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use kube::Api;
use runtime::{Cache, Kind};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::exit;
use crate::output::{ListOutputArguments, remark};

/// Changes within this window are printed together: one import changes several objects at once.
const BATCH_WINDOW: Duration = Duration::from_millis(200);
/// The wait after a failed read.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The `--watch` flag, as in kubectl.
#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// After listing, watch for changes, and print the rows that changed.
    #[arg(short, long)]
    watch: bool,
}

impl WatchArguments {
    /// Whether to watch; an error if the output has no rows.
    pub(crate) fn is_set(&self, output: &ListOutputArguments) -> anyhow::Result<bool> {
        if self.watch && output.is_data() {
            bail!("--watch prints rows: use it without -o, or with -o wide or -o name");
        }
        Ok(self.watch)
    }
}

/// The output at one time.
pub(crate) struct Rows {
    /// What is printed.
    pub(crate) shown: String,
    /// The same lines with ages as of the first output, since a row whose age alone is another has not changed.
    pub(crate) compared: String,
}

/// Changes of the objects that rows are derived from.
#[derive(Default)]
pub(crate) struct Changes {
    changed: Arc<Notify>,
    /// Aborted when this is dropped.
    reflectors: JoinSet<()>,
}

impl Changes {
    /// Watches the objects of a kind, which need not be installed yet.
    pub(crate) fn follow<K: Kind<DynamicType = ()>>(&mut self, api: Api<K>) {
        let (cache, reflector) = Cache::follow(api);
        let changed = Arc::clone(&self.changed);
        cache.on_change(move |_| changed.notify_one());
        self.reflectors.spawn(reflector);
    }

    /// Prints rows as they change, until the process is stopped.
    pub(crate) async fn print(
        &self,
        mut read: impl AsyncFnMut() -> anyhow::Result<Rows>,
    ) -> anyhow::Result<()> {
        // The first read fails the command: it is what would have failed without --watch.
        let mut rows = read().await?;
        let mut before = BTreeSet::new();
        loop {
            exit::print(&changed(&rows, &before))?;
            before = rows.compared.lines().map(identity).collect();
            rows = loop {
                self.changed.notified().await;
                tokio::time::sleep(BATCH_WINDOW).await;
                match read().await {
                    Ok(rows) => break rows,
                    Err(error) => {
                        remark(&format!("warning: {error:#}; retrying"));
                        tokio::time::sleep(RETRY_INTERVAL).await;
                        self.changed.notify_one();
                    }
                }
            };
        }
    }
}

/// The lines that were not there before.
fn changed(rows: &Rows, before: &BTreeSet<String>) -> String {
    let lines = rows.shown.lines().zip(rows.compared.lines());
    let new = lines.filter(|(_, compared)| !before.contains(&identity(compared)));
    new.flat_map(|(shown, _)| [shown, "\n"]).collect()
}

/// A line without its alignment, which depends on the other lines.
fn identity(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_rows_are_printed() {
        let rows = |shown: &str, compared: &str| Rows {
            shown: shown.to_owned(),
            compared: compared.to_owned(),
        };
        let first = rows(
            "NAME AGE\na    1s\nb    1s\n",
            "NAME AGE\na    1s\nb    1s\n",
        );
        assert_eq!(changed(&first, &BTreeSet::new()), first.shown);
        let before = first.compared.lines().map(identity).collect();
        // Older and aligned differently, but the same; and a new row.
        let later = rows(
            "NAME     AGE\na        9s\nb        9s\nlonger   2s\n",
            "NAME     AGE\na        1s\nb        1s\nlonger   1s\n",
        );
        assert_eq!(changed(&later, &before), "longer   2s\n");
    }
}
