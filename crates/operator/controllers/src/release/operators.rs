//! Decoded ClusterOperators; only changed objects are decoded again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::openshift::{ClusterOperator, ClusterOperatorSpec};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use runtime::{Cache, decode};
use tracing::warn;

/// ClusterOperators by name.
#[derive(Default)]
pub(super) struct Operators {
    known: Mutex<DecodedOperators>,
}

#[derive(Default)]
struct DecodedOperators {
    objects: HashMap<String, Arc<DynamicObject>>,
    operators: Arc<BTreeMap<String, ClusterOperator>>,
}

impl Operators {
    /// The current ClusterOperators. One that cannot be decoded counts as one that reports nothing: skipping it could
    /// complete a migration that its operator has not completed, and failing would hide all others.
    pub(super) fn read(
        &self,
        cache: &Cache<DynamicObject>,
    ) -> Arc<BTreeMap<String, ClusterOperator>> {
        let mut known = self.known.lock();
        let known = &mut *known;
        let all = cache.list();
        let operators = Arc::make_mut(&mut known.operators);
        let mut objects = HashMap::with_capacity(all.len());
        for object in all {
            let name = object.name_any();
            let same = known.objects.get(&name);
            if !same.is_some_and(|same| Arc::ptr_eq(same, &object)) {
                let operator = decode(&object).unwrap_or_else(|error| {
                    warn!(%error, "cannot decode a ClusterOperator; treating it as one without a status");
                    ClusterOperator::new(&name, ClusterOperatorSpec::default())
                });
                operators.insert(name.clone(), operator);
            }
            objects.insert(name, object);
        }
        operators.retain(|name, _| objects.contains_key(name));
        known.objects = objects;
        Arc::clone(&known.operators)
    }
}
