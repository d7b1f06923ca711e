//! Interned node labels, each with the set of nodes that have it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::set::NodeSet;
use crate::names::{MODEL_LABEL, TRUE};

/// Index of a label (key and value) in [`Labels`].
pub(crate) type LabelId = u32;
/// Index of a model. Indexes are reused when the last node with the model is gone.
pub(crate) type ModelId = u32;

/// All labels of all nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels {
    keys: HashMap<Arc<str>, Key>,
    all: Vec<Label>,
    free: Vec<LabelId>,
    models: Vec<Option<LabelId>>,
    free_models: Vec<ModelId>,
}

#[derive(Debug, Clone, Default)]
struct Key {
    nodes: NodeSet,
    values: BTreeMap<Arc<str>, LabelId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) key: Arc<str>,
    pub(crate) value: Arc<str>,
    pub(crate) nodes: NodeSet,
    /// Set if the label declares support for a model.
    pub(crate) model: Option<ModelId>,
}

impl Label {
    /// The name of the model that the label declares.
    pub(crate) fn model_name(&self) -> &str {
        self.key.strip_prefix(MODEL_LABEL).unwrap_or_default()
    }
}

impl Labels {
    /// Records that a node has a label.
    pub(crate) fn put(&mut self, key: &str, value: &str, node: u32) -> LabelId {
        let id = self
            .find(key, value)
            .unwrap_or_else(|| self.add(key, value));
        let label = &mut self.all[id as usize];
        label.nodes.insert(node);
        if let Some(key) = self.keys.get_mut(key) {
            key.nodes.insert(node);
        }
        id
    }

    /// Records that a node no longer has a label; must run before another value of the same key is
    /// recorded, because it also clears the key's node set. A label without nodes is freed.
    pub(crate) fn take(&mut self, id: LabelId, node: u32) {
        let label = &mut self.all[id as usize];
        label.nodes.remove(node);
        let gone = label.nodes.is_empty();
        let Some(key) = self.keys.get_mut(&label.key) else {
            return;
        };
        key.nodes.remove(node);
        if !gone {
            return;
        }
        key.values.remove(&label.value);
        if key.values.is_empty() {
            self.keys.remove(&label.key);
        }
        if let Some(model) = label.model.take() {
            self.models[model as usize] = None;
            self.free_models.push(model);
        }
        self.free.push(id);
    }

    pub(crate) fn find(&self, key: &str, value: &str) -> Option<LabelId> {
        self.keys.get(key)?.values.get(value).copied()
    }

    pub(crate) fn label(&self, id: LabelId) -> &Label {
        &self.all[id as usize]
    }

    /// The nodes that have this label.
    pub(crate) fn with(&self, key: &str, value: &str) -> Option<&NodeSet> {
        Some(&self.label(self.find(key, value)?).nodes)
    }

    /// The nodes that have a label with this key.
    pub(crate) fn with_key(&self, key: &str) -> Option<&NodeSet> {
        Some(&self.keys.get(key)?.nodes)
    }

    /// The values of a key, each with the nodes that have it.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = (&str, &NodeSet)> {
        let values = self.keys.get(key).into_iter().flat_map(|key| &key.values);
        values.map(|(value, id)| (&**value, &self.label(*id).nodes))
    }

    /// The capacity for a table by [`ModelId`].
    pub(crate) fn model_places(&self) -> usize {
        self.models.len()
    }

    /// The models that at least one node supports.
    pub(crate) fn models(&self) -> impl Iterator<Item = (ModelId, &Label)> {
        let places = self.models.iter().enumerate();
        places.filter_map(|(place, id)| Some((place.try_into().ok()?, self.label((*id)?))))
    }

    pub(crate) fn model(&self, id: ModelId) -> Option<&Label> {
        let label = (*self.models.get(id as usize)?)?;
        Some(self.label(label))
    }

    fn add(&mut self, key: &str, value: &str) -> LabelId {
        let key_text = match self.keys.get_key_value(key) {
            Some((text, _)) => text.clone(),
            None => Arc::from(key),
        };
        let value: Arc<str> = Arc::from(value);
        // Only `true`: the proof of concept ignores the value, so that `"false"` declares support.
        let is_model = &*value == TRUE && key.strip_prefix(MODEL_LABEL).is_some();
        let id = self.free.pop().unwrap_or_else(|| next(self.all.len()));
        let model = is_model.then(|| {
            let place = self.free_models.pop();
            let place = place.unwrap_or_else(|| {
                self.models.push(None);
                next(self.models.len() - 1)
            });
            self.models[place as usize] = Some(id);
            place
        });
        let label = Label {
            key: key_text.clone(),
            value: value.clone(),
            nodes: NodeSet::default(),
            model,
        };
        match self.all.get_mut(id as usize) {
            Some(place) => *place = label,
            None => self.all.push(label),
        }
        self.keys
            .entry(key_text)
            .or_default()
            .values
            .insert(value, id);
        id
    }
}

/// Indexes are 32 bits wide: four thousand million labels do not fit into memory.
pub(super) fn next(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
