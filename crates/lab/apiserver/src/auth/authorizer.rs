//! RBAC over the roles and bindings in the store.
//!
//! They are kept in memory, indexed by user and group, and follow the store's log: every request
//! first reads new entries, so that a binding is effective for the first request after the one that
//! created it.

#[cfg(test)]
mod tests;

use std::ops::Bound;

use parking_lot::{RwLock, RwLockUpgradableReadGuard};

use super::attributes::Attributes;
use super::rbac::{Decision, Kind, Policy};
use super::{MASTERS, UserInfo};
use crate::store::{Store, StoreError, Watch};

/// The RBAC authorizer.
pub(crate) struct Authorizer {
    store: Store,
    followed: RwLock<Followed>,
}

/// The policy, and the log positions up to which it has been read.
struct Followed {
    policy: Policy,
    watches: [(Kind, Watch); 4],
}

impl Authorizer {
    /// An authorizer for the roles and bindings of a store.
    pub(crate) fn new(store: &Store) -> Result<Self, StoreError> {
        Ok(Self {
            store: store.clone(),
            followed: RwLock::new(Followed::read(store)?),
        })
    }

    /// Authorizes a request.
    pub(crate) fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
        // As upstream, whose authorizer for this group gives no reason.
        if user.is_in(MASTERS) {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        self.with_policy(|policy| policy.decide(user, attributes))
    }

    /// Calls `use_it` with the policy as of the last answered write.
    pub(crate) fn with_policy<T>(&self, use_it: impl FnOnce(&Policy) -> T) -> T {
        // The common path: a shared lock and four flags, no work. Upstream reads informers and is
        // behind by their latency; a test would then have to poll after each binding.
        let followed = self.followed.read();
        if !followed.is_behind() {
            return use_it(&followed.policy);
        }
        drop(followed);
        // Asked again under a lock that one caller has: the others that found it outdated wait, and
        // then find it current.
        let followed = self.followed.upgradable_read();
        if !followed.is_behind() {
            return use_it(&followed.policy);
        }
        let mut followed = RwLockUpgradableReadGuard::upgrade(followed);
        if let Err(error) = followed.catch_up() {
            // The log was compacted before it was read, so all is read anew.
            tracing::debug!(%error, "reading all roles and bindings again");
            match Followed::read(&self.store) {
                Ok(anew) => *followed = anew,
                // The old policy stays in force: rejecting every request would also lock out the
                // administrator who could repair it.
                Err(error) => tracing::error!(%error, "roles and bindings are out of date"),
            }
        }
        use_it(&followed.policy)
    }
}

impl Followed {
    fn read(store: &Store) -> Result<Self, StoreError> {
        // The log position first: changes during the lists are read twice rather than never.
        let from = store.revision();
        let watch = |kind: Kind| Ok::<_, StoreError>((kind, store.watch(&prefix(kind), from)?));
        let [a, b, c, d] = Kind::ALL;
        let watches = [watch(a)?, watch(b)?, watch(c)?, watch(d)?];
        let mut policy = Policy::default();
        for kind in Kind::ALL {
            let page = store.list(&prefix(kind), Bound::Unbounded, 0, None)?;
            for entry in &page.entries {
                // A damaged role or binding grants nothing; the others stay in force.
                if entry.damage().is_none() {
                    policy.put(kind, &*entry.object()?);
                }
            }
        }
        Ok(Self { policy, watches })
    }

    fn is_behind(&self) -> bool {
        self.watches.iter().any(|(_, watch)| watch.may_have_news())
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        for (kind, watch) in &mut self.watches {
            for event in watch.take_all()? {
                if event.entry.damage().is_some() {
                    continue;
                }
                let object = event.entry.object()?;
                if event.is_delete() {
                    self.policy.remove(*kind, &object);
                } else {
                    self.policy.put(*kind, &object);
                }
            }
        }
        Ok(())
    }
}

/// Key prefix of a kind.
fn prefix(kind: Kind) -> String {
    format!("/registry/{}/", kind.plural())
}
