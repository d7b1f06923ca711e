//! Eviction limits of the descheduler, derived from the migration limits of the HyperConverged: the eviction of a VM is
//! a migration.

use api::advisor::Input;
use serde_json::{Value, json};

use crate::profile::hyperconverged::HyperConverged;
use crate::snapshot::Snapshot;

/// A limit of the descheduler.
pub(super) struct Limit {
    /// The field of `spec.evictionLimits`.
    pub(super) field: &'static str,
    /// The field of `liveMigrationConfig` that it is derived from.
    follows: &'static str,
    /// The default if that is not set.
    fallback: i32,
}

/// Per cluster, and per node.
///
/// The fallbacks are what the descheduler operator itself uses for these profiles
/// (`defaultKVParallelMigrationsPerCluster` and `defaultKVParallelOutboundMigrationsPerNode` in
/// pkg/operator/target_config_reconciler.go).
pub(super) const ALL: [Limit; 2] = [
    Limit {
        field: "total",
        follows: "parallelMigrationsPerCluster",
        fallback: 5,
    },
    Limit {
        field: "node",
        follows: "parallelOutboundMigrationsPerNode",
        fallback: 2,
    },
];

impl Limit {
    /// The derived limit as an input of the plan.
    pub(super) fn derive(&self, snapshot: &Snapshot) -> Input {
        let source = HyperConverged::of(snapshot);
        let field = format!("liveMigrationConfig.{}", self.follows);
        let raw = source.value(&field).filter(|raw| !raw.is_null()).cloned();
        let given = raw.as_ref().and_then(Value::as_i64).filter(|raw| *raw > 0);
        let derived = given.map_or(self.fallback, scaled);
        Input {
            name: format!("evictionLimits.{}", self.field),
            path: source.path(&field),
            object: source.target,
            raw,
            derived: json!(derived),
        }
    }

    /// The value of the derived limit.
    pub(super) fn value_of(&self, input: &Input) -> i32 {
        let derived = input
            .derived
            .as_i64()
            .and_then(|value| i32::try_from(value).ok());
        derived.unwrap_or(self.fallback)
    }
}

/// From ten on, a fifth is left to migrations by other causes.
fn scaled(limit: i64) -> i32 {
    // The field is an `int32`.
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    // The formula of the prototype (`computeScaledEvictionLimit` in internal/profiles/loadaware/profile.go): changing
    // it would change applied limits on an upgrade.
    if limit < 10 {
        return limit;
    }
    let beyond = i64::from(limit - 10) * 4 / 5;
    // Four fifths of a value that fits also fit.
    i32::try_from(10 + beyond).unwrap_or(limit)
}
