//! Support for models as a table: a row per node class, a column per model, and in each cell how
//! many nodes of the class support the model.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::decide::Survey;
use crate::index::{Index, Indexed, ModelId};
use crate::policy::Policy;
use crate::table::Vendor;

/// Nodes of one architecture and vendor. VMs migrate only among these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Their architecture.
    pub architecture: Option<String>,
    /// Their vendor; `None` if labels are missing or ambiguous.
    pub vendor: Option<Vendor>,
    /// Models that at least one of them supports: those that the policy admits first, best first.
    pub models: Vec<Column>,
    /// By node class, the one with the most models first.
    pub rows: Vec<Row>,
}

/// A model of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub model: String,
    /// Its launch year, if known.
    pub year: Option<i32>,
    /// How many nodes of the table support it.
    pub nodes: usize,
    /// Whether the policy admits it.
    pub choosable: bool,
}

/// A node class: the nodes with one host model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Their host model.
    pub host_model: Option<String>,
    /// Their names, sorted.
    pub nodes: Vec<String>,
    /// How many of them support each model, in the order of the columns.
    pub support: Vec<usize>,
}

/// One table per architecture and vendor, the largest first; those without models last.
pub fn matrices(index: &Index, policy: &Policy) -> Vec<Matrix> {
    type Key<'a> = (Option<&'a str>, Option<&'a Vendor>);
    let mut by_key: BTreeMap<Key<'_>, Vec<&Indexed>> = BTreeMap::new();
    for (_, node) in index.nodes() {
        let key = (node.architecture.as_deref(), node.vendor.one());
        by_key.entry(key).or_default().push(node);
    }
    let names: BTreeMap<ModelId, &str> = index
        .all_models()
        .map(|(id, label)| (id, label.model_name()))
        .collect();
    let mut survey = Survey::new(index, policy);
    let mut all: Vec<Matrix> = by_key
        .into_iter()
        .map(|((architecture, vendor), nodes)| {
            let sets = Sets::of(&nodes);
            let supported: BTreeSet<ModelId> = sets.all().collect();
            let supported: Vec<ModelId> = supported.into_iter().collect();
            // Without a vendor no model is choosable, so none is ranked.
            let best = vendor.map_or_else(Vec::new, |vendor| survey.order(vendor, &supported));
            let rank = |id: &ModelId| {
                let name = names.get(id).copied().unwrap_or_default();
                let at = best.iter().position(|it| it.model == name);
                (at.unwrap_or(usize::MAX), name)
            };
            let mut ids = supported;
            ids.sort_by_cached_key(rank);
            let columns = ids.iter().map(|id| {
                let (at, name) = rank(id);
                Column {
                    model: name.to_owned(),
                    year: policy.model(name).and_then(|it| it.year),
                    nodes: sets.count(*id),
                    choosable: at != usize::MAX,
                }
            });
            Matrix {
                architecture: architecture.map(str::to_owned),
                vendor: vendor.cloned(),
                models: columns.collect(),
                rows: rows(index, &nodes, &ids),
            }
        })
        .collect();
    let size = |it: &Matrix| it.rows.iter().map(|row| row.nodes.len()).sum::<usize>();
    all.sort_by_key(|it| (it.models.is_empty(), std::cmp::Reverse(size(it))));
    all
}

/// The distinct model sets of nodes with their counts: nodes are many, and most of a class have the
/// same set.
struct Sets<'a>(HashMap<&'a [ModelId], usize>);

impl<'a> Sets<'a> {
    fn of(nodes: &[&'a Indexed]) -> Self {
        let mut sets: HashMap<&[ModelId], usize> = HashMap::new();
        for node in nodes {
            *sets.entry(&node.models).or_default() += 1;
        }
        Self(sets)
    }

    /// Every model of any node.
    fn all(&self) -> impl Iterator<Item = ModelId> {
        self.0.keys().flat_map(|it| it.iter().copied())
    }

    /// How many nodes have a model.
    fn count(&self, id: ModelId) -> usize {
        let having = self.0.iter();
        let having = having.filter(|(models, _)| models.binary_search(&id).is_ok());
        having.map(|(_, nodes)| nodes).sum()
    }
}

fn rows(index: &Index, nodes: &[&Indexed], ids: &[ModelId]) -> Vec<Row> {
    let mut by_host_model: BTreeMap<Option<&str>, Vec<&Indexed>> = BTreeMap::new();
    for node in nodes {
        let host_model = index.host_model_of(node);
        by_host_model.entry(host_model).or_default().push(node);
    }
    let mut rows: Vec<Row> = by_host_model
        .into_iter()
        .map(|(host_model, nodes)| {
            let mut names: Vec<String> = nodes.iter().map(|it| it.name.to_string()).collect();
            names.sort();
            let sets = Sets::of(&nodes);
            Row {
                host_model: host_model.map(str::to_owned),
                nodes: names,
                support: ids.iter().map(|id| sets.count(*id)).collect(),
            }
        })
        .collect();
    // Columns begin with the best model, so that of rows with equally many models the one with
    // better models comes first.
    rows.sort_by_cached_key(|row| {
        let has: Vec<bool> = row.support.iter().map(|count| *count > 0).collect();
        std::cmp::Reverse((has.iter().filter(|has| **has).count(), has))
    });
    rows
}
