//! The dry run of an item, request by request.

use api::advisor::{FIELD_MANAGER, Item, Operation};

use super::{Preview, unmarked, wanted_values};
use crate::exchange::{Next, Request, Response};
use crate::snapshot::Kind;
use crate::{deviation, ownership, restore};

/// Dry-runs an item: reads its target, and sends the write without persisting it.
///
/// The first apply is without force: its conflicts name the field managers that the item would take fields from.
#[derive(Debug)]
pub struct DryRun<'a> {
    item: &'a Item,
    kind: Option<&'a Kind>,
    preview: Preview,
    step: DryRunStep,
}

/// The request that is under way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum DryRunStep {
    Read,
    Apply { force: bool },
    Restore,
}

impl<'a> DryRun<'a> {
    /// Starts with the first request. `kind` is that of the target.
    pub fn start(item: &'a Item, kind: Option<&'a Kind>) -> (Self, Request) {
        let dry_run = Self {
            item,
            kind,
            preview: Preview::default(),
            step: DryRunStep::Read,
        };
        (dry_run, Request::Read)
    }

    /// Takes the response to the last request.
    pub fn next(&mut self, response: Response) -> Next<Preview> {
        match (self.step, response) {
            (DryRunStep::Read, Response::Object(live)) => {
                self.preview.live = live;
                match self.item.operation {
                    // Without a dry run: a deletion has no result to compare, and its diff is the whole object.
                    Operation::Delete => self.finish(),
                    Operation::Apply => self.apply(false),
                    Operation::Restore => self.restore(),
                }
            }
            (DryRunStep::Apply { .. }, Response::Object(result)) => {
                self.preview.result = result;
                self.finish()
            }
            (DryRunStep::Restore, Response::Object(result)) => {
                self.preview.result = result.map(unmarked);
                self.finish()
            }
            (DryRunStep::Apply { force: false }, Response::Conflicts(conflicts)) => {
                // The forced dry run yields the resulting object, for the diff; nothing is persisted by either.
                self.preview.conflicts = match &self.preview.live {
                    Some(live) => ownership::chosen(conflicts, live, self.kind),
                    None => conflicts,
                };
                self.apply(true)
            }
            (_, Response::Rejected(why)) => {
                self.preview.refused = Some(why);
                self.finish()
            }
            (_, Response::NoNamespace(name)) => {
                self.preview.missing_namespace = Some(name);
                self.finish()
            }
            (step, Response::Conflicts(_) | Response::Outdated) => {
                let operation = match step {
                    DryRunStep::Read => "reading",
                    DryRunStep::Apply { .. } => "dry-running the apply of",
                    DryRunStep::Restore => "dry-running the restore of",
                };
                let target = &self.item.target_ref;
                Next::GiveUp(format!(
                    "{operation} {target}: the object was modified by another client"
                ))
            }
        }
    }

    fn apply(&mut self, force: bool) -> Next<Preview> {
        let Some(desired) = &self.item.desired_state else {
            return self.finish();
        };
        self.step = DryRunStep::Apply { force };
        Next::Send(Request::Apply {
            object: desired.clone(),
            force,
            dry_run: true,
        })
    }

    fn restore(&mut self) -> Next<Preview> {
        let Some(live) = &self.preview.live else {
            return self.finish();
        };
        self.step = DryRunStep::Restore;
        Next::Send(Request::Merge {
            // One request for all former managers: owners do not appear in a diff.
            manager: FIELD_MANAGER.to_owned(),
            patch: restore::merge_patch(live, &wanted_values(self.item), &self.item.managed_fields),
            dry_run: true,
        })
    }

    fn finish(&mut self) -> Next<Preview> {
        let Preview { live, result, .. } = &self.preview;
        if let Some(result) = result {
            self.preview.deviations =
                deviation::deviations(self.item, live.as_ref(), result, self.kind);
        }
        Next::Finished(std::mem::take(&mut self.preview))
    }
}
