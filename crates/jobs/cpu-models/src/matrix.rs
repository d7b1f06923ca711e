//! Nodes and the models that they support, as a picture has it: a row for every make, a column for every
//! model, and how many nodes of the make support the model where they meet.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::decide::Survey;
use crate::index::{Index, Indexed, ModelId};
use crate::policy::Policy;
use crate::table::Vendor;

/// Nodes of one architecture and vendor. Machines migrate among these alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Their architecture.
    pub architecture: Option<String>,
    /// Their vendor, if it is clear.
    pub vendor: Option<Vendor>,
    /// Models that some of them support: those that may be chosen first, the best first of all.
    pub models: Vec<Column>,
    /// By make, the one with the most models first.
    pub rows: Vec<Row>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The model.
    pub model: String,
    /// When it was launched, if a table knows.
    pub year: Option<i32>,
    /// How many nodes of the matrix support it.
    pub nodes: usize,
    /// Whether it may be chosen.
    pub choosable: bool,
}

/// Nodes of one make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The model of their own CPU.
    pub host_model: Option<String>,
    /// Their names, sorted.
    pub nodes: Vec<String>,
    /// How many of them support each model, in the order of the columns.
    pub support: Vec<usize>,
}

/// A matrix for every architecture and vendor, the one with the most nodes first; those without models last.
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
            let there: BTreeSet<ModelId> = sets.all().collect();
            let there: Vec<ModelId> = there.into_iter().collect();
            let best = vendor.map_or_else(Vec::new, |vendor| survey.order(vendor, &there));
            let rank = |id: &ModelId| {
                let name = names.get(id).copied().unwrap_or_default();
                let at = best.iter().position(|it| it.model == name);
                (at.unwrap_or(usize::MAX), name)
            };
            let mut ids = there;
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

/// The models of nodes, each set once: nodes are many, and most of a make have the same.
struct Sets<'a>(HashMap<&'a [ModelId], usize>);

impl<'a> Sets<'a> {
    fn of(nodes: &[&'a Indexed]) -> Self {
        let mut sets: HashMap<&[ModelId], usize> = HashMap::new();
        for node in nodes {
            *sets.entry(&node.models).or_default() += 1;
        }
        Self(sets)
    }

    /// Every model that some node has.
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
    let mut by_make: BTreeMap<Option<&str>, Vec<&Indexed>> = BTreeMap::new();
    for node in nodes {
        let make = index.host_model_of(node);
        by_make.entry(make).or_default().push(node);
    }
    let mut rows: Vec<Row> = by_make
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
    // Columns begin with the best model: of rows with as many, the one with better ones comes first.
    rows.sort_by_cached_key(|row| {
        let has: Vec<bool> = row.support.iter().map(|count| *count > 0).collect();
        std::cmp::Reverse((has.iter().filter(|has| **has).count(), has))
    });
    rows
}
