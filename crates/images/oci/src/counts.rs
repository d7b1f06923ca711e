//! How often which host was asked for what.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::error::Operation;

/// Users name hosts, so that there may be any number: the rest is counted together.
const MOST_HOSTS: usize = 500;

/// The name of the rest.
const OTHERS: &str = "(others)";

/// Requests that were sent, each hop of a redirect counted with the host it went to.
#[derive(Debug, Default)]
pub struct Counts {
    hosts: Mutex<BTreeMap<String, BTreeMap<Operation, u64>>>,
    left: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    pub(crate) fn add(&self, host: &str, operation: Operation) {
        let mut hosts = self.hosts.lock();
        let host = if hosts.contains_key(host) || hosts.len() < MOST_HOSTS {
            host
        } else {
            OTHERS
        };
        let count = hosts
            .entry(host.to_owned())
            .or_default()
            .entry(operation)
            .or_default();
        *count = count.saturating_add(1);
    }

    /// Remembers what a host said of how much may still be asked (`RateLimit-Remaining: 76;w=21600`).
    pub(crate) fn said(&self, host: &str, header: &str) {
        let number = header.split(';').next().unwrap_or_default().trim();
        if let Ok(number) = number.parse() {
            let mut left = self.left.lock();
            if left.contains_key(host) || left.len() < MOST_HOSTS {
                left.insert(host.to_owned(), number);
            }
        }
    }

    /// How much may still be asked of each host that says so, as of its last answer.
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

    /// Requests to a host for one purpose.
    pub fn of(&self, host: &str, operation: Operation) -> u64 {
        self.hosts
            .lock()
            .get(host)
            .and_then(|counts| counts.get(&operation).copied())
            .unwrap_or(0)
    }

    /// Everything, for metrics: host, purpose, number.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_hosts_are_remembered() {
        let counts = Counts::default();
        counts.said("docker.io", "76;w=21600");
        counts.said("docker.io", "75;w=21600");
        counts.said("quay.io", "plenty");
        assert_eq!(
            counts.left(),
            BTreeMap::from([("docker.io".to_owned(), 75)])
        );
    }

    #[test]
    fn hosts_are_counted_up_to_a_limit() {
        let counts = Counts::default();
        for n in 0..MOST_HOSTS + 10 {
            counts.add(&format!("h{n}"), Operation::Manifest);
        }
        counts.add("h1", Operation::Token);
        assert_eq!(counts.host("h1"), 2);
        assert_eq!(counts.of("h1", Operation::Token), 1);
        assert_eq!(counts.host(OTHERS), 10);
        assert_eq!(counts.all().len(), MOST_HOSTS + 2);
    }
}
