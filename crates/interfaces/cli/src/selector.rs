//! `--selector` and `--field-selector` of commands that list objects.

use std::collections::BTreeSet;
use std::fmt::Debug;

use clap::Args;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt as _};
use runtime::Absent as _;
use serde::de::DeserializeOwned;

use crate::read::api_error;

/// The selector flags, as in kubectl.
#[derive(Debug, Args)]
pub(crate) struct SelectorArguments {
    /// Show only objects with these labels. Supports '=', '==', '!=', 'in' and 'notin', such as
    /// key1=value1,key2 in (a,b).
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Show only objects with these field values, such as metadata.name=web. Which fields are
    /// supported depends on the kind.
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
}

impl SelectorArguments {
    /// The parameters of a list.
    pub(crate) fn params(&self) -> ListParams {
        ListParams {
            label_selector: self.selector.clone(),
            field_selector: self.field_selector.clone(),
            ..ListParams::default()
        }
    }

    /// The selected objects, as namespace and name; `None` if all are selected. A kind that is not installed has none.
    pub(crate) async fn selected<K>(
        &self,
        api: &Api<K>,
    ) -> anyhow::Result<Option<BTreeSet<(String, String)>>>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        if self.selector.is_none() && self.field_selector.is_none() {
            return Ok(None);
        }
        let listed = api.list_metadata(&self.params()).await.not_found_as_none();
        let listed = listed
            .map_err(|error| api_error(error).context(format!("listing {}", K::plural(&()))))?;
        let names = listed.iter().flatten();
        let names = names.map(|it| (it.namespace().unwrap_or_default(), it.name_any()));
        Ok(Some(names.collect()))
    }
}
