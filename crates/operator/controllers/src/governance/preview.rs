//! Dry runs: what applying an item would change.

use api::advisor::Item;
use governance::Snapshot;
use governance::exchange::Next;
use governance::plan::{DryRun, Preview};
use kube::Client;
use runtime::Error;

use super::target::Target;

/// Dry-runs an item on the API server.
pub async fn preview(client: &Client, snapshot: &Snapshot, item: &Item) -> Result<Preview, Error> {
    let mut target = Target::new(client, snapshot, &item.target_ref)?;
    let (mut dry_run, mut request) = DryRun::start(item);
    loop {
        match dry_run.next(target.send(request).await?) {
            Next::Send(next) => request = next,
            Next::Finished(preview) => return Ok(preview),
            Next::GiveUp(message) => {
                return Ok(Preview {
                    refused: Some(message),
                    ..Preview::default()
                });
            }
        }
    }
}
