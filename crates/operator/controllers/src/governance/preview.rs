//! Dry runs: what applying an item would change.

use api::advisor::Item;
use governance::Snapshot;
use governance::exchange::Next;
use governance::plan::{DryRun, Preview};
use kube::Client;
use runtime::Error;

use super::admission;
use super::target::Target;

/// Dry-runs an item on the API server.
pub async fn preview(client: &Client, snapshot: &Snapshot, item: &Item) -> Result<Preview, Error> {
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
            Next::GiveUp(message) => return Err(Error::Invalid(message)),
        }
    }
}
