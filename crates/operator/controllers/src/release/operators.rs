//! Decoded ClusterOperators; only changed objects are decoded again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::openshift::ClusterOperator;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use runtime::{Cache, Error};

use crate::status::typed;

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
    /// The current ClusterOperators.
    pub(super) fn read(
        &self,
        cache: &Cache<DynamicObject>,
    ) -> Result<Arc<BTreeMap<String, ClusterOperator>>, Error> {
        let mut known = self.known.lock();
        let known = &mut *known;
        let all = cache.list();
        let operators = Arc::make_mut(&mut known.operators);
        let mut objects = HashMap::with_capacity(all.len());
        for object in all {
            let name = object.name_any();
            let same = known.objects.get(&name);
            if !same.is_some_and(|same| Arc::ptr_eq(same, &object)) {
                operators.insert(name.clone(), typed(&object)?);
            }
            objects.insert(name, object);
        }
        operators.retain(|name, _| objects.contains_key(name));
        known.objects = objects;
        Ok(Arc::clone(&known.operators))
    }
}
