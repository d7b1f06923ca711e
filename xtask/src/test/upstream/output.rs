//! What Go's test binaries and Ginkgo print.

use std::fmt;

/// Outcomes of a run: Go tests and Ginkgo specs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: usize,
    pub(super) failed: usize,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Count {
    /// Counts the outcomes in the output of `-test.v`. The Go test that runs the Ginkgo specs is not counted: its specs
    /// are.
    pub(super) fn of(output: &str) -> Self {
        let count = |prefix: &str| {
            let lines = output.lines();
            lines.filter(|line| line.starts_with(prefix)).count()
        };
        let (passed, failed) = (count("--- PASS: "), count("--- FAIL: "));
        match output.lines().find_map(specs) {
            None => Self { passed, failed },
            Some(specs) => {
                // It failed if and only if a spec did.
                let runner_failed = usize::from(specs.failed > 0);
                Self {
                    passed: (passed + specs.passed).saturating_sub(1 - runner_failed),
                    failed: (failed + specs.failed).saturating_sub(runner_failed),
                }
            }
        }
    }
}

/// Ginkgo's summary: `SUCCESS! -- 3 Passed | 0 Failed | 0 Pending | 1 Skipped`.
fn specs(line: &str) -> Option<Count> {
    let (_, summary) = line.split_once(" -- ")?;
    let number = |word: &str| {
        let mut parts = summary.split(" | ");
        parts
            .find_map(|part| part.trim().strip_suffix(word))?
            .trim()
            .parse()
            .ok()
    };
    Some(Count {
        passed: number("Passed")?,
        failed: number("Failed")?,
    })
}

/// Whether a Go test passed.
pub(super) fn passes(output: &str, test: &str) -> bool {
    let passed = format!("--- PASS: {test} (");
    output.lines().any(|line| line.starts_with(&passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GINKGO: &str = "\
=== RUN   TestPod
=== RUN   TestPod/empty
--- PASS: TestPod (0.00s)
    --- PASS: TestPod/empty (0.00s)
=== RUN   TestAPIs
Running Suite: Controller Suite
Ran 3 of 4 Specs in 6.123 seconds
SUCCESS! -- 3 Passed | 0 Failed | 0 Pending | 1 Skipped
--- PASS: TestAPIs (6.13s)
PASS
";

    #[test]
    fn tests_and_specs_are_counted_once() {
        let expected = Count {
            passed: 4,
            failed: 0,
        };
        assert_eq!(Count::of(GINKGO), expected);
    }

    #[test]
    fn failed_spec_is_one_failure() {
        let output = GINKGO
            .replace(
                "SUCCESS! -- 3 Passed | 0 Failed",
                "FAIL! -- 2 Passed | 1 Failed",
            )
            .replace("--- PASS: TestAPIs", "--- FAIL: TestAPIs");
        let expected = Count {
            passed: 3,
            failed: 1,
        };
        assert_eq!(Count::of(&output), expected);
    }

    #[test]
    fn tests_without_specs_are_counted() {
        let output = "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n";
        let expected = Count {
            passed: 1,
            failed: 1,
        };
        assert_eq!(Count::of(output), expected);
    }

    #[test]
    fn skipped_or_longer_named_test_does_not_pass() {
        let output = "--- SKIP: TestA (0.00s)\n--- PASS: TestAll (0.00s)\n";
        assert!(!passes(output, "TestA"));
        assert!(passes(output, "TestAll"));
    }
}
