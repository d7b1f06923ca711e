//! The nodes that a decision reads, and a memo of the fits computed for them.
//!
//! Workloads create many pods with the same images, and thousands of images share a few platforms: the fit is computed
//! once for all of them, and again when nodes change.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fit::Fit;
use crate::images::Platforms;

/// What a fit depends on besides the nodes: the platforms of each image, and the operating system.
pub type FitKey = (Vec<Platforms>, String);

/// Fits that were computed for the current nodes. The owner of the nodes clears it when one of them changes, and
/// bounds it: users choose the platforms of their images.
pub trait FitMemo {
    /// A fit that was computed before.
    fn get(&self, key: &FitKey) -> Option<Arc<Fit>>;
    /// Keeps a fit.
    fn insert(&self, key: FitKey, fit: Arc<Fit>);
}

/// A memo for one survey, which reads one state of the nodes.
pub(crate) type SurveyMemo = RefCell<HashMap<FitKey, Arc<Fit>>>;

impl FitMemo for SurveyMemo {
    fn get(&self, key: &FitKey) -> Option<Arc<Fit>> {
        self.borrow().get(key).cloned()
    }

    fn insert(&self, key: FitKey, fit: Arc<Fit>) {
        self.borrow_mut().insert(key, fit);
    }
}

/// The nodes of a cluster, with or without a memo.
#[derive(Clone, Copy)]
pub struct Nodes<'a> {
    pub(crate) cluster: &'a Cluster,
    memo: Option<&'a dyn FitMemo>,
}

impl<'a> Nodes<'a> {
    /// Nodes for many decisions.
    pub fn with_memo(cluster: &'a Cluster, memo: &'a dyn FitMemo) -> Self {
        Self {
            cluster,
            memo: Some(memo),
        }
    }

    /// The fit, computed by `find` unless the memo has it.
    pub(crate) fn fit(&self, key: impl FnOnce() -> FitKey, find: impl FnOnce() -> Fit) -> Arc<Fit> {
        let Some(memo) = self.memo else {
            return Arc::new(find());
        };
        let key = key();
        memo.get(&key).unwrap_or_else(|| {
            let found = Arc::new(find());
            memo.insert(key, Arc::clone(&found));
            found
        })
    }
}

impl<'a> From<&'a Cluster> for Nodes<'a> {
    /// Nodes for a single decision.
    fn from(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            memo: None,
        }
    }
}
