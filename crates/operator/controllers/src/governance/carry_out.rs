//! Applies one item: sends the requests that [`ItemExecution`] decides on.

use governance::Snapshot;
use governance::decide::{Executed, Execution, ItemExecution};
use governance::exchange::Next;
use kube::Client;
use runtime::Error;

use super::admission;
use super::target::{Target, TargetWrite};

/// Applies an item; also returns the write, if there was one.
pub(super) async fn carry_out(
    client: &Client,
    snapshot: &Snapshot,
    config: &str,
    execution: &Execution,
) -> Result<(Executed, Option<TargetWrite>), Error> {
    let reference = &execution.item.target_ref;
    let mut target = Target::new(client, snapshot, reference)?;
    let kind = snapshot.kind_of(reference);
    let (mut item, mut request) = ItemExecution::start(execution, config, kind);
    loop {
        match item.next(target.send(request).await?) {
            Next::Send(next) => request = next,
            Next::Finished(Executed::Done) => return Ok((Executed::Done, target.written())),
            Next::Finished(Executed::Kept(mut deviations)) => {
                admission::name_mutators(client, snapshot, reference, &mut deviations).await;
                return Ok((Executed::Kept(deviations), target.written()));
            }
            Next::Finished(result) => return Ok((result, None)),
            // Reported in the status like any other refusal, and tried again as that says.
            Next::GiveUp(message) => return Ok((Executed::Refused(message), None)),
        }
    }
}
