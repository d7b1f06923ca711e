//! Pins beside a running CDI: edits of the DataImportCron, SSP or HyperConverged that a user owns.

use std::collections::BTreeSet;

use anyhow::bail;
use edits::PinChange;

use super::PinWriteArguments;
use crate::exit;
use crate::governance::configs::MANAGER;
use crate::images::objects::SelectedImage;
use crate::output::remark;

impl PinWriteArguments {
    /// Edits the objects, and prints which. An edit that deletes volumes needs `--reimport`.
    pub(super) async fn edit_upstream(
        &self,
        selected: &SelectedImage,
        change: PinChange<'_>,
    ) -> anyhow::Result<()> {
        let planned = edits::plan_pins(&selected.client, &selected.image, change).await?;
        if planned.is_empty() {
            bail!(
                "nothing imports {}: no DataImportCron manages a DataSource of it",
                selected.image.name
            );
        }
        for edit in &planned {
            let Some(loss) = &edit.loss else { continue };
            if self.reimport || !self.change.is_persisted() {
                remark(&format!("warning: {}: {loss}", edit.object));
            } else {
                bail!(
                    "{} was not edited: {loss}. Use --reimport to accept that",
                    edit.object
                );
            }
        }
        if self.change.is_sent() {
            let sender = (MANAGER, self.change.is_tried());
            edits::apply_pins(&selected.client, &planned, sender).await?;
        }
        let suffix = self.change.suffix();
        let lines = planned
            .iter()
            .map(|edit| format!("{} edited: {}{suffix}\n", edit.object, edit.what));
        exit::print(&lines.collect::<String>())
    }

    /// Removes pins that are in objects of CDI, SSP or HCO.
    pub(super) async fn unpin_upstream(&self, selected: &SelectedImage) -> anyhow::Result<()> {
        let pinned = selected.variants().filter(|it| it.is_pinned_upstream);
        let pinned: BTreeSet<String> = pinned.map(|it| it.data_source.clone()).collect();
        self.edit_upstream(selected, PinChange::Unpin(&pinned))
            .await?;
        let suffix = self.change.suffix();
        let lines = pinned
            .iter()
            .map(|name| format!("{name} unpinned{suffix}\n"));
        exit::print(&lines.collect::<String>())
    }
}
