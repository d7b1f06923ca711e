//! What is said of an SSP, in the words of upstream: `Available`, `Progressing`, `Degraded` and a
//! phase.

use api::cdi::Condition;
use api::ssp::{SSP, SspStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Decision, Until};
use crate::conditions::Said;

/// The condition that says whether something is wrong.
pub const DEGRADED: &str = "Degraded";

/// The status of an SSP about which this was decided and carried out.
pub fn status(ssp: &SSP, decision: &Decision, now: Timestamp) -> SspStatus {
    let before = ssp.status.clone().unwrap_or_default();
    let leaves = ssp.metadata.deletion_timestamp.is_some();
    // An architecture that may come back is not waited for: all there should be is there.
    let waits = decision.waiting.iter();
    let mut waits = waits.filter(|it| !matches!(it.until, Until::Grace(_)));
    let first = waits.next();
    let (progresses, reason, message) = match first {
        Some(_) if leaves => (
            true,
            "Deleting",
            "what was made for it is being deleted".to_owned(),
        ),
        Some(first) => {
            let others = waits.count();
            let more = if others == 0 {
                String::new()
            } else {
                format!("; and {others} more")
            };
            (true, "Waiting", format!("{first}{more}"))
        }
        None if decision.paused => (false, "Paused", "it is left alone".to_owned()),
        None => (
            false,
            "Deployed",
            "everything is as it has to be".to_owned(),
        ),
    };
    let phase = match () {
        () if leaves => "Deleting",
        () if progresses => "Deploying",
        () => "Deployed",
    };
    let degraded = match decision.problems.first() {
        None => Said::new(DEGRADED, false, "NoProblem", "nothing is wrong"),
        Some(first) => {
            let all: Vec<String> = decision.problems.iter().map(ToString::to_string).collect();
            Said::new(DEGRADED, true, first.reason(), all.join("; "))
        }
    };
    let can_be = !decision
        .problems
        .iter()
        .any(|it| matches!(it, super::Problem::NotInstalled(_)));
    let available = if can_be {
        Said::new("Available", true, "Available", "images are kept current")
    } else {
        Said::new(
            "Available",
            false,
            degraded.reason.clone(),
            degraded.message.clone(),
        )
    };
    let mut conditions: Vec<Condition> = before
        .conditions
        .iter()
        .filter_map(|known| serde_json::from_value(known.clone()).ok())
        .collect();
    for said in [
        available,
        Said::new("Progressing", progresses, reason, message),
        degraded,
    ] {
        said.put(&mut conditions, now);
    }
    let mut rest = before.rest;
    rest.insert("phase".to_owned(), json!(phase));
    rest.insert("paused".to_owned(), json!(decision.paused));
    rest.insert(
        "observedGeneration".to_owned(),
        json!(ssp.metadata.generation.unwrap_or_default()),
    );
    SspStatus {
        conditions: conditions
            .into_iter()
            .map(|it| json!(it))
            .collect::<Vec<Value>>(),
        rest,
    }
}

/// What was said to be wrong with an SSP, if anything is.
pub fn degraded(status: Option<&SspStatus>) -> Option<Condition> {
    let known = status?.conditions.iter();
    let mut known = known.filter_map(|it| serde_json::from_value::<Condition>(it.clone()).ok());
    known.find(|it| it.kind == DEGRADED && it.status == "True")
}

#[cfg(test)]
mod tests {
    use super::super::{Problem, Waiting};
    use super::*;
    use crate::action::{Kind, named};

    fn condition(status: &SspStatus, kind: &str) -> (String, String) {
        let found = status
            .conditions
            .iter()
            .find(|it| it["type"] == kind)
            .unwrap();
        let text = |name: &str| found[name].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    fn said(status: &str, reason: &str) -> (String, String) {
        (status.to_owned(), reason.to_owned())
    }

    #[test]
    fn what_waits_progresses_and_grace_does_not() {
        let now = Timestamp::from_second(1000).unwrap();
        let mut ssp = SSP::default();
        let mut decision = Decision::default();
        let wait = |until| Waiting {
            kind: Kind::DataSource,
            of: named("images", "fedora"),
            until,
        };
        decision.waiting.push(wait(Until::Grace(now)));
        let calm = status(&ssp, &decision, now);
        assert_eq!(calm.rest["phase"], "Deployed");
        assert_eq!(condition(&calm, "Progressing"), said("False", "Deployed"));
        assert_eq!(condition(&calm, "Available"), said("True", "Available"));
        ssp.status = Some(calm.clone());
        let later = Timestamp::from_second(2000).unwrap();
        assert_eq!(
            status(&ssp, &decision, later),
            calm,
            "time alone changes nothing"
        );
        decision
            .waiting
            .push(wait(Until::Ready("fedora-arm64".to_owned())));
        let busy = status(&ssp, &decision, later);
        assert_eq!(busy.rest["phase"], "Deploying");
        assert_eq!(condition(&busy, "Progressing"), said("True", "Waiting"));
    }

    #[test]
    fn problems_are_told_and_taken_back() {
        let now = Timestamp::from_second(1000).unwrap();
        let mut ssp = SSP::default();
        let decision = Decision {
            problems: vec![
                Problem::NoName,
                Problem::NotInstalled("DataSource".to_owned()),
            ],
            ..Decision::default()
        };
        let wrong = status(&ssp, &decision, now);
        assert_eq!(
            condition(&wrong, "Degraded"),
            said("True", "TemplateWithoutName")
        );
        assert_eq!(condition(&wrong, "Available").0, "False");
        let told = degraded(Some(&wrong)).unwrap().message.unwrap();
        assert!(told.contains("; kind DataSource"), "{told}");
        ssp.status = Some(wrong);
        let right = status(&ssp, &Decision::default(), now);
        assert_eq!(degraded(Some(&right)), None);
    }
}
