//! Counts of requests by host and operation.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::error::Operation;

/// Upper bound of hosts counted separately: users name hosts, so the number needs a bound.
const MAX_HOSTS: usize = 500;

/// The label of the remaining hosts.
const OTHERS: &str = "(others)";

/// Requests sent; each hop of a redirect counts for the host it went to.
#[derive(Debug, Default)]
pub struct Counts {
    hosts: Mutex<BTreeMap<String, BTreeMap<Operation, u64>>>,
    left: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    pub(crate) fn add(&self, host: &str, operation: Operation) {
        let mut hosts = self.hosts.lock();
        let host = if hosts.contains_key(host) || hosts.len() < MAX_HOSTS {
            host
        } else {
            // Each host is a series in Prometheus. Users choose image names, so without this bound one of them could
            // exhaust the memory of the monitoring stack.
            OTHERS
        };
        let count = hosts
            .entry(host.to_owned())
            .or_default()
            .entry(operation)
            .or_default();
        *count = count.saturating_add(1);
    }

    /// Records the remaining rate limit a host reported (`RateLimit-Remaining: 76;w=21600`).
    pub(crate) fn record_rate_limit(&self, host: &str, header: &str) {
        let number = header.split(';').next().unwrap_or_default().trim();
        if let Ok(number) = number.parse() {
            let mut left = self.left.lock();
            if left.contains_key(host) || left.len() < MAX_HOSTS {
                left.insert(host.to_owned(), number);
            }
        }
    }

    /// The remaining rate limit of each host that reports one, from its last response.
    pub fn left(&self) -> BTreeMap<String, u64> {
        self.left.lock().clone()
    }

    /// All requests to a host, tokens included.
    pub fn host(&self, host: &str) -> u64 {
        self.hosts
            .lock()
            .get(host)
            .map_or(0, |counts| counts.values().sum())
    }

    /// Requests to a host of one operation.
    pub fn of(&self, host: &str, operation: Operation) -> u64 {
        self.hosts
            .lock()
            .get(host)
            .and_then(|counts| counts.get(&operation).copied())
            .unwrap_or(0)
    }

    /// All counts, for metrics: host, operation, number.
    pub fn all(&self) -> Vec<(String, Operation, u64)> {
        self.hosts
            .lock()
            .iter()
            .flat_map(|(host, counts)| {
                counts
                    .iter()
                    .map(|(operation, count)| (host.clone(), *operation, *count))
            })
            .collect()
    }
}
