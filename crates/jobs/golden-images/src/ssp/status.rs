//! The status of an SSP, with upstream's conditions `Available`, `Progressing` and `Degraded`, and
//! a phase.

use api::cdi::Condition;
use api::ssp::{SSP, SspStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Decision, PostponedUntil};
use crate::conditions::ConditionUpdate;

/// The condition that reports problems.
pub const DEGRADED: &str = "Degraded";

/// The status of an SSP after a decision was applied.
pub fn status(ssp: &SSP, decision: &Decision, now: Timestamp) -> SspStatus {
    let before = ssp.status.clone().unwrap_or_default();
    let is_deleting = ssp.metadata.deletion_timestamp.is_some();
    // Grace periods do not count as progress: everything desired exists.
    let waits = decision.waiting.iter();
    let mut waits = waits.filter(|it| !matches!(it.until, PostponedUntil::Grace(_)));
    let first = waits.next();
    let (is_progressing, reason, message) = match first {
        Some(_) if is_deleting => (true, "Deleting", "its objects are being deleted".to_owned()),
        Some(first) => {
            let others = waits.count();
            let more = if others == 0 {
                String::new()
            } else {
                format!("; and {others} more")
            };
            (true, "Waiting", format!("{first}{more}"))
        }
        None if decision.paused => (false, "Paused", "reconciliation is paused".to_owned()),
        None => (false, "Deployed", "all objects are up to date".to_owned()),
    };
    let phase = match () {
        () if is_deleting => "Deleting",
        () if is_progressing => "Deploying",
        () => "Deployed",
    };
    let degraded = match decision.problems.first() {
        None => ConditionUpdate::new(DEGRADED, false, "NoProblem", "no problems"),
        Some(first) => {
            let all: Vec<String> = decision.problems.iter().map(ToString::to_string).collect();
            ConditionUpdate::new(DEGRADED, true, first.reason(), all.join("; "))
        }
    };
    let is_installed = !decision
        .problems
        .iter()
        .any(|it| matches!(it, super::Problem::NotInstalled(_)));
    let available = if is_installed {
        ConditionUpdate::new("Available", true, "Available", "images are kept up to date")
    } else {
        ConditionUpdate::new(
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
    for update in [
        available,
        ConditionUpdate::new("Progressing", is_progressing, reason, message),
        degraded,
    ] {
        update.put(&mut conditions, now);
    }
    // Fields of the upstream operator that are not maintained here stay, for a return to it.
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

/// The condition Degraded of an SSP, if it is True.
pub fn degraded(status: Option<&SspStatus>) -> Option<Condition> {
    let known = status?.conditions.iter();
    let mut known = known.filter_map(|it| serde_json::from_value::<Condition>(it.clone()).ok());
    known.find(|it| it.kind == DEGRADED && it.status == "True")
}

#[cfg(test)]
mod tests {
    use super::super::{PostponedWrite, Problem};
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

    fn condition_of(status: &str, reason: &str) -> (String, String) {
        (status.to_owned(), reason.to_owned())
    }

    #[test]
    fn waiting_is_progress_and_grace_is_not() {
        let now = Timestamp::from_second(1000).unwrap();
        let mut ssp = SSP::default();
        let mut decision = Decision::default();
        let wait = |until| PostponedWrite {
            kind: Kind::DataSource,
            of: named("images", "fedora"),
            until,
        };
        decision.waiting.push(wait(PostponedUntil::Grace(now)));
        let calm = status(&ssp, &decision, now);
        assert_eq!(calm.rest["phase"], "Deployed");
        assert_eq!(
            condition(&calm, "Progressing"),
            condition_of("False", "Deployed")
        );
        assert_eq!(
            condition(&calm, "Available"),
            condition_of("True", "Available")
        );
        ssp.status = Some(calm.clone());
        let later = Timestamp::from_second(2000).unwrap();
        assert_eq!(
            status(&ssp, &decision, later),
            calm,
            "the status changes without a cause"
        );
        decision
            .waiting
            .push(wait(PostponedUntil::Ready("fedora-arm64".to_owned())));
        let busy = status(&ssp, &decision, later);
        assert_eq!(busy.rest["phase"], "Deploying");
        assert_eq!(
            condition(&busy, "Progressing"),
            condition_of("True", "Waiting")
        );
    }

    #[test]
    fn problems_set_and_clear_degraded() {
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
            condition_of("True", "TemplateWithoutName")
        );
        assert_eq!(condition(&wrong, "Available").0, "False");
        let message = degraded(Some(&wrong)).unwrap().message.unwrap();
        assert!(message.contains("; kind DataSource"), "{message}");
        ssp.status = Some(wrong);
        let right = status(&ssp, &Decision::default(), now);
        assert_eq!(degraded(Some(&right)), None);
    }
}
