//! The checked-in outcome of each test of a suite.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, ensure};

/// Expected outcomes: a line for each test, and a reason after a colon for a test that does not pass.
#[derive(Debug)]
pub(super) struct Expectation(BTreeMap<String, Option<String>>);

/// A difference between expected and real outcomes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// A test that has to pass does not.
    Fails(String),
    /// A test passes that is listed as one that does not.
    Passes(String),
    /// A test is not listed.
    Unlisted(String),
    /// A listed test does not exist.
    Missing(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(test) => write!(f, "{test} does not pass"),
            Self::Passes(test) => write!(f, "{test} passes: delete its reason"),
            Self::Unlisted(test) => write!(f, "{test} is not listed"),
            Self::Missing(test) => write!(f, "{test} is listed and does not exist"),
        }
    }
}

impl Expectation {
    /// Reads a file; `#` starts a comment line.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut tests = BTreeMap::new();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (test, reason) = match line.split_once(':') {
                None => (line, None),
                Some((test, reason)) => {
                    let reason = reason.trim();
                    ensure!(!reason.is_empty(), "{test} has an empty reason");
                    (test, Some(reason.to_owned()))
                }
            };
            let twice = tests.insert(test.to_owned(), reason).is_some();
            ensure!(!twice, "{test} is listed twice");
        }
        tests.first_entry().context("no test is listed")?;
        Ok(Self(tests))
    }

    /// Compares with real outcomes: tests, and whether they passed.
    pub(super) fn compare(&self, outcomes: &[(&str, bool)]) -> Vec<Mismatch> {
        let outcomes: BTreeMap<&str, bool> = outcomes.iter().copied().collect();
        let listed = self.0.iter().filter_map(|(test, reason)| {
            match (outcomes.get(test.as_str()), reason) {
                (None, _) => Some(Mismatch::Missing(test.clone())),
                (Some(false), None) => Some(Mismatch::Fails(test.clone())),
                (Some(true), Some(_)) => Some(Mismatch::Passes(test.clone())),
                _ => None,
            }
        });
        let unlisted = outcomes
            .keys()
            .filter(|test| !self.0.contains_key(**test))
            .map(|test| Mismatch::Unlisted((*test).to_owned()));
        listed.chain(unlisted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# Comment.\nTestA\nTestB: reads etcd\n\nTestC\n";

    #[test]
    fn expected_outcomes_match() {
        let list = Expectation::parse(LIST).expect("a list");
        let outcomes = [("TestA", true), ("TestB", false), ("TestC", true)];
        assert_eq!(list.compare(&outcomes), []);
    }

    #[test]
    fn every_difference_is_a_mismatch() {
        let list = Expectation::parse(LIST).expect("a list");
        let outcomes = [("TestA", false), ("TestB", true), ("TestD", true)];
        assert_eq!(
            list.compare(&outcomes),
            [
                Mismatch::Fails("TestA".to_owned()),
                Mismatch::Passes("TestB".to_owned()),
                Mismatch::Missing("TestC".to_owned()),
                Mismatch::Unlisted("TestD".to_owned()),
            ]
        );
    }

    #[test]
    fn unusable_list_is_an_error() {
        for text in ["", "# Comment.\n", "TestA\nTestA\n", "TestA:\n"] {
            assert!(Expectation::parse(text).is_err(), "{text:?}");
        }
    }
}
