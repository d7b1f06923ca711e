//! Dry runs: what applying an item would change.

use api::advisor::Item;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use governance::Snapshot;
use governance::exchange::Next;
use governance::plan::{DryRun, Preview};
use kube::Client;
use runtime::Error;

use super::admission;
use super::target::Target;

/// Dry runs under way at a time. The API server answers them on several cores, and more would only queue there: its
/// priority levels admit a few hundred requests of all clients.
const CONCURRENT_PREVIEWS: usize = 8;

/// Dry-runs items on the API server; the results are in their order.
pub async fn preview_all(
    client: &Client,
    snapshot: &Snapshot,
    items: &[Item],
) -> Result<Vec<Preview>, Error> {
    // They change nothing, so their order does not matter, and one slow webhook does not delay the others.
    let mut previews = Vec::new();
    for item in items {
        // Nothing is sent before the stream polls it. A closure would not be general enough over lifetimes here.
        previews.push(preview(client, snapshot, item));
    }
    stream::iter(previews)
        .buffered(CONCURRENT_PREVIEWS)
        .try_collect()
        .await
}

/// Dry-runs an item on the API server.
async fn preview(client: &Client, snapshot: &Snapshot, item: &Item) -> Result<Preview, Error> {
    let mut target = Target::new(client, snapshot, &item.target_ref)?;
    let kind = snapshot.kind_of(&item.target_ref);
    let (mut dry_run, mut request) = DryRun::start(item, kind);
    loop {
        match dry_run.next(target.send(request).await?) {
            Next::Send(next) => request = next,
            Next::Finished(mut preview) => {
                let deviations = &mut preview.deviations;
                admission::name_mutators(client, snapshot, &item.target_ref, deviations).await;
                return Ok(preview);
            }
            Next::GiveUp(message) => {
                return Ok(Preview {
                    refused: Some(message),
                    ..Preview::default()
                });
            }
        }
    }
}
