//! Images that only VM templates of the upstream operator refer to.
//!
//! Upstream creates DataSources for all VM templates that it is built with, in every cluster. Users
//! create disks for them, and VMs clone these; so they stay when Medley takes over, although none of
//! its own templates refers to them.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataSource, labels};
use api::ssp::GOLDEN_NAMESPACE;

use super::SspContext;
use super::data_sources::target;
use crate::action::label;
use crate::names;

/// The label by which upstream marks what no DataImportCron updates. Medley never sets it.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "ssp-operator");

/// The names of these DataSources without architecture, with the architectures that they have.
pub(super) fn data_sources(context: &SspContext<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let sources: BTreeMap<&str, &DataSource> = context
        .sources
        .iter()
        .filter(|(name, _)| name.namespace == GOLDEN_NAMESPACE)
        .map(|(name, source)| (name.name.as_str(), *source))
        // Of Medley, too: the switch of architectures makes it create the targets of upstream's names.
        .filter(|(_, source)| context.owns(&source.metadata))
        .collect();
    for (name, source) in &sources {
        let is_upstreams = context.owner.is_marked(&source.metadata)
            && label(&source.metadata, MANAGED_BY.0) == Some(MANAGED_BY.1);
        if !is_upstreams {
            continue;
        }
        let architecture = label(&source.metadata, labels::ARCHITECTURE);
        match (target(source), architecture) {
            // Upstream also creates a pointer to what a template alone defines, but not the target.
            (Some(_), _) => {
                let here = crate::list::KNOWN.iter().copied();
                let here: BTreeSet<String> = here
                    .filter(|it| sources.contains_key(names::for_architecture(name, it).as_str()))
                    .map(str::to_owned)
                    .collect();
                if !here.is_empty() {
                    found.entry((*name).to_owned()).or_default().extend(here);
                }
            }
            (None, Some(architecture)) => {
                if let Some(base) = base(name, architecture) {
                    let known = found.entry(base.to_owned()).or_default();
                    known.insert(architecture.to_owned());
                }
            }
            // With a single architecture, the name is that of the default.
            (None, None) => {
                let known = found.entry((*name).to_owned()).or_default();
                known.extend(context.default().architecture);
            }
        }
    }
    found
}

/// The name without the architecture that upstream appended.
fn base<'a>(name: &'a str, architecture: &str) -> Option<&'a str> {
    name.strip_suffix(architecture)?.strip_suffix('-')
}
