//! The budget of an evaluation.

/// Budget of one evaluation of one rule (`celconfig.PerCallLimit`).
// In `apiserver/pkg/apis/cel/config.go`; upstream derives it from about a tenth of a second of evaluation.
pub(crate) const PER_CALL: u64 = 1_000_000;
/// Work and memory that upstream's cost model does not see, in elements and words; generous, since
/// honest rules never come near it.
// Upstream's model charges 1 for `a + b` of two lists whatever their length, and nothing for values that are only
// copied; memory is bounded by this alone.
const FUEL: u64 = 20_000_000;

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fail {
    /// An error of the language, which `||`, `&&` and the quantifiers may absorb.
    Error(String),
    /// The budget is used up; nothing absorbs that.
    Limit,
}

impl Fail {
    /// An error of the language.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }

    /// No overload for the run time types.
    pub(crate) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}

/// What has been used and what may be.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Cost so far, in upstream's units.
    pub(crate) cost: u64,
    limit: u64,
    fuel: u64,
}

impl Meter {
    /// A fresh meter.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            cost: 0,
            limit,
            fuel: FUEL,
        }
    }

    /// Adds to the cost.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Fail> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            Err(Fail::Limit)
        } else {
            Ok(())
        }
    }

    /// Uses up fuel before `amount` elements are touched or words allocated.
    pub(crate) fn burn(&mut self, amount: usize) -> Result<(), Fail> {
        if let Some(left) = self.fuel.checked_sub(amount as u64) {
            self.fuel = left;
            Ok(())
        } else {
            self.fuel = 0;
            Err(Fail::Limit)
        }
    }

    /// Uses up fuel before `bytes` are allocated or scanned.
    pub(crate) fn burn_bytes(&mut self, bytes: usize) -> Result<(), Fail> {
        self.burn(bytes / 8 + 1)
    }
}

/// `ceil(size * factor / 10)`: upstream's string traversal cost is a tenth per character.
pub(crate) fn tenths(size: u64, factor: u64) -> u64 {
    size.saturating_mul(factor).div_ceil(10)
}
